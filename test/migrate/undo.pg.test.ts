// Tests `svc migrate down` with data steps, which are undone.
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { aWorld, type World } from './world.ts';

const SVC = fileURLToPath(new URL('../../bin/svc.js', import.meta.url));

let world: World;
let folder: string;
beforeAll(async () => {
  world = await aWorld();
  folder = await mkdtemp(join(tmpdir(), 'svc-undo-'));
  await mkdir(join(folder, 'steps'));
});
afterAll(async () => {
  await rm(folder, { recursive: true });
  await world.close();
});
beforeEach(async () => {
  await world.empty();
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

async function apply(yaml: string): Promise<void> {
  await writeFile(join(folder, 'svc.yaml'), yaml);
  expect(await svc('migrate', 'apply', '--allow-rollback')).toMatchObject({ code: 0 });
}

const people = (...fields: string[]): string =>
  'version: 1\ntables:\n  people:\n    rls: []\n    fields:\n      - { name: id, type: integer, primary_key: true }\n' +
  fields.map((field) => `      - ${field}\n`).join('');
const steps = (...list: object[]): string => `migrations: { steps: ${JSON.stringify(list)} }\n`;

const BEFORE = people('{ name: name, type: text, required: true }');
const AFTER = people(
  '{ name: first, type: text, required: true }',
  '{ name: last, type: text, required: true }',
);
const SPLIT = {
  name: 'split-names',
  sql: `update people set first = split_part(name, ' ', 1), last = split_part(name, ' ', 2)`,
};
const JOIN = `update people set name = first || ' ' || last`;
const names = (): Promise<Record<string, unknown>[]> => world.sql('select id, name from people order by id');
const ledger = (): Promise<Record<string, unknown>[]> =>
  world.sql('select name, state from svc_meta.data_step order by name');

test('a split column is joined, including new rows, and required again', async () => {
  await apply(BEFORE);
  await world.sql(`insert into people values (1, 'Ada Lovelace')`);
  await writeFile(join(folder, 'steps', 'join.sql'), JOIN);
  const yaml = AFTER + steps({ ...SPLIT, undo: { file: 'steps/join.sql' } });
  await apply(yaml);
  await world.sql(`insert into people (id, first, last) values (2, 'Alan', 'Turing')`);

  const { code, out } = await svc('migrate', 'down');
  expect([code, out]).toEqual([0, expect.stringContaining('data step split-names: undone')]);
  expect(await names()).toEqual([
    { id: 1, name: 'Ada Lovelace' },
    { id: 2, name: 'Alan Turing' },
  ]);
  await expect(world.sql(`insert into people (id) values (3)`)).rejects.toThrow(/name/);
  expect(await ledger()).toEqual([]);

  // The step runs again when the newer file is applied again.
  await world.sql(`insert into people (id, name) values (3, 'Grace Hopper')`);
  await apply(yaml);
  expect(await world.sql('select last from people where id = 3')).toEqual([{ last: 'Hopper' }]);
  expect(await ledger()).toEqual([{ name: 'split-names', state: 'done' }]);
});

test('if only the step is new, the earlier file counts as applied after the undo', async () => {
  const counters = people('{ name: n, type: integer, default: 0 }');
  await apply(counters);
  await world.sql('insert into people select i, 0 from generate_series(1, 7) as i');
  const batch = { table: 'people', size: 2 };
  const step = (by: string): string => `update people set n = n ${by} where id between $1 and $2`;
  await apply(counters + steps({ name: 'count', sql: step('+ 1'), undo: step('- 1'), batch }));
  expect(await world.sql('select distinct n from people')).toEqual([{ n: 1 }]);

  expect(await svc('migrate', 'down')).toMatchObject({ code: 0 });
  expect(await world.sql('select distinct n from people')).toEqual([{ n: 0 }]);
  expect(await ledger()).toEqual([]);
  await writeFile(join(folder, 'svc.yaml'), counters);
  expect(await svc('migrate', 'plan', '--check')).toMatchObject({ code: 0 });
});

test('an undo that fails keeps the newer file and is retried', async () => {
  await apply(BEFORE);
  await world.sql(`insert into people values (1, 'Ada Lovelace')`);
  await apply(
    AFTER +
      steps({
        ...SPLIT,
        undo: 'update people set name = 7 / (length(last) - 8)',
      }),
  );
  expect(await svc('migrate', 'down')).toMatchObject({
    code: 6,
    out: expect.stringMatching(/MIG-601[^]*division by zero/),
  });
  expect(await ledger()).toEqual([{ name: 'split-names', state: 'done' }]);
  await world.sql(`update people set last = 'x'`);
  expect(await svc('migrate', 'down')).toMatchObject({ code: 0 });
  expect(await names()).toEqual([{ id: 1, name: '-1' }]);
});

test('without undo, the plan and the rollback report that the rows stay', async () => {
  await apply(BEFORE);
  await world.sql(`insert into people values (1, 'Ada Lovelace')`);
  await writeFile(join(folder, 'svc.yaml'), AFTER + steps(SPLIT));
  expect((await svc('migrate', 'plan')).out).toContain(
    'split-names has no undo: svc migrate down does not change its rows',
  );
  expect(await svc('migrate', 'apply')).toMatchObject({ code: 0 });
  expect((await svc('migrate', 'down')).out).toContain('split-names: has no undo');
  expect(await ledger()).toEqual([{ name: 'split-names', state: 'done' }]);
});
