// Restores a backup into an empty database and an empty store. Everything is verified before the first write, and all
// rows are written in one transaction: an interrupted restore leaves no rows and can be repeated.
import { pipeline } from 'node:stream/promises';
import type { DatabaseAddress } from '../postgres/address/database-address.ts';
import type { OwnerDatabase } from '../postgres/owner-database.ts';
import { raw, sql } from '../postgres/sql.ts';
import { Problem } from '../problem/problem.ts';
import type { Backend } from '../storage/backend/backend.ts';
import { countRows } from './backup.ts';
import {
  blobPath,
  DATABASE,
  type Digest,
  backupFolder,
  hashFile,
  computeKeyCheck,
  listBackups,
  type Manifest,
  readBlobs,
  readManifest,
} from './manifest.ts';
import { findTool, pipeTool } from '../postgres/pg-tools.ts';
import { openPlain, openSealed, SEALED, type OpenFile } from './seal.ts';
import { FileMissing, type Target } from './target/target.ts';
import { reportProgress } from '../lib/progress.ts';

const AT_ONCE = 8;

/** Answers its folder. `id`: the newest when absent. */
export async function chooseBackup(target: Target, id: string | undefined): Promise<string> {
  const all = await listBackups(target);
  const chosen = id === undefined || id === 'latest' ? all.at(-1) : all.find((backup) => backup === id);
  if (chosen !== undefined) return backupFolder(chosen);
  throw new Problem(
    'no_backup',
    500,
    id === undefined
      ? `There is no whole backup in ${target.name}`
      : `There is no backup ${id} in ${target.name}`,
    {
      hint:
        all.length === 0
          ? 'Name the place that svc backup --to was given.'
          : `There are: ${all.slice(-5).join(', ')}.`,
    },
  );
}

/**
 * Returns the function that opens the files of a backup. Throws for an encrypted backup without a private key.
 */
export async function createOpener(
  target: Target,
  folder: string,
  identity: string | undefined,
): Promise<OpenFile> {
  const { recipients } = await readManifest(target, folder);
  if (recipients.length === 0) return openPlain(target);
  if (identity !== undefined && identity !== '') return await openSealed(target, identity);
  throw new Problem('backup_sealed', 500, `${folder} is encrypted`, {
    details: `to ${recipients.join(', ')}`,
    hint: 'Name the file with a private key: --identity <file>, or SVC_BACKUP_IDENTITY_FILE.',
  });
}

/** Reads every byte of it. Throws for the first that is not as it was. */
export async function verifyBackup(target: Target, folder: string): Promise<Manifest> {
  const manifest = await readManifest(target, folder);
  for (const [name, wanted] of Object.entries(manifest.parts))
    await assertSame(target, `${folder}/${name}`, wanted);
  const ending = manifest.recipients.length === 0 ? '' : SEALED;
  const blobs = readBlobs(target, folder);
  const work = async (): Promise<void> => {
    for (let next = await blobs.next(); !next.done; next = await blobs.next()) {
      const { version, bytes, sha256 } = next.value;
      await assertSame(target, `${blobPath(manifest.store, version)}${ending}`, { bytes, sha256 });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return manifest;
}

async function assertSame(target: Target, path: string, wanted: Digest): Promise<void> {
  const found = await hashFile(target, path).catch((cause: unknown) => {
    if (!(cause instanceof FileMissing)) throw cause;
    throw damaged(path, 'is missing', cause);
  });
  if (found.bytes !== wanted.bytes || found.sha256 !== wanted.sha256)
    throw damaged(path, 'is not as it was written');
}

function damaged(path: string, reason: string, cause?: unknown): Problem {
  return new Problem('backup_damaged', 500, `${path} ${reason}`, {
    hint: 'Use another backup. svc backup verify lists the intact ones.',
    cause,
  });
}

export function assertKey(manifest: Manifest, secrets: readonly string[]): void {
  if (secrets.some((secret) => computeKeyCheck(secret) === manifest.keyCheck)) return;
  throw new Problem('restore_wrong_key', 500, 'The secret key is another one than when the backup was made', {
    hint:
      'Set SVC_AUTH_ENCRYPTION_KEY or SVC_SECRET_KEY to the value at the time of the backup: ' +
      'it encrypts signing keys and second factors.',
  });
}

export async function restoreBlobs(
  target: Target,
  folder: string,
  backend: Backend,
  open: OpenFile,
): Promise<{ readonly files: number; readonly bytes: number }> {
  await backend.check();
  const { store } = await readManifest(target, folder);
  const waiting = await Array.fromAsync(readBlobs(target, folder));
  const files = waiting.length;
  const bytes = waiting.reduce((sum, blob) => sum + (blob.size ?? blob.bytes), 0);
  const work = async (): Promise<void> => {
    for (let next = waiting.pop(); next; next = waiting.pop()) {
      reportProgress('restoring files', files - waiting.length, files);
      const source = (await open(blobPath(store, next.version))) as AsyncIterable<Buffer>;
      await backend.write(next.version, source, next.size ?? next.bytes);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return { files, bytes };
}

/** The roles must be there. */
export async function restoreDump(
  folder: string,
  manifest: Manifest,
  address: DatabaseAddress,
  env: Readonly<Record<string, string | undefined>>,
  open: OpenFile,
): Promise<void> {
  reportProgress('running pg_restore');
  const tool = await findTool('pg_restore', Math.floor(manifest.postgres / 10_000), env);
  const args = ['--exit-on-error', '--single-transaction', `--dbname=${address.database}`];
  const dump = `${folder}/${DATABASE}`;
  await pipeTool(tool, args, address, async ({ stdin }) => await pipeline(await open(dump), stdin));
}

export type Settled = {
  /** Mails that waited then and may have been sent since. */
  readonly mails: number;
};

export type SettleOptions = {
  readonly keepMail: boolean;
  /**
   * The orphan scan must not delete files of this age or younger, because the restored rows do not know them yet.
   */
  readonly sweepAfterMs: number;
};

/** Resets state that depends on the previous location and time. */
export async function settle(
  owner: OwnerDatabase,
  manifest: Manifest,
  { keepMail, sweepAfterMs }: SettleOptions,
): Promise<Settled> {
  await owner.session(async (session) => {
    // A backup of rows has those of a partitioned table as a whole, a dump those of each partition.
    const counts = await countRows(session, { wholly: true });
    const wrong = Object.entries(manifest.rows).filter(([table, rows]) => counts[table] !== rows);
    const [first] = wrong;
    if (first)
      throw new Problem(
        'restore_incomplete',
        500,
        `${wrong.length} tables have a different number of rows than the backup: ` +
          `${first[0]} has ${counts[first[0]] ?? 'none'} of ${first[1]}`,
      );
  });
  return await owner.transaction(async (transaction) => {
    // The next start records the new location of the files.
    await transaction.query(raw(`delete from storage.settings where key = 'location'`));
    await transaction.query(raw('delete from storage.deletion_hold'));
    await transaction.query(raw('delete from svc_meta.instance_state'));
    await transaction.query(raw('delete from svc_meta.backup'));
    await transaction.query(sql`
      insert into svc_meta.restore (taken_at, sweep_from)
      values (${manifest.takenAt}, now() + make_interval(secs => ${sweepAfterMs / 1_000}))
      on conflict (one) do update set taken_at = excluded.taken_at, restored_at = now(),
        sweep_from = excluded.sweep_from`);
    if (keepMail) return { mails: 0 };
    const mails = await transaction.query(
      raw(`delete from auth.mail_outbox where state in ('pending', 'sending', 'uncertain') returning id`),
    );
    return { mails: mails.length };
  });
}
