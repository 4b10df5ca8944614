// Realtime of a project: published tables, and access to private channels.
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { prepare } from '../../src/import/prepare.ts';
import { parseAddress } from '../../src/postgres/address/parse-address.ts';
import { parseConfig } from '../migrate/parse-config.ts';
import { aWorld, type World } from '../migrate/world.ts';
import { createProject, type SupabaseProject } from './supabase-project.ts';

let project: SupabaseProject;
let world: World;
beforeAll(async () => {
  [project, world] = await Promise.all([createProject(), aWorld()]);
  const client = new pg.Client({ connectionString: project.url });
  await client.connect();
  await client.query(`
    create schema realtime;
    create table realtime.messages (topic text not null, extension text not null, payload jsonb, event text,
      private boolean default false, updated_at timestamp not null default now(),
      inserted_at timestamp not null default now(),
      id uuid not null default gen_random_uuid(), primary key (id, inserted_at)) partition by range (inserted_at);
    create function realtime.topic() returns text language sql stable
      as $$ select nullif(current_setting('realtime.topic', true), '') $$;
    alter table realtime.messages enable row level security;
    create table public.rooms (id bigint primary key, name text, owner uuid);
    alter table public.rooms enable row level security;
    create policy "own rooms" on public.rooms for select to authenticated using (owner = auth.uid());
    create publication supabase_realtime for table public.rooms;
    create policy "members" on realtime.messages for all to authenticated
      using (exists (select from public.rooms r
        where r.owner = (select auth.uid()) and 'room:' || r.name = realtime.topic()));
    create policy "news" on realtime.messages for select using (topic = 'news');
    create policy "only broadcast" on realtime.messages as restrictive for insert to authenticated
      with check (extension = 'broadcast');
    create policy "never" on realtime.messages for update using (true)`);
  await client.end();
});
afterAll(async () => {
  await world.close();
  await project.drop();
});

test('prepare writes realtime tables and channel policies, and its output applies unchanged', async () => {
  const text = (await prepare(parseAddress(project.url))).replace('version: 1\n', '');
  const config = parseConfig(text);
  expect(config.tables.filter(({ realtime }) => realtime).map(({ name }) => name)).toEqual(['rooms']);
  expect(config.realtime.rls.map(({ operations, to, type }) => [operations, to, type])).toEqual([
    [['select', 'insert'], ['authenticated'], 'permissive'],
    [['select'], undefined, 'permissive'],
    [['insert'], ['authenticated'], 'restrictive'],
  ]);
  expect(text).toContain('policy never: messages of channels are received and sent, and never changed');

  await world.settle(text);
  expect(
    await world.sql(
      `select cmd, roles::text as roles from pg_policies where schemaname = 'realtime' order by cmd, roles::text`,
    ),
  ).toEqual([
    { cmd: 'INSERT', roles: '{authenticated}' },
    { cmd: 'INSERT', roles: '{authenticated}' },
    { cmd: 'SELECT', roles: '{anon,authenticated}' },
    { cmd: 'SELECT', roles: '{authenticated}' },
  ]);
});
