// Tests data steps. Each runs once per database, between the additions of a file and its requirements and removals.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { aWorld, type World } from './world.ts';

let world: World;
beforeAll(async () => {
  world = await aWorld();
});
afterAll(() => world.close());
beforeEach(async () => {
  await world.empty();
});

const people = (...fields: string[]): string =>
  'tables:\n  people:\n    rls: []\n    fields:\n      - { name: id, type: integer, primary_key: true }\n' +
  fields.map((field) => `      - ${field}\n`).join('');
const steps = (...list: object[]): string => `migrations: { steps: ${JSON.stringify(list)} }\n`;

const BEFORE = people('{ name: name, type: text, required: true }');
const AFTER = people(
  '{ name: first, type: text, required: true, unique: true }',
  '{ name: last, type: text, required: true }',
);
const SPLIT = {
  name: 'split-names',
  sql: `update people set first = split_part(name, ' ', 1), last = split_part(name, ' ', 2);`,
};
const ledger = (): Promise<Record<string, unknown>[]> =>
  world.sql('select name, state from svc_meta.data_step order by name');
const fill = async (): Promise<void> => {
  await world.settle(BEFORE);
  await world.sql(`insert into people values (1, 'Ada Lovelace'), (2, 'Alan Turing')`);
};

describe('a step after expand', () => {
  test('fills new columns from a removed column, and the new columns are required in the same deployment', async () => {
    await fill();
    const yaml = AFTER + steps(SPLIT);
    const plan = await world.plan(yaml);
    expect(plan.problems).toEqual([]);
    expect(plan.notes).toContain('data step split-names runs after this, once');
    await world.settle(yaml);
    expect(await world.sql('select first, last from people order by id')).toEqual([
      { first: 'Ada', last: 'Lovelace' },
      { first: 'Alan', last: 'Turing' },
    ]);
    expect(
      await world.sql(
        `select attname as name from pg_attribute where attrelid = 'people'::regclass and attnum > 0 and attnotnull
          order by attnum`,
      ),
    ).toEqual([{ name: 'id' }, { name: 'first' }, { name: 'last' }]);
    expect(await ledger()).toEqual([{ name: 'split-names', state: 'done' }]);
    expect((await world.apply(yaml)).kind).toBe('unchanged');
  });

  test('that fails keeps the additions, skips the requirements, and is retried', async () => {
    await fill();
    const broken = AFTER + steps({ name: 'split-names', sql: 'update people\nset first = 1 / 0' });
    const outcome = await world.apply(broken);
    expect(outcome).toMatchObject({ kind: 'refused', begun: true });
    expect(await world.refusal(broken)).toEqual([
      expect.stringMatching(/^MIG-601 svc\.yaml:.*division by zero/),
    ]);
    expect(await ledger()).toEqual([]);
    expect(await world.sql('select name, first from people where id = 1')).toEqual([
      { name: 'Ada Lovelace', first: null },
    ]);
    await world.settle(AFTER + steps(SPLIT));
    expect(await world.sql('select first from people where id = 1')).toEqual([{ first: 'Ada' }]);
  });

  test('the next run continues a run that ended before a statement, and the step runs once', async () => {
    const counted = { ...SPLIT, sql: `${SPLIT.sql} update runs set n = n + 1;` };
    const runs =
      '  runs:\n    rls: []\n' +
      '    fields: [{ name: id, type: integer, primary_key: true }, { name: n, type: integer }]\n';
    await world.settle(BEFORE + runs);
    await world.sql(`insert into people values (1, 'Ada Lovelace'); insert into runs values (1, 0)`);
    const yaml = AFTER + runs + steps(counted);
    for (let survived = 0; ; survived += 1) {
      let seen = 0;
      const onStatement = (): void => {
        seen += 1;
        if (seen > survived) throw new Error('the process ends');
      };
      const outcome = await world.apply(yaml, {}, { onStatement }).catch(() => null);
      if (outcome !== null) break;
    }
    await world.settle(yaml);
    expect(await world.sql('select first from people')).toEqual([{ first: 'Ada' }]);
    expect(await world.sql('select n from runs')).toEqual([{ n: 1 }]);
  });

  test('eight instances that start concurrently run the step once', async () => {
    const yaml =
      people('{ name: n, type: integer }') +
      steps({ name: 'count', sql: 'select pg_sleep(0.1); update people set n = coalesce(n, 0) + 1' });
    await world.settle(people());
    await world.sql('insert into people values (1)');
    const outcomes = await Promise.all(Array.from({ length: 8 }, () => world.apply(yaml)));
    expect(outcomes.filter(({ kind }) => kind === 'refused')).toEqual([]);
    expect(await world.sql('select n from people')).toEqual([{ n: 1 }]);
  });

  test('a deployment that failed between the parts can be repeated with the same number', async () => {
    await fill();
    await world.settle(BEFORE, { allowRollback: false, deploySeq: 1 });
    const yaml = AFTER + steps(SPLIT);
    const policy = { allowRollback: false, deploySeq: 2 };
    let seen = 0;
    const onStatement = (step: { summary: string }): void => {
      if (step.summary === 'commit' && (seen += 1) === 2) throw new Error('the process ends');
    };
    await expect(world.apply(yaml, policy, { onStatement })).rejects.toThrow('the process ends');
    expect((await world.apply(yaml, policy)).kind).toBe('applied');
    expect((await world.apply(BEFORE, { allowRollback: false, deploySeq: 1 })).kind).toBe('superseded');
  });
});

test('a step with after: start runs before the change that needs it', async () => {
  await fill();
  await world.sql(`insert into people values (3, '')`);
  const yaml =
    people(`{ name: name, type: text, required: true, check: "name <> ''" }`) +
    steps({
      name: 'no-empty-names',
      after: 'start',
      sql: `update people set name = 'Unnamed' where name = ''`,
    });
  await world.settle(yaml);
  expect(await world.sql('select name from people where id = 3')).toEqual([{ name: 'Unnamed' }]);
});

test('a step with after: contract runs after the whole file is applied', async () => {
  await fill();
  const yaml =
    AFTER + steps(SPLIT, { name: 'shout', after: 'contract', sql: 'update people set last = upper(last)' });
  await world.settle(yaml);
  expect(await world.sql('select last from people where id = 1')).toEqual([{ last: 'LOVELACE' }]);
});

test('a new database skips a step, unless it has on_empty: run', async () => {
  const yaml =
    AFTER +
    steps(SPLIT, {
      name: 'first-person',
      on_empty: 'run',
      sql: `insert into people values (1, 'Ada', 'Lovelace')`,
    });
  await world.settle(yaml);
  expect(await ledger()).toEqual([
    { name: 'first-person', state: 'done' },
    { name: 'split-names', state: 'skipped' },
  ]);
  expect(await world.sql('select first from people')).toEqual([{ first: 'Ada' }]);
});

test('a step that was edited after it ran does not run again', async () => {
  await fill();
  await world.settle(AFTER + steps(SPLIT));
  await world.settle(AFTER + steps({ ...SPLIT, sql: `update people set first = 'x' || id` }));
  expect(await world.sql('select first from people where id = 1')).toEqual([{ first: 'Ada' }]);
});

test.each([
  ['alter table people add column extra text', 'MIG-603'],
  ['create table others (id integer)', 'MIG-603'],
  ['update people set id = id; commit', 'MIG-603'],
  ['update poeple set id = id', 'MIG-601'],
])('a step that does more than change rows is refused: %s', async (sql, code) => {
  await fill();
  expect(await world.refusal(BEFORE + steps({ name: 'wrong', sql }))).toEqual([
    expect.stringContaining(code),
  ]);
  await world.settle(BEFORE);
});

describe('a step in batches', () => {
  const counters = people('{ name: n, type: integer, default: 0 }', '{ name: m, type: integer }');
  const counting = (sql = 'update people set n = n + 1 where id between $1 and $2'): string =>
    counters + steps({ name: 'count', sql, batch: { table: 'people', size: 3 } });

  test('that is interrupted ten times updates each row once', async () => {
    await world.settle(counters);
    await world.sql('insert into people (id, n) select i, 0 from generate_series(1, 40) as i');
    const breaks = (id: number): string =>
      counting(`update people set n = n + 1, m = 1 / (id - ${id}) where id between $1 and $2`);
    for (let killed = 1; killed <= 10; killed += 1)
      expect(await world.refusal(breaks(killed * 4))).toEqual([
        expect.stringMatching(/^MIG-601 .*the earlier batches are done.*division by zero/),
      ]);
    expect(await ledger()).toEqual([{ name: 'count', state: 'running' }]);
    await world.settle(counting());
    expect(await world.sql('select n, count(*)::int as rows from people group by n')).toEqual([
      { n: 1, rows: 40 },
    ]);
    expect(await ledger()).toEqual([{ name: 'count', state: 'done' }]);
    expect((await world.apply(counting())).kind).toBe('unchanged');
  });

  test('needs a table with a primary key of one column', async () => {
    await world.settle(counters);
    expect(await world.refusal(counting().replace('"table":"people"', '"table":"nobody"'))).toEqual([
      expect.stringMatching(/^MIG-601 .*no table nobody/),
    ]);
  });
});
