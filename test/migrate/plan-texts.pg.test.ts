// Tests the text of plans: they describe effects, with names of the file instead of internal terms.
import { afterEach, beforeEach, expect, test } from 'vitest';
import { renderPlan } from '../../src/migrate/commands/render.ts';
import type { MigrateOptions } from '../../src/migrate/migrate.ts';
import { aWorld, type World } from './world.ts';

let world: World;
beforeEach(async () => {
  world = await aWorld();
});
afterEach(() => world.close());

async function printed(yaml: string, policy?: MigrateOptions['policy']): Promise<string> {
  const plan = await world.plan(yaml, policy);
  return renderPlan(plan, { paint: (_style, text) => text, locate: () => null, database: 'app' });
}

const INTERNAL = /svc_|shadow|cutover|[A-Z]{4,}_[A-Z]+/;

const file = (mood: string, fields: string, more = ''): string => `
types:
  mood: { enum: [${mood}] }
tables:
  people:
    fields:
      - { name: id, type: serial, primary_key: true }
      - { name: mood, type: mood, required: true }
${fields}${more}`;
const BEFORE = file(
  'good, bad, odd',
  `      - { name: name, type: text }
      - { name: size, type: integer }
    rls: [{ operations: [select], using: size > 0 }]
`,
);
const AFTER = file(
  'good, bad',
  `      - { name: title, renamed_from: name, type: text }
      - { name: note, type: text, required: true, backfill: "'n' || id" }
    rls: [{ operations: [select, insert, update, delete], using: 'true' }]
`,
  `rpc:
  f: { language: sql, volatility: stable, returns: { type: integer }, body: select 1 }
`,
);

async function fill(): Promise<void> {
  await world.settle(BEFORE);
  await world.sql(
    "insert into people (name, mood, size) select 'x', 'good', n from generate_series(1, 20) n",
  );
  await world.sql('analyze people');
}

test.each([
  ['the direct form', {}],
  ['the form for a large table', { maxWriteBlockMs: 0 }],
])('%s describes the changes and who is affected', async (_form, policy) => {
  await fill();
  const text = await printed(AFTER, policy);
  expect(text).not.toMatch(INTERNAL);
  expect(text).toContain('column mood former type → public.mood');
  expect(text).toContain('- former type mood dropped');
  expect(text).toContain('+ policy: anon, authenticated can read and change every row');
  expect(text).toContain('+ function f: anon, authenticated, service_role may call it');
  expect(text).toMatch(/note: column size of people was added by run \d+ on \d{4}-\d\d-\d\d \(/);
  const lines = text.split('\n').map((line) => line.trim());
  const fills = lines.filter((line) => line.startsWith('~ fill note'));
  expect(new Set(fills).size).toBe(fills.length);
  expect(lines.at(-1)).toMatch(/^If a statement of the transaction fails, the transaction is rolled back\./);
});

test('a rename is compatible, because the API accepts both names', async () => {
  await fill();
  const renamed = BEFORE.replace('name: name,', 'name: title, renamed_from: name,');
  const text = await printed(renamed, { strictRollout: true });
  expect(text).toContain('rename column name → title: the API understands both names');
  expect(text).not.toContain('breaks');
  await world.settle(renamed, { strictRollout: true });
});

test('an object that keeps the former type is reported with its name in the file', async () => {
  await fill();
  await world.sql('create function by_hand(mood) returns integer language sql return 1');
  const text = await printed(AFTER);
  expect(text).toContain('function by_hand(mood) is not in the file');
  expect(text).not.toMatch(INTERNAL);
});

test('a plain table that becomes partitioned is refused with instructions to move its rows', async () => {
  await fill();
  const text = await printed(
    BEFORE.replace(
      '    rls:',
      '    partition_by: { range: [id] }\n    partitions: [{ name: people_all, values: default }]\n    rls:',
    ),
  );
  expect(text).toContain(
    'PostgreSQL cannot partition an existing table: its rows have to move to a new table',
  );
});
