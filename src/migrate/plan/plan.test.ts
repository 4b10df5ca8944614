// From one file to the next as statements: what runs, in which lane and order, on small tables and on large ones.
import { describe, expect, test } from 'vitest';
import {
  liveDatabase,
  declared,
  NOTHING_OWNED,
  ownedAfter,
} from '../../../test/migrate/schema-without-database.ts';
import type { Change } from '../diff/change.ts';
import { diff } from '../diff/diff.ts';
import type { OnlineTypeChanges } from './types/online-type-change.ts';
import { planSteps } from './plan.ts';
import { StepList, type TableFacts } from './step-list.ts';
import { LANES, lockedTables, STAGES, type Lane, type Stage, type Step } from './step.ts';

const SMALL = 10;
const LARGE = 50_000_000;
const SETTINGS = { maxWriteBlockMs: 1_000, direct: false };

const NO_FACTS: TableFacts = {
  rewriting: new Set(),
  nonEmpty: new Set(['public.todos']),
  toBackfill: new Set(),
  begunBackfills: new Map(),
  mayQuiet: false,
  losing: new Set(),
  drops: false,
  serverVersion: 180_000,
  searchPath: 'public',
};

const NOTHING_ONLINE: OnlineTypeChanges = {
  columns: new Map(),
  inTheWay: new Map(),
  deferred: new Set(),
  swapped: new Set(),
  leftovers: [],
};

type Given = {
  readonly rows?: number;
  readonly facts?: Partial<TableFacts>;
  readonly direct?: boolean;
  readonly deferred?: (change: Change) => boolean;
};

function plan(before: string, after: string, given: Given = {}): Step[] {
  const was = declared(before);
  const { changes } = diff(declared(after), liveDatabase(was, given.rows ?? SMALL), ownedAfter(was));
  const online = { ...NOTHING_ONLINE, deferred: new Set(changes.filter(given.deferred ?? (() => false))) };
  const settings = { ...SETTINGS, direct: given.direct ?? false };
  return planSteps(changes, { ...NO_FACTS, ...given.facts }, online, settings);
}

/** `online: alter table …`; the metadata lane goes without saying. */
function said({ lane, sql }: Step): string {
  const text = sql
    .replaceAll('"public".', '')
    .replaceAll(/"(\w+)"/g, '$1')
    .replaceAll(/\s+/g, ' ')
    .replaceAll(/svc_nn_\w{8}/g, 'guard');
  return lane === 'metadata' ? text : `${lane}: ${text}`;
}

const statements = (before: string, after: string, given: Given = {}): string[] =>
  plan(before, after, given).map(said);

const todos = (...fields: string[]): string =>
  `tables:\n  todos:\n    fields:\n      - { name: id, type: bigint, primary_key: true }\n${fields.map((field) => `      - ${field}\n`).join('')}`;
const title = (more: string): string => todos(`{ name: title, ${more} }`);
const AT = 'tables.todos.fields.title';

type Case = readonly [what: string, before: string, after: string, given: Given, sql: readonly string[]];
const expectStatements = (
  _what: string,
  before: string,
  after: string,
  given: Given,
  sql: readonly string[],
): void => {
  expect(statements(before, after, given)).toEqual(sql);
};

describe('tables', () => {
  test('a new table is not readable before it is complete', () => {
    const file = `${title('type: text, default: a, min: 1').replace('min: 1', 'pattern: x')}    rls: [{ operations: [select], using: "true" }]\n    indexes: [{ columns: [title] }]\n`;
    expect(statements('tables: {}\n', file)).toEqual([
      'create table todos (id bigint not null, title text)',
      "alter table todos alter column title set default 'a'",
      'alter table todos add constraint todos_pkey primary key (id)',
      "alter table todos add constraint todos_title_pattern check ( title ~ 'x' )",
      'create index todos_title_idx on todos (title)',
      'create policy todos_p1_select on todos as permissive for select to anon, authenticated using ( true )',
      'alter table todos enable row level security',
      'revoke all on todos from public, anon, authenticated, service_role; grant select, insert, update, delete on todos to anon, authenticated; grant all on todos to service_role',
    ]);
  });

  test('two tables that refer to each other exist before either reference', () => {
    const file = ['a', 'b']
      .map(
        (name) =>
          `  ${name}:\n    fields:\n      - { name: id, type: bigint, primary_key: true }\n      - { name: other, foreign_key: { references: ${name === 'a' ? 'b' : 'a'}.id } }\n`,
      )
      .join('');
    const kinds = plan('tables: {}\n', `tables:\n${file}`).map(({ stage }) => stage);
    expect(kinds).toEqual([
      'columns',
      'columns',
      'keys',
      'keys',
      'foreign-keys',
      'foreign-keys',
      'grants',
      'grants',
    ]);
  });

  test.each([
    [
      'is retired, with its data',
      false,
      'revoke all on todos from anon, authenticated, service_role, public',
    ],
    ['is dropped if the settings allow it', true, 'drop table todos'],
  ])('a removed table %s', (_what, drops, sql) => {
    expect(statements(todos(), 'tables: {}\n', { facts: { drops } })).toEqual([sql]);
  });

  test('a retired table drops its foreign keys', () => {
    const lists = 'tables:\n  lists:\n    fields: [{ name: id, type: bigint, primary_key: true }]\n';
    const both = `${lists}  todos:\n    fields:\n      - { name: id, type: bigint, primary_key: true }\n      - { name: list, foreign_key: { references: lists.id } }\n`;
    expect(statements(both, lists)).toEqual([
      'revoke all on todos from anon, authenticated, service_role, public; alter table todos drop constraint if exists todos_list_fkey',
    ]);
  });
});

describe('columns', () => {
  test.each<Case>([
    ['added', todos(), title('type: text'), {}, ['alter table todos add column title text']],
    [
      'added with a default: rows that are there get it',
      todos(),
      title('type: text, default: a, required: true'),
      {},
      ["alter table todos add column title text default 'a' not null"],
    ],
    [
      'added with a backfill',
      todos(),
      title('type: text, required: true, backfill: "id::text"'),
      {},
      [
        'alter table todos add column title text',
        'update todos set title = ( id::text ) where title is null',
        'alter table todos alter column title set not null',
      ],
    ],
    [
      'added to an empty table: a backfill has nothing to do',
      todos(),
      title('type: text, required: true, backfill: "id::text"'),
      { facts: { nonEmpty: new Set() } },
      ['alter table todos add column title text not null'],
    ],
    [
      'a backfill may keep the triggers quiet',
      todos(),
      title('type: text, backfill: "id::text"'),
      { facts: { mayQuiet: true } },
      [
        'alter table todos add column title text',
        'set local session_replication_role = replica; update todos set title = ( id::text ) where title is null; set local session_replication_role = origin',
      ],
    ],
    [
      'added with a backfill to a large table: in batches, then proven without a long lock',
      todos(),
      title('type: text, required: true, backfill: "id::text"'),
      { rows: LARGE },
      [
        'alter table todos add column title text',
        'online: update todos set title = ( id::text ) where title is null',
        'online: alter table todos drop constraint if exists guard, add constraint guard check (title is not null) not valid',
        'online: update todos set title = ( id::text ) where title is null',
        'online: alter table todos validate constraint guard',
        'online: alter table todos alter column title set not null; alter table todos drop constraint guard',
      ],
    ],
    [
      'added to a large table with a default for each row: the default first, then batches',
      todos(),
      title('type: uuid, default: uuid_v4()'),
      { rows: LARGE, facts: { rewriting: new Set([AT]) } },
      [
        'alter table todos add column title uuid',
        'alter table todos alter column title set default gen_random_uuid()',
        'online: update todos set title = ( gen_random_uuid() ) where title is null',
      ],
    ],
    ['retired', title('type: text'), todos(), {}, ['select']],
    [
      'retired when it is required: new rows may leave it out',
      title('type: text, required: true'),
      todos(),
      {},
      ['alter table todos alter column title drop not null'],
    ],
    [
      'dropped',
      title('type: text'),
      todos(),
      { facts: { drops: true } },
      ['alter table todos drop column title'],
    ],
    [
      'another type: the old default goes first',
      title('type: text, default: "1"'),
      title('type: integer, default: "1", using: "title::integer"'),
      {},
      [
        'alter table todos alter column title drop default',
        'alter table todos alter column title type integer using ( title::integer )',
        "alter table todos alter column title set default '1'",
      ],
    ],
    [
      'another type that loses something, allowed: with an explicit cast',
      title('type: text'),
      title('type: varchar(3)'),
      { facts: { losing: new Set([AT]) } },
      ['alter table todos alter column title type varchar(3) using ( title::varchar(3) )'],
    ],
    [
      'a wider serial takes its sequence along',
      title('type: serial'),
      title('type: bigserial'),
      {},
      ['alter table todos alter column title type bigint; alter sequence public.todos_title_seq as bigint'],
    ],
    [
      'required on a small table',
      title('type: text'),
      title('type: text, required: true'),
      {},
      ['alter table todos alter column title set not null'],
    ],
    [
      'required on a large one: guarded at once, proven online',
      title('type: text'),
      title('type: text, required: true'),
      { rows: LARGE },
      [
        'alter table todos drop constraint if exists guard, add constraint guard check (title is not null) not valid',
        'online: alter table todos validate constraint guard',
        'online: alter table todos alter column title set not null; alter table todos drop constraint guard',
      ],
    ],
    [
      'required on a large one, but take the direct form',
      title('type: text'),
      title('type: text, required: true'),
      { rows: LARGE, direct: true },
      ['alter table todos alter column title set not null'],
    ],
    [
      'required, and rows hold nulls',
      title('type: text'),
      title('type: text, required: true, backfill: "id::text"'),
      { facts: { toBackfill: new Set([AT]) } },
      [
        'update todos set title = ( id::text ) where title is null',
        'alter table todos alter column title set not null',
      ],
    ],
    [
      'serial goes on after the highest value',
      title('type: bigint, required: true'),
      title('type: bigserial'),
      {},
      [
        "create sequence todos_title_seq as bigint owned by todos.title; select setval('todos_title_seq', coalesce((select max(title) from todos), 0) + 1, false); alter table todos alter column title set default nextval('todos_title_seq'::regclass)",
        "do 'begin execute ''grant usage, select on sequence '' || pg_get_serial_sequence(''todos'', ''title'') || '' to anon, authenticated, service_role''; end'",
      ],
    ],
  ])('%s', expectStatements);
});

describe('constraints and indexes', () => {
  const size = (more: string): string => todos(`{ name: size, type: integer${more} }`);
  const indexed = (more: string): string => `${size('')}    indexes: [{ columns: [size]${more} }]\n`;
  test.each<Case>([
    [
      'unique',
      size(''),
      size(', unique: true'),
      {},
      ['alter table todos add constraint todos_size_key unique (size)'],
    ],
    [
      'unique on a large table',
      size(''),
      size(', unique: true'),
      { rows: LARGE },
      [
        'concurrent: create unique index concurrently todos_size_key on todos (size)',
        'concurrent: alter table todos add constraint todos_size_key unique using index todos_size_key',
      ],
    ],
    [
      'unique on a large table, where nulls are equal',
      size(''),
      `${size('')}    constraints: [{ unique: [size], nulls_not_distinct: true }]\n`,
      { rows: LARGE },
      [
        'concurrent: create unique index concurrently todos_size_key on todos (size) nulls not distinct',
        'concurrent: alter table todos add constraint todos_size_key unique using index todos_size_key',
      ],
    ],
    [
      'another primary key, after the former one',
      'tables:\n  todos:\n    fields:\n      - { name: id, type: bigint, primary_key: true }\n      - { name: code, type: text, required: true }\n',
      'tables:\n  todos:\n    fields:\n      - { name: id, type: bigint }\n      - { name: code, type: text, primary_key: true }\n',
      {},
      [
        'alter table todos drop constraint todos_pkey',
        'alter table todos alter column id drop not null',
        'alter table todos add constraint todos_pkey primary key (code)',
      ],
    ],
    [
      'a check is replaced',
      size(', min: 1'),
      size(', min: 2'),
      {},
      [
        'alter table todos drop constraint todos_size_range',
        'alter table todos add constraint todos_size_range check ( size >= (2) )',
      ],
    ],
    [
      'a check on a large table holds for new rows at once',
      size(''),
      size(', min: 1'),
      { rows: LARGE },
      [
        'alter table todos add constraint todos_size_range check ( size >= (1) ) not valid',
        'online: alter table todos validate constraint todos_size_range',
      ],
    ],
    ['an index', size(''), indexed(''), {}, ['create index todos_size_idx on todos (size)']],
    [
      'an index on a large table is built concurrently',
      size(''),
      indexed(''),
      { rows: LARGE },
      ['background: create index concurrently todos_size_idx on todos (size)'],
    ],
    [
      'a unique index on a large table',
      size(''),
      indexed(', unique: true'),
      { rows: LARGE },
      ['concurrent: create unique index concurrently todos_size_uidx on todos (size)'],
    ],
    [
      'no index on a large table',
      indexed(''),
      size(''),
      { rows: LARGE },
      ['concurrent: drop index concurrently if exists todos_size_idx'],
    ],
  ])('%s', expectStatements);

  const lists = (more: string): string =>
    `  lists:\n    fields: [{ name: id, type: bigint, primary_key: true }, { name: code, type: text${more} }]\n`;
  const reference = (to: string): string =>
    todos(
      `{ name: list, type: ${to === 'id' ? 'bigint' : 'text'}, foreign_key: { references: lists.${to}, on_delete: set_null } }`,
    );
  const list = (to: string): string => todos(`{ name: list, type: ${to === 'id' ? 'bigint' : 'text'} }`);
  const changed = (onDelete: string): string => reference('id').replace('set_null', onDelete) + lists('');
  const locks = (before: string, after: string): string[] =>
    plan(before, after).map((step) => `${step.lock} ${lockedTables(step).join(' ')}`);
  test('a foreign key locks both tables', () => {
    expect(locks(changed('cascade'), changed('set_null'))).toEqual([
      'AccessExclusive public.todos public.lists',
      'ShareRowExclusive public.todos public.lists',
    ]);
    expect(locks(lists('').replace(/^/, 'tables:\n'), changed('cascade'))).toContain(
      'ShareRowExclusive public.lists',
    );
    expect(locks(changed('cascade'), lists('').replace(/^/, 'tables:\n'))).toEqual([
      'AccessExclusive public.todos public.lists',
    ]);
  });

  test.each<Case>([
    [
      'a foreign key',
      list('id') + lists(''),
      reference('id') + lists(''),
      {},
      [
        'alter table todos add constraint todos_list_fkey foreign key (list) references lists (id) on delete set null',
      ],
    ],
    [
      'a foreign key on a large table',
      list('id') + lists(''),
      reference('id') + lists(''),
      { rows: LARGE },
      [
        'alter table todos add constraint todos_list_fkey foreign key (list) references lists (id) on delete set null not valid',
        'online: alter table todos validate constraint todos_list_fkey',
      ],
    ],
    [
      'a changed foreign key: its rows are validated after the locks of the former one',
      changed('cascade'),
      changed('set_null'),
      { rows: 10_000 },
      [
        'alter table todos drop constraint todos_list_fkey',
        'alter table todos add constraint todos_list_fkey foreign key (list) references lists (id) on delete set null not valid',
        'online: alter table todos validate constraint todos_list_fkey',
      ],
    ],
    [
      'a changed foreign key of a few rows',
      changed('cascade'),
      changed('set_null'),
      {},
      [
        'alter table todos drop constraint todos_list_fkey',
        'alter table todos add constraint todos_list_fkey foreign key (list) references lists (id) on delete set null',
      ],
    ],
    [
      'a changed foreign key, directly',
      changed('cascade'),
      changed('set_null'),
      { rows: 10_000, direct: true },
      [
        'alter table todos drop constraint todos_list_fkey',
        'alter table todos add constraint todos_list_fkey foreign key (list) references lists (id) on delete set null',
      ],
    ],
    [
      'a foreign key to a new key: after the key',
      list('code') + lists(''),
      reference('code') + lists(', unique: true'),
      {},
      [
        'alter table lists add constraint lists_code_key unique (code)',
        'alter table todos add constraint todos_list_fkey foreign key (list) references lists (code) on delete set null',
      ],
    ],
    [
      'a foreign key to a key that is built concurrently waits in that lane',
      list('code') + lists(''),
      reference('code') + lists(', unique: true'),
      { rows: LARGE },
      [
        'concurrent: create unique index concurrently lists_code_key on lists (code)',
        'concurrent: alter table lists add constraint lists_code_key unique using index lists_code_key',
        'concurrent: alter table todos add constraint todos_list_fkey foreign key (list) references lists (code) on delete set null not valid',
        'concurrent: alter table todos validate constraint todos_list_fkey',
      ],
    ],
  ])('%s', expectStatements);
});

describe('access', () => {
  const policies = (...list: string[]): string => `${todos()}    rls: [${list.join(', ')}]\n`;
  test('policies are in place before security is switched on', () => {
    expect(statements(todos(), policies('{ operations: [select], using: "id = 1" }'))).toEqual([
      'create policy todos_p1_select on todos as permissive for select to anon, authenticated using ( id = 1 )',
      'alter table todos enable row level security',
    ]);
  });

  test('a policy is replaced in one transaction', () => {
    const steps = plan(
      policies('{ operations: [select], using: "id = 1" }'),
      policies('{ operations: [select], using: "id = 2" }'),
    );
    expect(steps.map(said)).toEqual([
      'drop policy todos_p1_select on todos',
      'create policy todos_p1_select on todos as permissive for select to anon, authenticated using ( id = 2 )',
    ]);
    expect(steps.every(({ lane, hazards }) => lane === 'metadata' && hazards.includes('AUTHZ_CHANGE'))).toBe(
      true,
    );
  });

  test('switching security off is the hazard that must be allowed', () => {
    expect(plan(policies(), todos())).toMatchObject([
      { sql: 'alter table "public"."todos" disable row level security', hazards: ['AUTHZ_OPEN'] },
    ]);
  });

  test('a reference to stored objects is tracked for the rows that are there', () => {
    const file = (more: string): string =>
      `${todos(`{ name: image, type: text${more} }`)}storage: { photos: {} }\n`;
    const [sql = '', ...others] = statements(file(''), file(', ref: storage.photos, on_delete: cascade'));
    expect(others).toEqual([]);
    expect(sql).toContain('after insert or delete or update of image, id on todos');
    expect(sql).toContain(
      "select storage.adopt_refs('todos'::regclass, 'image', 'photos', 'cascade', array['id']::text[])",
    );
  });
});

describe('functions', () => {
  const rpc = (...functions: string[]): string => `tables: {}\nrpc:\n${functions.join('')}`;
  const fn = (name: string, returns: string, args = ''): string =>
    `  ${name}: { language: sql, args: [${args}], returns: { type: ${returns} }, body: select 1 }\n`;
  const stages = (before: string, after: string): string[] =>
    plan(before, after).map(({ stage, identity }) => `${stage} ${identity}`);

  test('a new one is created, granted, and its body checked last', () => {
    expect(stages('tables: {}\n', rpc(fn('a', 'integer')))).toEqual([
      'functions rpc.a',
      'grants rpc.a',
      'function-bodies rpc.a',
    ]);
  });

  test('one with another signature is dropped before it is made again', () => {
    expect(stages(rpc(fn('a', 'integer')), rpc(fn('a', 'text')))).toEqual([
      'drop-former-functions rpc.a',
      'functions rpc.a',
      'grants rpc.a',
      'function-bodies rpc.a',
    ]);
  });

  test('one that a default calls comes first', () => {
    const calling = fn('a', 'integer', '{ name: x, type: integer, default: { sql: b() } }');
    expect(stages('tables: {}\n', rpc(calling, fn('b', 'integer'))).slice(0, 2)).toEqual([
      'functions rpc.b',
      'functions rpc.a',
    ]);
  });

  test('a removed one goes last', () => {
    expect(
      stages(`${todos()}${rpc(fn('a', 'integer')).replace('tables: {}\n', '')}`, title('type: text')),
    ).toEqual([`columns ${AT}`, 'drop-functions rpc.a']);
  });
});

describe('order', () => {
  const draft = (lane: Lane, stage: Stage, summary: string): Parameters<StepList['add']>[0] => ({
    sql: '',
    identity: '',
    lane,
    stage,
    summary,
  });
  const ordered = (...drafts: [Lane, Stage, string][]): string[] => {
    const steps = new StepList(NO_FACTS, SETTINGS, new Map(), []);
    for (const one of drafts) steps.add(draft(...one));
    return steps.ordered().map(({ summary }) => summary);
  };

  test('a stage comes after all stages before it, whatever was planned first', () => {
    const backwards = STAGES.toReversed().map((stage): [Lane, Stage, string] => ['metadata', stage, stage]);
    expect(ordered(...backwards)).toEqual([...STAGES]);
  });

  test('a lane comes after all lanes before it, whatever the stage', () => {
    const backwards = LANES.toReversed().map((lane, n): [Lane, Stage, string] => [
      lane,
      STAGES[n] ?? 'retire',
      lane,
    ]);
    expect(ordered(...backwards)).toEqual([...LANES]);
  });

  test('steps of one stage keep the order in which they were planned', () => {
    expect(
      ordered(
        ['online', 'not-null', 'a guard'],
        ['online', 'not-null', 'a validate'],
        ['online', 'backfill', 'b'],
        ['online', 'not-null', 'c guard'],
        ['online', 'not-null', 'c validate'],
      ),
    ).toEqual(['b', 'a guard', 'a validate', 'c guard', 'c validate']);
  });

  test('what is deferred becomes part of the cutover, and what is long follows it', () => {
    const deferred = (change: Change): boolean => change.kind === 'add-check' || change.kind === 'add-index';
    const before = todos('{ name: size, type: integer }');
    const after = `${todos('{ name: size, type: integer, min: 1 }')}    indexes: [{ columns: [size] }]\n`;
    const steps = plan(before, after, { rows: LARGE, deferred });
    expect(steps.map(({ lane, stage }) => `${lane} ${stage}`)).toEqual([
      'cutover checks',
      'background foreign-keys',
      'background indexes',
    ]);
    expect(steps.every((step) => step.deferred)).toBe(true);
  });

  test('a reference that is removed is forgotten under the name of its column', () => {
    const file = (more: string): string =>
      `${todos(`{ name: "ann's", type: text${more} }`)}storage:\n  photos: {}\n`;
    const steps = statements(file(', ref: storage.photos'), file(''));
    expect(steps).toContainEqual(expect.stringMatching(/storage\.forget_refs\(\d+::oid, 'ann''s'\)$/));
  });

  test('every kind of change has a place, and nothing is planned twice', () => {
    const file = declared(title('type: text, unique: true'));
    const { changes } = diff(file, liveDatabase(declared('tables: {}\n')), NOTHING_OWNED);
    const steps = planSteps(changes, NO_FACTS, NOTHING_ONLINE, SETTINGS);
    expect(new Set(steps.map(({ sql }) => sql)).size).toBe(steps.length);
  });
});
