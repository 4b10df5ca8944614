// A program that is older than the database reports it, and changes nothing.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { expect, test } from 'vitest';
import { createDatabase } from '../support/database.ts';
import { provisionAt } from '../support/provision.ts';
import { runSvc } from '../support/svc-process.ts';

test('commands on a database of a newer version end with 78 and name the version', async () => {
  const database = await createDatabase();
  const folder = mkdtempSync(join(tmpdir(), 'svc-newer-'));
  try {
    writeFileSync(
      join(folder, 'svc.yaml'),
      'version: 1\nproject: { name: newer }\n' +
        'tables: { notes: { fields: [{ name: id, type: bigint, primary_key: true }], rls: false } }\n',
    );
    await provisionAt(database.url);
    const client = new pg.Client(database.url);
    await client.connect();
    try {
      await client.query(
        `insert into svc_meta.provision_step (id, min_version) values ('auth-900', '99.1.0')`,
      );
      const env = {
        SVC_DATABASE_URL: database.url,
        SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaa',
        SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
      };
      for (const command of [
        ['serve', '--migrate', '--port', '0'],
        ['migrate', 'apply'],
        ['seed'],
        ['types'],
      ]) {
        const { code, output } = await runSvc([...command, '--config', join(folder, 'svc.yaml')], { env });
        expect(output).toMatch(/needs 99\.1\.0 or newer.*Nothing was changed/s);
        expect(output).toContain('Use svc 99.1.0 or newer');
        expect([command[0], code]).toEqual([command[0], 78]);
      }
      const { rows } = await client.query(`select to_regclass('public.notes') as notes`);
      expect(rows).toEqual([{ notes: null }]);
    } finally {
      await client.end();
    }
  } finally {
    await database.drop();
    rmSync(folder, { recursive: true, force: true });
  }
});
