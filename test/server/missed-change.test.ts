// A change of the schema whose notification nobody heard.
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
