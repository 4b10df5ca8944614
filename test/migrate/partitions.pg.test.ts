// Tests partitioned tables and the creation, change and removal of partitions, which keep their rows.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { readRetired } from '../../src/migrate/commands/prune.ts';
import { maintainPartitions } from '../../src/migrate/commands/timed-partitions.ts';
import { scheduledTables } from '../../src/migrate/schema/declared.ts';
import { collectLog } from '../support/collect-log.ts';
import { raw } from '../../src/postgres/sql.ts';
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

const events = (more: string, fields = ''): string => `tables:
  events:
    rls: []
    fields:
      - { name: id, type: bigint, primary_key: true }
      - { name: at, type: timestamptz, primary_key: true }
      - { name: kind, type: text }
${fields}    indexes: [{ columns: [kind] }]
    ${more.trim()}
`;
const YEARS = `partition_by: { range: [at] }
    partitions:
      - { name: events_2025, values: "from ('2025-01-01') to ('2026-01-01')" }
      - { name: events_2026, values: "from ('2026-01-01') to ('2027-01-01')" }
`;
const PLUS_2027 = `${YEARS}      - { name: events_2027, values: "from ('2027-01-01') to ('2028-01-01')" }
`;
const ONLY_2026 = YEARS.replace(/ {6}- \{ name: events_2025.*\n/, '');

const partitions = async (table = 'events'): Promise<unknown[]> =>
  (
    await world.sql(
      `select t.relid::text || ' ' || pg_get_expr(c.relpartbound, c.oid) as text
       from pg_partition_tree($1) t join pg_class c on c.oid = t.relid where t.level > 0 order by 1`,
      [table],
    )
  ).map((row) => row['text']);
const rows = async (table: string): Promise<unknown> =>
  (await world.sql(`select count(*)::int as n from ${table}`))[0]?.['n'];
const fill = (): Promise<unknown> =>
  world.sql(
    `insert into events select n, '2025-06-01'::timestamptz + n * interval '1 month' from generate_series(1, 12) n`,
  );

describe('listed partitions', () => {
  test('are created with the table, with bounds in UTC regardless of the time zone of the server', async () => {
    await world.sql(`alter role svc_owner set timezone = 'Asia/Tokyo'`);
    try {
      await world.settle(events(YEARS));
    } finally {
      await world.sql('alter role svc_owner reset timezone');
    }
    await fill();
    expect(await partitions()).toEqual([
      "events_2025 FOR VALUES FROM ('2025-01-01 00:00:00+00') TO ('2026-01-01 00:00:00+00')",
      "events_2026 FOR VALUES FROM ('2026-01-01 00:00:00+00') TO ('2027-01-01 00:00:00+00')",
    ]);
    expect([await rows('events_2025'), await rows('events_2026')]).toEqual([6, 6]);
    expect(await pulled(world)).toContain(`partition_by: { range: [ at ] }
    partitions:
      - { name: events_2025, values: from ('2025-01-01 00:00:00+00') to (`);
  });

  test('are added, removed with their rows, and restored with their rows', async () => {
    await world.settle(events(YEARS));
    await fill();
    await world.settle(events(PLUS_2027));
    expect(await partitions()).toHaveLength(3);
    await world.settle(events(ONLY_2026));
    expect([await rows('events'), await rows('events_2025')]).toEqual([6, 6]);
    const plan = await world.plan(events(YEARS));
    expect(plan.steps.map(({ summary }) => summary)).toEqual([
      expect.stringMatching(/^partition events_2025 from .*, back with its rows$/),
    ]);
    await world.settle(events(YEARS));
    expect(await rows('events')).toBe(12);
  });

  test('are renamed if only the name differs', async () => {
    await world.settle(events(YEARS));
    await fill();
    await world.settle(events(YEARS.replace('name: events_2025', 'name: events_old')));
    expect([await rows('events'), await rows('events_old')]).toEqual([12, 6]);
  });

  test('are dropped with drop: drop, if this is allowed', async () => {
    await world.settle(events(YEARS));
    await fill();
    expect(await world.refusal(events(ONLY_2026), { drop: 'drop' })).toEqual([
      expect.stringMatching(/^MIG-302 .*partition events_2025 dropped: it holds 6 rows/),
    ]);
    await world.settle(events(ONLY_2026), {
      drop: 'drop',
      allow: ['data_loss=tables.events.partitions.events_2025'],
    });
    expect(await world.sql(`select to_regclass('events_2025') as found`)).toEqual([{ found: null }]);
  });

  test('are refused if their rows are in the default partition or do not fit the bounds', async () => {
    const rest = `${YEARS}      - { name: events_rest, values: default }
`;
    await world.settle(events(rest));
    await fill();
    await world.sql(`insert into events values (7, '2027-03-01')`);
    const plus = rest.replace(/ {6}- \{ name: events_rest/, PLUS_2027.slice(YEARS.length) + '$&');
    expect(await world.refusal(events(plus))).toEqual([
      expect.stringMatching(
        /^MIG-204 .*1 row belongs to the new partition, but .* events_rest holds them \(key columns id, at\)/,
      ),
    ]);
    await world.sql('delete from events where id = 7');
    await world.settle(events(plus));
    const without = plus.replace(/ {6}- \{ name: events_2025.*\n/, '');
    await world.settle(events(without));
    const later = plus.replace("from ('2025-01-01')", "from ('2025-08-15')");
    expect(await world.refusal(events(later))).toEqual([
      expect.stringMatching(/^MIG-204 .*2 rows of the retired partition are not within these values/),
    ]);
  });

  test('are restored with their subpartitions', async () => {
    const by = (parts: string): string => `partition_by: { range: [at] }
    partitions:
      - name: events_2025
        values: "from ('2025-01-01') to ('2026-01-01')"
${parts}      - { name: events_2026, values: "from ('2026-01-01') to ('2027-01-01')" }
`;
    const hashed = (modulus: number): string => `        partition_by: { hash: [id] }
        partitions:
          - { name: events_2025_0, values: "with (modulus ${modulus}, remainder 0)" }
          - { name: events_2025_1, values: "with (modulus ${modulus}, remainder 1)" }
`;
    await world.settle(events(by(hashed(2))));
    await fill();
    await world.settle(events(ONLY_2026));
    expect([await rows('events'), await rows('events_2025')]).toEqual([6, 6]);
    expect(await world.refusal(events(by(hashed(4))))).toEqual([
      expect.stringMatching(
        /^MIG-116 .*events_2025_0 is FOR VALUES WITH \(modulus 2, remainder 0\), events_2025_1/,
      ),
    ]);
    expect(await world.refusal(events(by('')))).toEqual([
      expect.stringMatching(/^MIG-116 .*cannot be attached again, .*: it is partitioned by HASH \(id\)/),
    ]);
    await world.settle(events(by(hashed(2))));
    expect(await rows('events')).toBe(12);
  });

  test('of a new table do not reuse retired tables with their names', async () => {
    await world.settle(events(YEARS));
    await world.settle(events(ONLY_2026));
    await world.sql('drop table events');
    expect(await world.refusal(events(YEARS))).toEqual([
      expect.stringMatching(/^MIG-116 .*a table events_2025 exists and is not a partition of this table/),
    ]);
  });

  test('are restored only if the table has not changed', async () => {
    await world.settle(events(YEARS));
    await world.settle(events(ONLY_2026));
    const more = '      - { name: more, type: int, min: 1 }\n';
    await world.settle(events(ONLY_2026, more));
    expect(await world.refusal(events(YEARS, more))).toEqual([
      expect.stringMatching(
        new RegExp(
          '^MIG-116 .*events_2025 cannot be attached again, .*: ' +
            'its column more is not integer, it has no check events_more_range',
        ),
      ),
    ]);
    await world.sql(
      'alter table events_2025 add column more int, add constraint events_more_range check (more >= 1)',
    );
    await world.settle(events(YEARS, more));
  });

  test('can use list, hash and subpartitions', async () => {
    await world.settle(
      events(`partition_by: { list: [kind] }
    partitions:
      - { name: events_a, values: "in ('a', 'b')" }
      - name: events_rest
        values: default
        partition_by: { hash: [id] }
        partitions:
          - { name: events_rest_0, values: "with (modulus 2, remainder 0)" }
          - { name: events_rest_1, values: "with (modulus 2, remainder 1)" }
`).replaceAll(', primary_key: true', ''),
    );
    await world.sql(`insert into events select n, now(), chr(96 + n) from generate_series(1, 20) n`);
    expect(await rows('events_a')).toBe(2);
    expect(Number(await rows('events_rest_0')) + Number(await rows('events_rest_1'))).toBe(18);
  });
});

describe('an impossible change is refused with a reason', () => {
  test.each([
    ['a table becomes partitioned', '', YEARS, /^MIG-116 .*PostgreSQL cannot partition an existing table: /],
    [
      'a partitioned table becomes plain',
      YEARS,
      '',
      /^MIG-116 .*is partitioned in the database, but not in the file/,
    ],
    [
      'another key',
      YEARS,
      `partition_by: { hash: [id] }\n    partitions: [{ name: e0, values: "with (modulus 1, remainder 0)" }]`,
      /^MIG-116 .*partitioned by RANGE \(at\) in the database and by HASH \(id\) in the file/,
    ],
    [
      'changed bounds',
      YEARS,
      YEARS.replace("from ('2025-01-01')", "from ('2024-01-01')"),
      /^MIG-116 .*the partition events_2025 is FOR VALUES FROM/,
    ],
  ])('%s', async (_, before, after, said) => {
    await world.settle(events(before));
    expect(await world.refusal(events(after))).toEqual([expect.stringMatching(said)]);
  });

  test('a partition with the name of a table', async () => {
    await world.settle(events(YEARS));
    await world.sql('create table events_2027 (id int)');
    expect(await world.refusal(events(PLUS_2027))).toEqual([
      expect.stringMatching(/^MIG-116 .*a table events_2027 exists and is not a partition of this table/),
    ]);
  });

  test('overlapping and invalid bounds', async () => {
    const overlap = YEARS.replace("from ('2026-01-01')", "from ('2025-06-01')");
    expect(await world.refusal(events(overlap))).toEqual([
      expect.stringMatching(/svc.yaml:.*would overlap partition/),
    ]);
    const open = YEARS.replace("to ('2027-01-01')", "to ('2027-01-01'); drop table x; --");
    expect(await world.refusal(events(open))).toEqual([expect.stringMatching(/semicolon/)]);
  });
});

describe('scheduled partitions', () => {
  const MONTHS = `partition_by: { range: [at] }
    partitions: { every: 1 month, ahead: 2, from: 2024-11-05 }`;

  const KEPT = `partition_by: { range: [at] }
    partitions: { every: 1 month, ahead: 2, from: 2024-11-05, keep: 6 months }`;
  const keep = async (file: string): Promise<string[]> => {
    const { log, lines } = collectLog();
    await maintainPartitions(world.owner, scheduledTables(parseConfig(file)), log);
    return lines().map((line) => String(line['msg']));
  };

  test('they are created with the table, aligned with the calendar', async () => {
    await world.settle(events(MONTHS));
    const made = await partitions();
    expect(made[0]).toBe(
      "events_2024_11 FOR VALUES FROM ('2024-11-01 00:00:00+00') TO ('2024-12-01 00:00:00+00')",
    );
    await world.sql(`insert into events values (1, now() + interval '2 months')`);
    await expect(
      world.sql(`insert into events values (1, now() + interval '4 months')`),
    ).rejects.toMatchObject({ code: '23514' });
  });

  test.each([
    ['1 hour', 'date_trunc', /_\d{4}_\d\d_\d\d_\d\d /],
    ['1 day', 'date_trunc', /_\d{4}_\d\d_\d\d /],
    ['1 week', 'date_trunc', /_\d{4}_\d\d_\d\d /],
    ['2 weeks', '', /_\d{4}_\d\d_\d\d /],
    ['3 months', '', /_\d{4}_(01|04|07|10) /],
    ['1 year', 'date_trunc', /_\d{4} /],
  ])('of %s', async (every, truncated, form) => {
    await world.settle(events(`partition_by: { range: [at] }\n    partitions: { every: ${every} }`));
    const made = await partitions();
    expect(made).toHaveLength(4);
    for (const name of made) expect(name).toMatch(form);
    await world.sql(`insert into events values (1, now()), (2, now() + 3 * interval '${every}')`);
    if (truncated === '') return;
    const [, unit] = every.split(' ');
    const [first] = await world.sql(
      `select min(substring(pg_get_expr(c.relpartbound, c.oid)
        from 'FROM \\(''([^'']+)')::timestamptz) = date_trunc('${unit}', now(), 'UTC') as aligned
       from pg_partition_tree('events') t join pg_class c on c.oid = t.relid where t.level > 0`,
    );
    expect(first).toEqual({ aligned: true });
  });

  test.each(['date', 'timestamp'])('of a column of type %s, which has no time zone', async (type) => {
    const file = events(
      `partition_by: { range: [at] }\n    partitions: { every: 1 day, keep: 1 day, from: 2026-11-20 }`,
    );
    await world.settle(file.replace('type: timestamptz', `type: ${type}`));
    await world.sql(`insert into events values (1, (now() at time zone 'utc')::${type}), (2, '2026-11-21')`);
    expect(await rows('events_2026_11_21')).toBe(1);
    await keep(file);
    expect(await rows('events')).toBe(1);
    const expected = await world.sql(
      `select count(*)::int as n from generate_series((now() at time zone 'utc')::date - 1,
        (now() at time zone 'utc')::date + 3, '1 day')`,
    );
    expect(await partitions()).toHaveLength(Number(expected[0]?.['n']));
  });

  test('too many partitions are refused', async () => {
    expect(
      await world.refusal(
        events(`partition_by: { range: [at] }\n    partitions: { every: 1 hour, from: 2020-01-01 }`),
      ),
    ).toEqual([expect.stringMatching(/^MIG-101 .*that would be \d+ partitions of (public\.)?events/)]);
  });

  test('manually created partitions are kept, and overlapping ones are skipped', async () => {
    await world.settle(events(MONTHS));
    const before = await partitions();
    await world.sql(`set role svc_owner; alter table events detach partition events_2024_12; drop table events_2024_12;
      create table by_hand partition of events for values from ('2024-12-10') to ('2024-12-20'); reset role`);
    await world.settle(events(MONTHS));
    await world.sql(`select svc_meta.make_partitions('events', 'month', 1, 2, '2024-11-05')`);
    expect(await partitions()).toHaveLength(before.length);
  });

  test('old partitions are detached with their rows and listed as retired, once by one of two instances', async () => {
    await world.settle(events(KEPT));
    await world.sql(`insert into events values (1, '2024-11-30'), (2, now())`);
    const before = await partitions();
    const said = (await Promise.all([keep(events(KEPT)), keep(events(KEPT))])).flat();
    // If two instances start concurrently, one may skip the round.
    said.push(...(await keep(events(KEPT))));
    const gone = before.length - (await partitions()).length;
    expect(gone).toBeGreaterThan(10);
    expect(said).toEqual(Array.from({ length: gone }, () => 'an old partition was detached'));
    expect([await rows('events'), await rows('events_2024_11')]).toEqual([1, 1]);
    const retired = await world.owner.session((session) => readRetired(session));
    expect(retired).toHaveLength(gone);
    expect(retired.find(({ identity }) => identity === 'tables.events_2024_11')).toMatchObject({ values: 1 });
    expect(
      await world.sql(`select has_table_privilege('service_role', 'events_2024_11', 'select') as may`),
    ).toEqual([{ may: false }]);
    await world.settle(events(KEPT));
  });

  test('a detached partition is not created again, even after it is dropped', async () => {
    await world.settle(events(KEPT));
    await keep(events(KEPT));
    const left = await partitions();
    await world.sql('drop table events_2024_11');
    expect(await keep(events(KEPT))).toEqual([]);
    expect(await partitions()).toEqual(left);
    expect(await world.sql(`select to_regclass('events_2024_11') as found`)).toEqual([{ found: null }]);
  });

  test('new partitions do not change the catalog fingerprint, so the next start compares nothing', async () => {
    const file = events(`partition_by: { range: [at] }\n    partitions: { every: 1 day, ahead: 2 }`);
    await world.settle(file);
    const more = file.replace('ahead: 2', 'ahead: 9');
    await world.apply(more);
    await keep(more);
    expect(await partitions()).toHaveLength(10);
    expect(await world.apply(more)).toMatchObject({ kind: 'unchanged', plan: null });
  });

  test('a partition that is in use is retried in the next round, so that other sessions do not wait', async () => {
    await world.settle(events(KEPT));
    const before = await partitions();
    const reader = await world.owner.session(async (session) => {
      await session.query(raw('begin; select count(*) from events'));
      const said = await keep(events(KEPT));
      await session.query(raw('rollback'));
      return said;
    });
    expect(reader).toEqual(['could not maintain the partitions of a table; trying again later']);
    expect(await partitions()).toEqual(before);
  });

  test('a referenced partition stays, and a detached partition loses its foreign keys', async () => {
    const file = `${events(KEPT, '      - { name: of, type: uuid, foreign_key: { references: auth.users.id } }\n')}
  notes:
    rls: []
    fields: [{ name: event, type: bigint }, { name: at, type: timestamptz }]
    constraints: [{ foreign_key: [event, at], references: 'events(id, at)' }]
`;
    await world.settle(file);
    await world.sql(
      `insert into events values (1, '2024-12-05'); insert into notes values (1, '2024-12-05')`,
    );
    expect(await keep(file)).toEqual([
      'an old partition was detached',
      'could not maintain the partitions of a table; trying again later',
    ]);
    expect(
      await world.sql(
        `select count(*)::int as n from pg_constraint where conrelid = 'events_2024_11'::regclass and contype = 'f'`,
      ),
    ).toEqual([{ n: 0 }]);
  });
});

describe.each([
  ['small', {}],
  ['large', { maxWriteBlockMs: 0 }],
] as const)('a %s partitioned table', (_size, policy) => {
  const file = (fields: string, more = ''): string =>
    `${events(YEARS, fields)}${more}  owners:
    rls: []
    fields: [{ name: id, type: integer, primary_key: true }]
`;
  test.each([
    ['a column with a default', '      - { name: more, type: text, default: x }\n'],
    [
      'a column with a different value for each row',
      '      - { name: more, type: uuid, default: uuid_v4() }\n',
    ],
    ['a required column', '      - { name: more, type: text, required: true, backfill: "kind" }\n'],
    ['a check', '      - { name: more, type: int, min: 1 }\n'],
    ['a foreign key', '      - { name: more, foreign_key: { references: owners.id } }\n'],
  ])('can get %s', async (_name, fields) => {
    await world.settle(file(''));
    await fill();
    const allow = ['rewrite=tables.events.fields.more.foreign_key'];
    await world.sql(`update events set kind = 'k'; insert into owners values (1); analyze`);
    await world.settle(file(fields), { ...policy, allow });
    expect(await rows('events')).toBe(12);
    await world.settle(file(''), policy);
  });

  test('can get and lose an index', async () => {
    await world.settle(file(''));
    await fill();
    await world.sql('analyze');
    const more = file('').replace(
      'indexes: [',
      'indexes: [{ columns: [kind, id] }, { columns: [id, at], unique: true }, ',
    );
    await world.settle(more, policy);
    const found = await world.sql(
      `select count(*)::int as n, bool_and(i.indisvalid) as valid from pg_index i where i.indrelid in (select relid
        from pg_partition_tree('events'))`,
    );
    expect(found).toEqual([{ n: 4 * 3, valid: true }]);
    await world.settle(file(''), policy);
  });
});

test('a key of a large partitioned table would block all sessions and is refused unless allowed', async () => {
  await world.settle(events(YEARS));
  await fill();
  await world.sql('analyze');
  const keyed = events(`${YEARS}    constraints: [{ unique: [kind, at, id] }]`);
  expect(await world.refusal(keyed, { maxWriteBlockMs: 0 })).toEqual([
    expect.stringMatching(/^MIG-301 .*unique key \(kind, at, id\) would hold ACCESS EXCLUSIVE for about/),
  ]);
  await world.settle(keyed, { maxWriteBlockMs: 0, allow: ['rewrite=tables.events.constraints[0]'] });
});

test('an index of a large table covers kept, renamed, restored and new partitions', async () => {
  const rest = `      - name: events_rest
        values: default
        partition_by: { hash: [id] }
        partitions: [{ name: events_rest_0, values: "with (modulus 1, remainder 0)" }]
`;
  await world.settle(events(`${YEARS}${rest}`));
  await fill();
  await world.settle(events(YEARS));
  const without2025 = PLUS_2027.replace(/ {6}- \{ name: events_2025.*\n/, '');
  const more = events(`${without2025.replace('name: events_2026', 'name: events_now')}${rest}`);
  await world.settle(more.replace('indexes: [', 'indexes: [{ columns: [at] }, '), { maxWriteBlockMs: 0 });
  const found = await world.sql(
    `select i.indrelid::regclass::text as of, i.indisvalid as valid from pg_index i
      where pg_get_indexdef(i.indexrelid) like '%(at)' order by 1`,
  );
  expect(found).toEqual(
    ['events', 'events_2027', 'events_now', 'events_rest', 'events_rest_0'].map((of) => ({
      of,
      valid: true,
    })),
  );
});

test('an index of a large partitioned table is built per partition and continues after an interruption', async () => {
  await world.settle(events(YEARS));
  await fill();
  await world.sql('analyze');
  const more = events(YEARS).replace('indexes: [', 'indexes: [{ columns: [id] }, ');
  const { steps } = await world.plan(more, { maxWriteBlockMs: 0 });
  expect(steps.map(({ sql, lane }) => `${lane}: ${sql.replaceAll('"', '')}`)).toEqual([
    'background: create index events_id_idx on only public.events (id)',
    expect.stringMatching(
      /^background: create index concurrently events_2025_id_\w*idx on public.events_2025 \(id\)$/,
    ),
    expect.stringMatching(
      /^background: alter index public.events_id_idx attach partition public.events_2025_id_/,
    ),
    expect.stringMatching(/^background: create index concurrently events_2026_/),
    expect.stringMatching(
      /^background: alter index public.events_id_idx attach partition public.events_2026_/,
    ),
  ]);
  // As if the run had ended after the first step.
  await world.sql(`set role svc_owner; ${steps[0]?.sql}; reset role`);
  await world.settle(more, { maxWriteBlockMs: 0 });
  const found = await world.sql(
    `select count(*)::int as n, bool_and(indisvalid) as valid from pg_index where indrelid in (select relid
      from pg_partition_tree('events'))`,
  );
  expect(found).toEqual([{ n: 3 * 3, valid: true }]);
});
