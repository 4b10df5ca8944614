// Tests materialized views: filled at creation, replaced by a view that was filled in the background if this takes
// long, and refreshed without blocking readers.
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { refreshViews } from '../../src/migrate/commands/refresh.ts';
import { parseConfig } from './parse-config.ts';
import { pulled } from './pulled.ts';
import { aWorld, type World } from './world.ts';

let world: World;
beforeAll(async () => {
  world = await aWorld();
});
afterAll(() => world.close());
beforeEach(async () => {
  await world.empty();
});

const sales = (...fields: string[]): string =>
  'tables:\n  sales:\n    rls: []\n    fields:\n      - { name: id, type: integer, primary_key: true }\n' +
  ['{ name: day, type: date }', ...fields].map((field) => `      - ${field}\n`).join('');
const AMOUNT = '{ name: amount, type: integer }';
const view = (name: string, query: string, more = 'materialized: true'): string =>
  `  ${name}: { query: ${JSON.stringify(query)}, ${more} }\n`;
const file = (...views: string[]): string =>
  `${sales(AMOUNT)}${views.length === 0 ? '' : `views:\n${views.join('')}`}`;
const BY_DAY = 'select day, sum(amount) as total from sales group by day';
const UNIQUE = 'materialized: true, indexes: [{ columns: [day], unique: true }]';

const summaries = async (yaml: string, policy = {}): Promise<string[]> =>
  (await world.plan(yaml, policy)).steps.map(({ lane, sign, summary }) => `${lane} ${sign} ${summary}`);
const rows = (name: string): Promise<Record<string, unknown>[]> => world.sql(`select * from ${name}`);
const readOid = async (name: string): Promise<unknown> =>
  (await world.sql(`select to_regclass('${name}')::oid as oid`))[0]?.['oid'];
const fill = (): Promise<unknown> =>
  world.sql(
    `insert into sales select n, date '2026-01-01' + n % 2, n from generate_series(1, 4) n; analyze sales`,
  );
/** Every view with rows is too large to be filled under a lock. */
const LARGE = { maxWriteBlockMs: 0 };

describe('a materialized view', () => {
  test('is created with its rows and indexes, and only service_role can read it', async () => {
    await world.settle(file());
    await fill();
    await world.settle(file(view('by_day', BY_DAY, UNIQUE)));
    expect(await rows('by_day')).toHaveLength(2);
    expect(
      await world.sql(
        `select has_table_privilege('anon', 'by_day', 'select') as anon,
          has_table_privilege('service_role', 'by_day', 'select') as service`,
      ),
    ).toEqual([{ anon: false, service: true }]);
    expect(await world.sql(`select indexname as name from pg_indexes where tablename = 'by_day'`)).toEqual([
      { name: 'by_day_day_uidx' },
    ]);
  });

  test('with a slow query is filled after the transaction', async () => {
    await world.settle(file());
    await fill();
    const yaml = file(view('by_day', BY_DAY, UNIQUE), view('top', 'select max(total) as total from by_day'));
    expect(await summaries(yaml, LARGE)).toContain('online ~ view by_day: fill');
    await world.settle(yaml, LARGE);
    expect(await rows('by_day')).toHaveLength(2);
    expect(await rows('top')).toEqual([{ total: '6' }]);
  });

  test('that an interrupted run left empty is filled by the next run', async () => {
    const yaml = file(view('by_day', BY_DAY));
    await world.settle(yaml);
    await world.sql('refresh materialized view by_day with no data');
    await world.settle(yaml);
    expect(await rows('by_day')).toEqual([]);
  });

  test('has an empty plan after a refresh', async () => {
    const yaml = file(view('by_day', BY_DAY, UNIQUE));
    await world.settle(yaml);
    await world.sql('refresh materialized view by_day; refresh materialized view concurrently by_day');
    expect(await world.apply(yaml)).toMatchObject({ kind: 'unchanged', plan: null });
  });

  test('can get, change and lose indexes', async () => {
    const indexed = (indexes: string): string =>
      file(view('by_day', BY_DAY, `materialized: true, indexes: ${indexes}`));
    await world.settle(indexed('[]'));
    const before = await readOid('by_day');
    await world.settle(
      indexed(
        '[{ columns: [day], unique: true }, { columns: [{ expression: total + 1 }], where: total > 0 }]',
      ),
    );
    await world.settle(indexed('[{ columns: [day], unique: true, name: by_day_key }, { columns: [total] }]'));
    await world.settle(indexed('[{ columns: [{ column: total, order: desc }] }]'), LARGE);
    expect(await readOid('by_day')).toBe(before);
    expect(await world.sql(`select indexdef from pg_indexes where tablename = 'by_day'`)).toEqual([
      { indexdef: expect.stringContaining('(total DESC)') },
    ]);
  });

  test('can become a view, and a view can become a materialized view', async () => {
    const above = view('top', 'select max(total) as total from by_day', 'security: invoker');
    await world.settle(file(view('by_day', BY_DAY, 'comment: sums'), above));
    await world.settle(file(view('by_day', BY_DAY, `${UNIQUE}, comment: sums`), above));
    await world.settle(file(view('by_day', BY_DAY, 'comment: sums'), above));
  });

  test('can be removed between other views', async () => {
    await world.settle(
      file(
        view('a', 'select id, day from sales', 'security: invoker'),
        view('b', 'select day, count(*) as n from a group by day'),
        view('c', 'select max(n) as n from b', 'security: invoker'),
      ),
    );
    await world.settle(file());
    expect([await readOid('a'), await readOid('b'), await readOid('c')]).toEqual([null, null, null]);
  });

  test('can be renamed', async () => {
    await world.settle(file(view('by_day', BY_DAY, UNIQUE)));
    const before = await readOid('by_day');
    await world.settle(file(view('per_day', BY_DAY, `${UNIQUE}, renamed_from: by_day`)));
    expect(await readOid('per_day')).toBe(before);
  });

  test.each([
    [
      'its query',
      'drop materialized view by_day; create materialized view by_day as select day, 1::bigint as total from sales',
    ],
    ['an index of it', 'drop index by_day_day_uidx; create index mine on by_day (total)'],
    ['its grants', 'grant select on by_day to anon'],
    ['its comment', `comment on materialized view by_day is 'mine'`],
  ])('is restored after a manual change of %s', async (_name, statement) => {
    const yaml = file(view('by_day', BY_DAY, UNIQUE));
    await world.settle(yaml);
    await world.sql(`set role svc_owner; ${statement}; reset role`);
    expect((await world.plan(yaml)).steps).not.toEqual([]);
    await world.settle(yaml);
  });
});

describe('a changed query', () => {
  const next = `${BY_DAY} having sum(amount) > 4`;
  const before = file(
    view('by_day', BY_DAY, UNIQUE),
    view('top', 'select max(total) as total from by_day', 'security: invoker'),
  );
  const after = before.replace(BY_DAY, next);

  test.each([{}, LARGE])('replaces the view and its readers: %o', async (policy) => {
    await world.settle(before);
    await fill();
    await world.settle(after, policy);
    expect(await rows('by_day')).toHaveLength(1);
    expect(await rows('top')).toEqual([{ total: '6' }]);
    expect(await world.sql(`select indexname as name from pg_indexes where tablename = 'by_day'`)).toEqual([
      { name: 'by_day_day_uidx' },
    ]);
  });

  test('is filled in a second view while the old view is readable', async () => {
    await world.settle(before);
    await fill();
    // A query that waits for a lock.
    await world.sql(`create function wait() returns boolean language plpgsql volatile as $$ begin
      perform pg_advisory_xact_lock(4711); return true; end $$; grant execute on function wait to svc_owner`);
    const slow = before.replace(BY_DAY, `${BY_DAY} having public.wait()`);
    const gate = new pg.Client(world.url);
    await gate.connect();
    try {
      await gate.query('select pg_advisory_lock(4711)');
      const run = world.settle(slow, LARGE);
      await expect
        .poll(() =>
          world.sql(`select from pg_locks where locktype = 'advisory' and objid = 4711 and not granted`),
        )
        .toHaveLength(1);
      const reader = new pg.Client(world.url);
      await reader.connect();
      try {
        await reader.query(`set lock_timeout = '100ms'`);
        expect((await reader.query('select * from by_day')).rows).toEqual([]);
        await reader.query(`insert into sales values (9, '2026-01-01', 9)`);
      } finally {
        await reader.end();
      }
      await gate.query('select pg_advisory_unlock(4711)');
      await run;
      expect(await rows('top')).toEqual([{ total: '6' }]);
    } finally {
      await gate.end();
    }
  });

  test('is filled again after a run that ended before the cutover', async () => {
    await world.settle(before);
    await fill();
    const failing = world.apply(after, LARGE, {
      onStatement: ({ lane }) => {
        if (lane === 'cutover') throw new Error('the process is gone');
      },
    });
    await expect(failing).rejects.toThrow('the process is gone');
    expect(await world.sql(`select from pg_matviews where matviewname like 'svc\\_n\\_%'`)).toHaveLength(1);
    await world.settle(after, LARGE);
    expect(await world.sql('select matviewname as name from pg_matviews')).toEqual([{ name: 'by_day' }]);
  });

  test('that is reverted leaves no temporary objects', async () => {
    await world.settle(before);
    await fill();
    const failing = world.apply(after, LARGE, {
      onStatement: ({ lane }) => {
        if (lane === 'cutover') throw new Error('the process is gone');
      },
    });
    await expect(failing).rejects.toThrow('the process is gone');
    await world.settle(before, LARGE);
    expect(await world.sql('select matviewname as name from pg_matviews')).toEqual([{ name: 'by_day' }]);
  });
});

describe('a column that it reads', () => {
  const of = (type: string, query = BY_DAY): string =>
    `${sales(`{ name: amount, type: ${type} }`)}views:\n${view('by_day', query, UNIQUE)}`;

  test('changes its type', async () => {
    await world.settle(of('integer'));
    await fill();
    await world.settle(of('bigint'));
    expect(await rows('by_day')).toHaveLength(2);
  });

  test('changes its type, which is refused unless allowed if filling takes long', async () => {
    await world.settle(of('integer'));
    await fill();
    expect(await world.refusal(of('bigint'), LARGE)).toEqual([
      expect.stringMatching(
        /^MIG-301 svc\.yaml:\d+:\d+: a relation that the materialized view by_day reads changes/,
      ),
    ]);
    await world.settle(of('bigint'), { ...LARGE, allow: ['rewrite=views.by_day'] });
    expect(await rows('by_day')).toHaveLength(2);
  });

  test('is replaced by another column whose type changes too', async () => {
    await world.settle(of('integer', 'select distinct day from sales'));
    await fill();
    expect(
      await world.refusal(of('text', 'select day, max(amount) as most from sales group by day'), LARGE),
    ).toEqual([
      expect.stringMatching(/^MIG-301 .*a relation that the materialized view by_day reads changes/),
    ]);
    const policy = { ...LARGE, allow: ['rewrite=views.by_day'] };
    await world.settle(of('text', 'select day, max(amount) as most from sales group by day'), policy);
    expect(await world.sql('select most from by_day order by day')).toEqual([{ most: '4' }, { most: '3' }]);
  });

  test('belongs to a table with row-level security, which the plan reports', async () => {
    const open = file(view('by_day', BY_DAY, `${UNIQUE}, expose: true, grants: { authenticated: [select] }`));
    const { hints, problems } = await world.plan(open);
    expect(problems).toEqual([]);
    expect(hints.map(({ code, at, message }) => `${code} ${at} ${message}`)).toEqual([
      'MIG-303 views.by_day.grants the view bypasses the row-level security of public.sales for authenticated (select)',
    ]);
    expect((await world.plan(file(view('by_day', BY_DAY)))).hints).toEqual([]);
  });
});

test('a unique index that two rows violate is refused at its position', async () => {
  await world.settle(file());
  await fill();
  expect(
    await world.refusal(
      file(
        view(
          'by_day',
          'select 1 as one from sales',
          'materialized: true, indexes: [{ columns: [one], unique: true }]',
        ),
      ),
    ),
  ).toEqual([expect.stringMatching(/^MIG-202 svc\.yaml:\d+:\d+: /)]);
  expect(
    await world.refusal(file(view('by_day', BY_DAY, 'materialized: true, indexes: [{ columns: [days] }]'))),
  ).toEqual([expect.stringMatching(/^MIG-101 svc\.yaml:\d+:\d+: column "days" does not exist/)]);
});

test('it is pulled with its indexes, and the plan of the pulled file is empty', async () => {
  await world.settle(sales(AMOUNT));
  await world.sql(`set role svc_owner; create materialized view by_day as ${BY_DAY};
    create unique index on by_day (day); create index on by_day (abs(total) desc) where total > 1;
    comment on materialized view by_day is 'Sums'; grant select on by_day to service_role, authenticated;
    create materialized view hidden as select 1 as one; reset role`);
  const yaml = await pulled(world);
  expect(yaml.match(/materialized: true/g)).toHaveLength(2);
  expect(yaml.match(/expose: true/g)).toHaveLength(1);
  const { steps, problems } = await world.plan(yaml);
  expect(steps.map((step) => step.sql)).toEqual([]);
  expect(problems).toEqual([]);
});

describe('svc refresh', () => {
  const yaml = file(view('top', 'select max(total) as total from by_day'), view('by_day', BY_DAY, UNIQUE));

  test('refreshes views in the order of dependencies, concurrently if a unique index exists', async () => {
    await world.settle(yaml);
    await fill();
    const done = await refreshViews(world.owner, parseConfig(yaml), []);
    expect(done).toEqual([
      { name: 'by_day', concurrently: true, ms: expect.any(Number) },
      { name: 'top', concurrently: false, ms: expect.any(Number) },
    ]);
    expect(await rows('top')).toEqual([{ total: '6' }]);
  });

  test('refreshes the given views', async () => {
    await world.settle(yaml);
    expect((await refreshViews(world.owner, parseConfig(yaml), ['top'])).map(({ name }) => name)).toEqual([
      'top',
    ]);
    await expect(refreshViews(world.owner, parseConfig(yaml), ['tops'])).rejects.toThrow(
      'there is no materialized view tops',
    );
  });

  test('rejects a view that is not in the database yet', async () => {
    await expect(refreshViews(world.owner, parseConfig(yaml), [])).rejects.toThrow(
      'is not in the database yet',
    );
  });
});
