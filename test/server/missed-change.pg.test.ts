// A schema change whose notification was missed.
import { expect, test } from 'vitest';
import { raw } from '../../src/postgres/sql.ts';
import { startBackendWorld } from '../support/backend-world.ts';

const YAML = `version: 1
project: { name: missed }
tables:
  notes:
    fields: [{ name: id, type: integer, primary_key: true }]
    rls: [{ operations: [select], using: "true" }]
`;

test('it is seen when versions are compared', async () => {
  const world = await startBackendWorld(YAML, { compareSchemaEveryMs: 100 });
  try {
    const version = (): number => world.backend.snapshot().version;
    const { catalog } = world.backend.snapshot();
    const before = version();
    await world.owner.transaction(async (transaction) => {
      await transaction.query(raw('alter table public.notes add column more text'));
      await transaction.query(raw('update svc_meta.stamp set complete = complete'));
    });
    await expect.poll(version).toBe(before + 1);
    expect(world.backend.snapshot().catalog).not.toBe(catalog);
  } finally {
    await world.close();
  }
});

/** Turns off the periodic comparison of the schema. */
const WITHOUT_CLOCK = { compareSchemaEveryMs: 3_600_000 };

test('a rename by hand is noticed by the first statement that fails', async () => {
  const world = await startBackendWorld(YAML, WITHOUT_CLOCK);
  const get = (path: string): Promise<Response> =>
    fetch(`${world.url}/rest/v1/${path}`, { headers: { apikey: world.keys.publishable } });
  try {
    expect((await get('notes?select=id')).status).toBe(200);
    const { version } = world.backend.snapshot();
    await world.owner.query(raw('alter table public.notes rename column id to number'));
    // Without the column the request is wrong, now and with the new catalog.
    await get('notes?select=id');
    expect(world.backend.snapshot().version).toBe(version + 1);
    // Further failures do not read the catalog: nothing has changed.
    for (let n = 0; n < 5; n++) await get('notes?select=id');
    expect(world.backend.snapshot().version).toBe(version + 1);
  } finally {
    await world.close();
  }
});

test('manual DDL is noticed by the periodic comparison, and rows and TRUNCATE do not count', async () => {
  const world = await startBackendWorld(YAML, { compareSchemaEveryMs: 50 });
  const version = (): number => world.backend.snapshot().version;
  try {
    const before = version();
    await world.owner.query(raw('insert into public.notes values (1)'));
    await world.owner.query(raw('truncate public.notes'));
    await world.owner.query(raw('alter table public.notes add column more text'));
    await expect.poll(version).toBe(before + 1);
    await world.owner.query(raw('create view public.more as select 1 as one'));
    await expect.poll(version).toBe(before + 2);
    await world.owner.query(raw('create or replace view public.more as select 1 as one, 2 as two'));
    await expect.poll(version).toBe(before + 3);
  } finally {
    await world.close();
  }
});
