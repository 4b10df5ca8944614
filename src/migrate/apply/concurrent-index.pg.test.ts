import { afterAll, beforeAll, expect, test } from 'vitest';
import { startOwnerWorld, type OwnerWorld } from '../../../test/support/owner-world.ts';
import type { OwnerDatabase } from '../../postgres/owner-database.ts';
import { raw } from '../../postgres/sql.ts';
import type { Step } from '../plan/step.ts';
import { buildIndex } from './concurrent-index.ts';
import type { ExecuteSettings } from './settings.ts';

let world: OwnerWorld;
let owner: OwnerDatabase;

beforeAll(async () => {
  world = await startOwnerWorld();
  ({ owner } = world);
  await owner.query(
    raw(`create table public.people as select n as id, 'same' as mail from generate_series(1, 2) n`),
  );
});
afterAll(() => world.close());

test('an invalid index is dropped and built again', async () => {
  const create = 'create index concurrently people_mail on public.people (mail)';
  await owner.session(async (session) => {
    // Two equal rows make the build of a unique index fail, which leaves an invalid index.
    const unique = create.replace('create index', 'create unique index');
    await expect(session.query(raw(unique))).rejects.toThrow('could not create unique index');
    const step = { sql: create } as Step;
    await buildIndex(session, step, 'public', 'people_mail', { searchPath: 'public' } as ExecuteSettings);
  });
  const built = await owner.query(
    raw(`select indisvalid, indisunique from pg_index where indexrelid = 'public.people_mail'::regclass`),
  );
  expect(built).toEqual([{ indisvalid: true, indisunique: false }]);
});
