// Column grants of the file through supabase-js: the error lists the columns that the caller may read.
import { createClient } from '@supabase/supabase-js';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';

let world: BackendWorld;
beforeAll(async () => {
  world = await startBackendWorld(`
version: 1
tables:
  people:
    rls: [{ operations: [all], using: 'true', with_check: 'true' }]
    grants: { anon: [{ select: [id, name] }, insert], authenticated: [] }
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: name, type: text }
      - { name: salary, type: integer }
  teams:
    rls: [{ operations: [all], using: 'true', with_check: 'true' }]
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: lead, foreign_key: { references: people.id } }
`);
});
afterAll(() => world?.close());

const client = () => createClient(world.url, world.keys.publishable, { auth: { persistSession: false } });

test('a read of all columns with a partial grant is refused with the readable columns', async () => {
  const refused = await client().from('people').select();
  expect(refused).toMatchObject({
    status: 401,
    error: { code: '42501', hint: 'Of people this caller may read id, name: name the columns in select.' },
  });
  expect((await client().from('people').select('id, name')).error).toBeNull();
  const embedded = await client().from('teams').select('id, people(*)');
  expect(embedded.error?.hint).toContain('may read id, name');
});

test('a refusal for another reason does not mention columns', async () => {
  const written = await client().from('people').update({ name: 'x' }).eq('id', 1);
  expect(written.error).toMatchObject({ code: '42501' });
  expect(written.error?.hint).not.toContain('may read');
  expect((await client().from('teams').select()).error).toBeNull();
});
