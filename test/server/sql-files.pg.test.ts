// `svc dev` with SQL files: they are watched, their mistakes are reported with their place, and `expose` decides which
// of their objects are served.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from '@supabase/supabase-js';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { runSvc, startSvc, type SvcProcess } from '../support/svc-process.ts';

const YAML = `version: 1
project: { name: notes }
sql: sql/*.sql
expose: { functions: [shout, { name: whisper, auth_required: true }], relations: [loud_notes] }
tables:
  notes:
    fields: [{ name: id, type: bigserial, primary_key: true }, { name: title, type: text }]
    rls: [{ operations: [select, insert], check: "true" }]
`;
const SQL = `create function shout(words text) returns text language sql immutable as $$ select upper(words) $$;
create function whisper(words text) returns text language sql immutable as $$ select lower(words) $$;
create function secret() returns text language sql as $$ select 'hidden' $$;
create view loud_notes with (security_invoker = on) as select id, shout(title) as title from notes;
`;

let folder: string;
let database: TestDatabase;
let svc: SvcProcess;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'svc-sql-'));
  mkdirSync(join(folder, 'sql'));
  writeFileSync(join(folder, 'svc.yaml'), YAML);
  writeFileSync(join(folder, 'sql/app.sql'), SQL);
  database = await createDatabase();
  svc = await startSvc({
    command: 'dev',
    config: join(folder, 'svc.yaml'),
    env: { SVC_DATABASE_URL: database.url },
  });
});
afterAll(async () => {
  await svc?.stop();
  await database?.drop();
  rmSync(folder, { recursive: true });
});

const client = () => createClient(svc.url, svc.publishableKey, { auth: { persistSession: false } });

test('only exposed objects are served, to the declared roles', async () => {
  const app = client();
  await app.from('notes').insert({ title: 'Quiet' });
  expect((await app.rpc('shout', { words: 'ah' })).data).toBe('AH');
  expect((await app.rpc('whisper', { words: 'Ah' })).status).toBe(401);
  expect((await app.rpc('secret')).status).toBe(404);
  expect((await app.from('loud_notes').select()).data).toEqual([{ id: 1, title: 'QUIET' }]);
});

test('a change is served; a mistake is reported with its place, and nothing is lost', async () => {
  const file = join(folder, 'sql/app.sql');
  writeFileSync(file, SQL.replace('select upper(words)', `select upper(words) || '!'`));
  await expect.poll(async () => (await client().rpc('shout', { words: 'ah' })).data).toBe('AH!');
  writeFileSync(file, `${SQL}\ncreate table more (id int);\n`);
  await expect
    .poll(() => svc.output())
    .toMatch(/app\.sql:6:1 error sql\n(.*\n){2}\s+CREATE TABLE is not supported/);
  writeFileSync(file, `${SQL}create view broken as select nothing_like_it from notes;\n`);
  await expect.poll(() => svc.output()).toMatch(/app\.sql:5:\d+[^\n]*[^]*nothing_like_it/);
  expect((await client().rpc('shout', { words: 'ah' })).data).toBe('AH!');
});

test('a new file is applied', async () => {
  writeFileSync(join(folder, 'sql/app.sql'), SQL);
  writeFileSync(
    join(folder, 'sql/more.sql'),
    `create function before_note() returns trigger language plpgsql
      as $$ begin new.title := coalesce(new.title, 'Untitled'); return new; end $$;
     create trigger before_note before insert on notes for each row execute function before_note();`,
  );
  await expect
    .poll(async () => (await client().from('notes').insert({}).select('title').single()).data?.title)
    .toBe('Untitled');
});

test('the combined file is equivalent, and a manual change is drift', async () => {
  const at = ['--config', join(folder, 'svc.yaml')];
  const env = { SVC_DATABASE_URL: database.url };
  const printed = await runSvc(['config', 'print', join(folder, 'svc.yaml')]);
  expect([printed.code, /^sql:/m.test(printed.output)]).toEqual([0, false]);
  writeFileSync(join(folder, 'one.yaml'), printed.output);
  const plan = await runSvc(['migrate', 'plan', '--config', join(folder, 'one.yaml')], { env });
  expect(plan.output).toContain('nothing to do');
  const { Client } = (await import('pg')).default;
  const admin = new Client(database.url);
  await admin.connect();
  await admin.query(
    `create or replace function shout(words text) returns text language sql immutable as $$ select 'no' $$`,
  );
  await admin.end();
  const drift = await runSvc(['migrate', 'drift', ...at], { env });
  expect(drift.output).toMatch(/shout/);
  expect((await runSvc(['validate', ...at])).code).toBe(0);
  expect(readFileSync(join(folder, 'sql/app.sql'), 'utf8')).toBe(SQL);
});
