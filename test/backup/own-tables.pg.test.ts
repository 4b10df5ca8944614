// Tables of svc in a backup and a clone. A new table must be added here, so that excluding it is a decision.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { saveForClone } from '../../src/backup/clone/clone.ts';
import { saveRows } from '../../src/backup/rows/save-rows.ts';
import { folderWriter } from '../../src/backup/write-file.ts';
import { readRun } from '../../src/migrate/state/history.ts';
import { parseAddress } from '../../src/postgres/address/parse-address.ts';
import { oneTransaction } from '../../src/postgres/bulk/one-transaction.ts';
import { raw } from '../../src/postgres/sql.ts';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';

type Carried = 'both' | 'backup' | 'neither';

const TABLES: Readonly<Record<string, Carried>> = {
  'auth.audit_log_entries': 'backup',
  'auth.email_throttle': 'backup',
  'auth.ended_sessions': 'backup',
  'auth.flow_state': 'backup',
  'auth.identities': 'both',
  'auth.keyring': 'backup',
  'auth.mail_outbox': 'backup',
  'auth.mfa_amr_claims': 'backup',
  'auth.mfa_challenges': 'backup',
  'auth.mfa_factors': 'backup',
  'auth.one_time_tokens': 'backup',
  'auth.rate_limits': 'neither',
  'auth.refresh_tokens': 'backup',
  'auth.sessions': 'backup',
  'auth.signing_keys': 'backup',
  'auth.trusted_networks': 'backup',
  'auth.users': 'both',
  'storage.blob_gc': 'neither',
  'storage.buckets': 'both',
  'storage.deletion_hold': 'neither',
  'storage.object_refs': 'backup',
  'storage.objects': 'both',
  'storage.pending_blobs': 'neither',
  'storage.ref_deletions': 'backup',
  'storage.resumable_uploads': 'neither',
  'storage.settings': 'neither',
  'svc_meta.backup': 'neither',
  'svc_meta.config': 'backup',
  'svc_meta.dashboard_sessions': 'neither',
  'svc_meta.data_step': 'both',
  'svc_meta.import': 'backup',
  'svc_meta.import_row': 'backup',
  'svc_meta.instance_state': 'neither',
  'svc_meta.key_alias': 'backup',
  'svc_meta.object': 'neither',
  'svc_meta.provision_step': 'neither',
  'svc_meta.rename': 'backup',
  'svc_meta.restore': 'neither',
  'svc_meta.run': 'neither',
  'svc_meta.seed': 'both',
  'svc_meta.stamp': 'neither',
  'svc_meta.step': 'neither',
};

let world: BackendWorld;
let folder: string;
beforeAll(async () => {
  world = await startBackendWorld('version: 1\n');
  folder = mkdtempSync(join(tmpdir(), 'svc-own-tables-'));
});
afterAll(async () => {
  await world.close();
  rmSync(folder, { recursive: true, force: true });
});

test('each table of svc is in a backup and a clone, in a backup only, or in neither', async () => {
  const address = parseAddress(world.databaseUrl);
  const cloned = await saveForClone(address, join(folder, 'clone'), {
    masks: [],
    tables: new Map(),
    files: 'all',
  });
  const { own, saved } = await oneTransaction(
    { address, access: 'read only', applicationName: 'test' },
    async (session) => {
      const tables = await session.query<{ name: string }>(
        raw(`select schemaname || '.' || tablename as name from pg_tables
          where schemaname in ('auth', 'storage', 'svc_meta') order by 1`),
      );
      const run = await readRun(session);
      if (run === null) throw new Error('nothing was applied');
      const rows = await saveRows(session, run.model, folderWriter(join(folder, 'backup')));
      return { own: tables.map(({ name }) => name), saved: rows };
    },
  );
  const found = own.map((name): [string, Carried] => [
    name,
    name in cloned.rows ? 'both' : name in saved ? 'backup' : 'neither',
  ]);
  expect(Object.fromEntries(found)).toEqual(TABLES);
  expect(Object.keys(cloned.rows).filter((name) => !(name in saved))).toEqual([]);
});
