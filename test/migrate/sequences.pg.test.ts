// Tests sequences without a column: created before their users, changed in place, kept when they leave the file, and
// equal whether svc, an SQL file or a pull declared them.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { prune, readRetired } from '../../src/migrate/commands/prune.ts';
import { readUnmanagedObjects } from '../../src/migrate/state/unmanaged.ts';
import { toModel } from '../../src/migrate/schema/declared.ts';
import { parseConfig } from './parse-config.ts';
import { pulled } from './pulled.ts';
import { aWorld, type World } from './world.ts';

let world: World;
beforeAll(async () => {
  world = await aWorld();
});
afterAll(() => world.close());
beforeEach(() => world.empty());

const TABLES = `tables:
  tickets:
    rls: []
    fields:
      - { name: id, type: bigint, primary_key: true, default: { sql: "nextval('ticket_numbers')" } }
      - { name: name, type: text, default: "hall" }
`;

const file = (declaration: string): string => `sequences:\n  ticket_numbers: ${declaration}\n${TABLES}`;

const numbers = async (name = 'ticket_numbers'): Promise<unknown> => {
  const [row] = await world.sql(
    `select data_type::text as type, start_value::text as start, increment_by::text as step, min_value::text as min,
      max_value::text as max,
      cache_size::text as cache, cycle, last_value::text as last from pg_sequences
        where schemaname || '.' || sequencename = $1`,
    [name.includes('.') ? name : `public.${name}`],
  );
  return row;
};

/** Returns the next value as a caller with this API role. */
const nextAs = async (role: string): Promise<unknown> => {
  try {
    const [row] = await world.sql(
      `select set_config('role', $1, false), nextval('ticket_numbers')::text as next`,
      [role],
    );
    return row?.['next'];
  } catch (error) {
    return error instanceof Error && 'code' in error ? error.code : error;
  } finally {
    await world.sql('reset role');
  }
};

const summaries = async (yaml: string): Promise<string[]> =>
  (await world.plan(yaml)).steps.map((step) => step.summary);

describe('a new sequence', () => {
  test('is created before the default that uses it, and callers can use it', async () => {
    await world.settle(file('{ start: 1000, increment: 10, comment: On the door }'));
    await world.sql(`insert into tickets default values; insert into tickets default values`);
    expect(await world.sql('select id::text from tickets order by 1')).toEqual([
      { id: '1000' },
      { id: '1010' },
    ]);
    expect(await nextAs('authenticated')).toBe('1020');
    expect(await world.sql(`select obj_description('ticket_numbers'::regclass) as comment`)).toEqual([
      { comment: 'On the door' },
    ]);
  });

  test('has the defaults of PostgreSQL, also for descending sequences and other types', async () => {
    const yaml = `sequences:
  plain: {}
  down: { increment: -1 }
  small: { type: smallint, max: 7, cycle: true, cache: 3 }
  whole: { min: -9223372036854775808, max: 9223372036854775807, start: 9223372036854775807 }
  'Odd "name': { schema: crm, usage: authenticated }
`;
    await world.settle(yaml);
    await world.sql(
      `create sequence a; create sequence b increment -1; create sequence c as smallint maxvalue 7 cycle cache 3`,
    );
    for (const [ours, theirs] of [
      ['plain', 'a'],
      ['down', 'b'],
      ['small', 'c'],
    ] as const)
      expect(await numbers(ours)).toEqual(await numbers(theirs));
    expect(await numbers('whole')).toMatchObject({
      start: '9223372036854775807',
      min: '-9223372036854775808',
    });
    expect(await numbers('crm.Odd "name')).toMatchObject({ type: 'bigint' });
    expect(await world.sql(`select has_schema_privilege('authenticated', 'crm', 'usage') as may`)).toEqual([
      { may: true },
    ]);
  });

  test('is accessible only to the declared roles', async () => {
    await world.settle(file('{ usage: [authenticated] }'));
    expect([await nextAs('authenticated'), await nextAs('anon'), await nextAs('service_role')]).toEqual([
      '1',
      '42501',
      '42501',
    ]);
    await world.settle(file('{ usage: [] }'));
    expect(await nextAs('authenticated')).toBe('42501');
    await world.settle(file('{}'));
    expect([await nextAs('anon'), await nextAs('service_role')]).toEqual(['2', '3']);
  });

  test('that already exists is adopted with its current value', async () => {
    await world.sql(
      `set role svc_owner; create sequence ticket_numbers start 5; select nextval('ticket_numbers'); reset role`,
    );
    expect(await summaries(file('{ start: 5, usage: [] }'))).not.toContain(expect.stringContaining('was'));
    await world.settle(file('{ start: 5 }'));
    expect(await nextAs('anon')).toBe('6');
  });

  test.each([
    ['a missing role', '{ usage: [nosuch] }', 'MIG-114'],
    [
      'a sequence that another default calls by a wrong name',
      '{ renamed_from: none, schema: crm }',
      'ticket_numbers',
    ],
  ])('%s is refused', async (_name, declaration, message) => {
    expect((await world.refusal(file(declaration))).join('\n')).toContain(message);
  });
});

describe('a change', () => {
  test('keeps the current value', async () => {
    await world.settle(file('{ start: 1000 }'));
    await world.sql('insert into tickets default values');
    const changed = file('{ start: 1, increment: 5, max: 5000, cycle: true, cache: 2, comment: Doors }');
    expect(await summaries(changed)).toEqual([
      expect.stringContaining('bigint from 1 by 5, 1 to 5000, then anew (was bigint from 1000 by 1'),
      'sequence ticket_numbers: comment',
    ]);
    await world.settle(changed);
    await world.sql('insert into tickets default values');
    expect(await world.sql('select max(id)::text as last from tickets')).toEqual([{ last: '1005' }]);
  });

  test('that excludes the current value is refused, and nothing changes', async () => {
    await world.settle(file('{ start: 1000 }'));
    await world.sql('insert into tickets default values');
    const [refusal = ''] = await world.refusal(file('{ max: 10 }'));
    expect(refusal).toContain('RESTART value (1000) cannot be greater than MAXVALUE (10)');
    expect(await numbers()).toMatchObject({ start: '1000' });
  });

  test('done manually is drift and is reverted', async () => {
    const yaml = file('{ start: 1000 }');
    await world.settle(yaml);
    await world.sql(`alter sequence ticket_numbers increment 7; revoke usage on sequence ticket_numbers from anon;
      comment on sequence ticket_numbers is 'by hand'`);
    expect(await summaries(yaml)).toEqual([
      expect.stringContaining('by 1'),
      expect.stringContaining('for anon, authenticated, service_role'),
      'sequence ticket_numbers: comment',
    ]);
    await world.settle(yaml);
    expect(await numbers()).toMatchObject({ step: '1' });
  });

  test('of the name keeps the defaults', async () => {
    await world.settle(file('{ start: 1000 }'));
    await world.sql('insert into tickets default values');
    const renamed = file('{ start: 1000, renamed_from: ticket_numbers }').replaceAll(
      /ticket_numbers(?=: \{|'\))/g,
      'doors',
    );
    await world.settle(renamed);
    await world.sql('insert into tickets default values');
    expect(await world.sql('select max(id)::text as last from tickets')).toEqual([{ last: '1001' }]);
    expect(await numbers()).toBeUndefined();
    await world.settle(renamed.replace(', renamed_from: ticket_numbers', ''));
  });
});

describe('a sequence that leaves the file', () => {
  const without = TABLES.replace(`, default: { sql: "nextval('ticket_numbers')" }`, '');

  test('keeps its value and continues when it returns', async () => {
    await world.settle(file('{ start: 1000 }'));
    await world.sql('insert into tickets default values');
    await world.settle(without);
    expect(await world.owner.session(readRetired)).toMatchObject([{ identity: 'sequences.ticket_numbers' }]);
    await world.settle(file('{ start: 1000 }'));
    expect(await world.owner.session(readRetired)).toEqual([]);
    await world.sql('insert into tickets default values');
    expect(await world.sql('select max(id)::text as last from tickets')).toEqual([{ last: '1001' }]);
  });

  test('is pruned only by name, and not while a default uses it', async () => {
    const pruned = async (names: string[]): Promise<unknown> => {
      const { dropped, problems } = await world.owner.session((session) =>
        prune(session, {
          names,
          allow: [],
          pruneAfterMs: 0,
          now: new Date(Date.now() + 1_000),
          model: toModel(parseConfig(without)),
          locks: { lockTimeoutMs: 1_000, lockBudgetMs: 1_000 },
        }),
      );
      return [dropped.map(({ identity }) => identity), problems.map(({ code }) => code)];
    };
    await world.settle(file('{}'));
    await world.settle(without);
    await world.sql(`alter table tickets alter column name set default nextval('ticket_numbers')::text`);
    expect(await pruned([])).toEqual([[], []]);
    expect(await pruned(['sequences.ticket_numbers'])).toEqual([[], ['MIG-304']]);
    await world.sql('alter table tickets alter column name drop default');
    expect(await pruned(['sequences.ticket_numbers'])).toEqual([['sequences.ticket_numbers'], []]);
    expect(await numbers()).toBeUndefined();
  });
});

describe('a database with sequences', () => {
  test('is pulled with an empty plan, and built again from the file', async () => {
    await world.sql(`set role svc_owner;
      create sequence ticket_numbers start 100 increment 5 maxvalue 900 cycle;
      create sequence down increment -2 minvalue -10 maxvalue -2;
      create sequence private_ones as integer;
      create sequence shared;
      create table tickets (id bigint primary key default nextval('ticket_numbers'),
        other integer default nextval('public.private_ones'));
      alter table tickets enable row level security;
      comment on sequence down is 'Below ground';
      grant usage, select on sequence ticket_numbers to anon, authenticated, service_role;
      grant usage on sequence shared to public; grant update on sequence shared to anon;
      grant usage on sequence private_ones to authenticated; reset role`);
    const yaml = await pulled(world);
    const [declaration = ''] = yaml.split('tables:');
    expect(declaration).toBe(`sequences:
  down: { increment: -2, min: -10, max: -2, usage: [], comment: Below ground }
  private_ones: { type: integer, usage: [ authenticated ] }
  shared: {}
  ticket_numbers: { start: 100, increment: 5, max: 900, cycle: true }
`);
    expect(await summaries(yaml)).toEqual([]);
    const NAMES = ['ticket_numbers', 'down', 'private_ones', 'shared'];
    const before = await Promise.all(NAMES.map((name) => numbers(name)));
    await world.empty();
    await world.settle(yaml);
    expect(await Promise.all(NAMES.map((name) => numbers(name)))).toEqual(before);
    expect(await pulled(world)).toBe(yaml);
  });

  test('undeclared sequences are listed and not changed', async () => {
    await world.settle(file('{}'));
    await world.sql('create sequence by_hand');
    const model = toModel(parseConfig(file('{}')));
    const listed = await world.owner.session((session) => readUnmanagedObjects(session, model, ['public']));
    expect(listed.filter(({ what }) => what === 'sequence').map(({ name }) => name)).toEqual([
      'public.by_hand',
    ]);
    expect(await summaries(file('{}'))).toEqual([]);
  });
});
