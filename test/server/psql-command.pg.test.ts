// `svc psql`: opens psql as the chosen caller, and keeps the password secret.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from '@supabase/supabase-js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { withoutPsql } from '../support/peers/psql.ts';
import { runSvc, startSvc, type SvcProcess } from '../support/svc-process.ts';

const KEYS = {
  SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaa',
  SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
};
const YAML = `version: 1
tables:
  notes:
    fields:
      - { name: owner, type: uuid, default: { sql: auth.uid() } }
      - { name: text, type: text, primary_key: true }
    rls: [{ operations: [select, insert], check: owner = auth.uid() }]
`;

describe.skipIf(withoutPsql !== undefined)('svc psql', () => {
  let folder: string;
  let database: TestDatabase;
  let svc: SvcProcess;
  const psql = async (as: string, ...args: readonly string[]) => {
    const options = ['psql', '--as', as, '--config', join(folder, 'svc.yaml'), '--', '-X', '-At'];
    return await runSvc([...options, ...args], { env: { ...KEYS, SVC_DATABASE_URL: database.url } });
  };

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'svc-psql-'));
    writeFileSync(join(folder, 'svc.yaml'), YAML);
    database = await createDatabase();
    svc = await startSvc({
      command: 'serve',
      config: join(folder, 'svc.yaml'),
      arguments: ['--migrate'],
      env: { ...KEYS, SVC_DATABASE_URL: database.url },
    });
    for (const name of ['ann', 'bob smith']) {
      const app = createClient(svc.url, svc.publishableKey, { auth: { persistSession: false } });
      const account = { email: `${name.split(' ')[0]}@example.com`, password: 'correct horse battery' };
      await app.auth.signUp({ ...account, options: { data: { name, path: 'a\\b' } } });
      expect((await app.from('notes').insert({ text: `of ${name}` })).error).toBeNull();
    }
  });
  afterAll(async () => {
    await svc?.stop();
    await database?.drop();
    rmSync(folder, { recursive: true, force: true });
  });

  test.each([
    ['owner', 'svc_owner|2'],
    ['service_role', 'service_role|2'],
    ['anon', 'anon|0'],
    ['bob@example.com', 'authenticated|1'],
  ])('as %s', async (as, seen) => {
    const { code, output } = await psql(as, '-c', 'select current_user, count(*) from notes');
    expect([code, output.trim().split('\n').at(-1)]).toEqual([0, seen]);
  });

  test('the exit code is that of psql, and an unknown caller is reported', async () => {
    expect((await psql('owner', '-v', 'ON_ERROR_STOP=1', '-c', 'select nonsense')).code).toBe(1);
    const nobody = await psql('nobody@example.com', '-c', 'select 1');
    expect([nobody.code, nobody.output]).toEqual([1, expect.stringMatching(/no user nobody@example.com/)]);
    const none = await runSvc(['psql', '--config', join(folder, 'svc.yaml')], {
      env: { ...KEYS, SVC_DATABASE_URL: database.url, SVC_PG_BIN: folder },
    });
    expect([none.code, none.output]).toEqual([78, expect.stringMatching(/psql was not found.*svc sql/s)]);
  });

  test.runIf(process.platform === 'linux')(
    'no password is in the list of processes, no key in its environment',
    async () => {
      const { output } = await psql('owner', '-c', String.raw`\! cat /proc/$PPID/cmdline; echo; env`);
      const [, password] = /^PGPASSWORD=(.*)$/m.exec(output) ?? [];
      const commandLine = output.split('\n').find((line) => line.includes('psql\0')) ?? '';
      expect(commandLine).toContain('psql\0-X');
      if (password) expect(commandLine).not.toContain(password);
      expect(output).not.toContain(KEYS.SVC_SECRET_KEY);
      expect(output).not.toContain(database.url);
    },
  );
});
