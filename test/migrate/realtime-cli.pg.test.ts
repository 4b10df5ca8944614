// Tests `plan`, `drift`, `status` and `down` for published tables and private channels.
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { aWorld, type World } from './world.ts';
import { scaled } from '../support/run/scaled.ts';

const SVC = fileURLToPath(new URL('../../bin/svc.js', import.meta.url));

let world: World;
let folder: string;
beforeAll(async () => {
  world = await aWorld();
  folder = await mkdtemp(join(tmpdir(), 'svc-realtime-'));
});
afterAll(async () => {
  await rm(folder, { recursive: true });
  await world.close();
});

type Ran = { readonly code: number; readonly out: string };

function svc(...args: string[]): Promise<Ran> {
  const env = { ...process.env, SVC_DATABASE_URL: world.url, NO_COLOR: '1' };
  return new Promise((resolve) => {
    execFile(process.execPath, [SVC, ...args], { cwd: folder, env }, (error, stdout, stderr) => {
      const code = error && typeof error.code === 'number' ? error.code : 0;
      resolve({ code, out: stdout + stderr });
    });
  });
}

async function database(): Promise<{ members: string[]; identity: string; policies: number }> {
  const [row] = await world.sql(`select
    array(select tablename::text from pg_publication_tables where pubname = 'svc_realtime' and schemaname = 'public'
      order by 1) as members,
    (select relreplident::text from pg_class where oid = to_regclass('notes')) as identity,
    (select count(*)::int from pg_policies where schemaname = 'realtime') as policies`);
  return row as { members: string[]; identity: string; policies: number };
}

const PLAIN = `version: 1
tables:
  notes:
    fields: [{ name: id, type: integer, primary_key: true }]
    rls: []
`;
const PUBLISHED = `${PLAIN}    realtime: { old: full }
realtime:
  rls: [{ operations: [select], using: topic = 'news' }]
`;

test('from the first plan to the rollback', { timeout: scaled(300_000) }, async () => {
  await writeFile(join(folder, 'svc.yaml'), PLAIN);
  expect(await svc('migrate', 'apply')).toMatchObject({ code: 0 });

  await writeFile(join(folder, 'svc.yaml'), PUBLISHED);
  const { out } = await svc('migrate', 'plan');
  expect(out).toMatch(/ {2}tables\.notes .*svc\.yaml:3:3\n(?: {4}.*\n)* {4}\+ changes are published/);
  expect(out).toMatch(
    / {2}realtime\n(?: {4}.*\n)* {4}\+ policy: anon, authenticated can read rows where topic = 'news'/,
  );
  expect(out).toContain('with old: full each update and delete writes the whole row to the write-ahead log');
  expect(await svc('migrate', 'apply')).toMatchObject({ code: 0 });
  const told = { members: ['notes'], identity: 'f', policies: 1 };
  expect(await database()).toEqual(told);
  expect(await svc('migrate', 'drift')).toMatchObject({ code: 0, out: expect.stringContaining('no drift') });

  await world.sql(`create table by_hand (id integer primary key); alter publication svc_realtime add table by_hand;
    alter publication svc_realtime drop table notes; drop policy svc_channels_p1_select on realtime.messages`);
  const drift = await svc('migrate', 'drift');
  expect(drift.code).toBe(4);
  expect(drift.out).toContain('unmanaged  member of the publication svc_realtime: public.by_hand');
  expect(drift.out).toContain('+ tables.notes.realtime: changes are published');
  expect(drift.out).toContain('+ realtime.rls: policy: anon, authenticated can read');
  expect((await svc('migrate', 'status')).out).toContain(
    'member of the publication svc_realtime: public.by_hand',
  );
  expect(await svc('migrate', 'apply')).toMatchObject({ code: 0 });
  expect(await database()).toEqual({ ...told, members: ['by_hand', 'notes'] });

  const back = await svc('migrate', 'down');
  expect(back).toMatchObject({ code: 0 });
  expect(await database()).toEqual({ members: ['by_hand'], identity: 'd', policies: 0 });
  expect(await svc('migrate', 'apply', '--allow-rollback')).toMatchObject({ code: 0 });
  expect(await database()).toEqual({ ...told, members: ['by_hand', 'notes'] });
});
