// Tests the records that a run writes, without a database.
import { describe, expect, test } from 'vitest';
import { parseConfig } from '../../test/migrate/parse-config.ts';
import { liveDatabase, declared, NOTHING_OWNED } from '../../test/migrate/schema-without-database.ts';
import { diff } from './diff/diff.ts';
import { hashDeclarations } from './normalise/normalise.ts';
import { extractNormalForms } from './normalise/normal-forms.ts';
import { typeResolver } from './schema/column-types.ts';
import { toModel } from './schema/declared.ts';
import type { Ownership } from './schema/managed.ts';
import { objectKey } from './schema/model.ts';
import { stateAfter, type StateAfter, type StateChange } from './state-after.ts';
import type { DeclaredRow, ManagedObjects } from './state/managed-objects.ts';

function hashFile(yaml: string): StateChange['hashes'] {
  const model = toModel(parseConfig(yaml));
  return hashDeclarations(model, typeResolver(model, new Map()), new Set());
}

/** Returns the records of a run with this file. */
function recorded(yaml: string): ManagedObjects {
  const desired = declared(yaml);
  const hashes = hashFile(yaml);
  const rows = [
    ...desired.tables.map((table): [string, DeclaredRow] => [
      `table ${objectKey(table)}`,
      { hash: hashes.tables.get(objectKey(table)) ?? '', normalForms: extractNormalForms(table) },
    ]),
    ...desired.functions.map((fn): [string, DeclaredRow] => [
      `function ${objectKey(fn)}`,
      { hash: hashes.functions.get(objectKey(fn)) ?? '', normalForms: fn.normal },
    ]),
  ];
  return { ownership: after(null, yaml).owned, declared: new Map(rows) };
}

const NOTHING: ManagedObjects = { ownership: NOTHING_OWNED, declared: new Map() };

function after(before: string | null, next: string, change: Partial<StateChange> = {}): StateAfter {
  const objects = before === null ? NOTHING : recorded(before);
  const was = declared(before ?? 'tables: {}');
  const owned = change.owned ?? objects.ownership;
  const desired = declared(next);
  return stateAfter({
    model: toModel(parseConfig(next)),
    desired,
    hashes: hashFile(next),
    difference: diff(desired, liveDatabase(was), owned),
    objects,
    owned,
    renamedAway: [],
    backfills: new Map(),
    isLong: false,
    drops: false,
    ...change,
  });
}

const written = ({ writes }: StateAfter): string[] =>
  writes.map((write) => `${write.state} ${write.identity}`);
const definition = ({ writes }: StateAfter, identity: string): unknown =>
  writes.find((write) => write.identity === identity)?.definition;

const FILE = `tables:
  todos:
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: size, type: integer, min: 1 }
    indexes: [{ columns: [size] }]
    rls:
      - { operations: [select], using: "size > 2" }
  notes:
    fields:
      - { name: id, type: integer, primary_key: true }
    rls: []
rpc:
  count_todos: { language: sql, returns: { type: bigint }, body: select count(*) from todos }
`;
const WITHOUT_SIZE = FILE.replace('      - { name: size, type: integer, min: 1 }\n', '')
  .replace('    indexes: [{ columns: [size] }]\n', '')
  .replace('using: "size > 2"', 'using: "true"');
const WITHOUT_NOTES = FILE.replace(/ {2}notes:[^]*?rls: \[\]\n/, '');
const WITHOUT_FUNCTION = FILE.slice(0, FILE.indexOf('rpc:'));

test('the first run writes everything', () => {
  const state = after(null, FILE);
  expect(written(state)).toEqual([
    'managed table public.todos',
    'managed table public.notes',
    'managed function public.count_todos',
  ]);
  expect(state.forgotten).toEqual([]);
  expect(state.owned.tables.get('public.todos')).toEqual({
    columns: ['id', 'size'],
    constraints: ['todos_pkey', 'todos_size_range'],
    indexes: ['todos_size_idx'],
    policies: ['todos_p1_select'],
    closed: false,
  });
  expect([...state.owned.functions.keys()]).toEqual(['public.count_todos']);
});

test('a run that changes nothing writes nothing', () => {
  const state = after(FILE, FILE);
  expect(state).toMatchObject({ writes: [], forgotten: [], forgottenLater: [] });
  expect(state.owned).toEqual(after(null, FILE).owned);
});

test('only what changed is written', () => {
  expect(written(after(FILE, FILE.replace('min: 1', 'min: 2')))).toEqual(['managed table public.todos']);
  expect(written(after(FILE, FILE.replace('select count(*)', 'select sum(size)')))).toEqual([
    'managed function public.count_todos',
  ]);
});

test('a rename writes every table again and deletes the old name', () => {
  const { ownership } = recorded(FILE);
  const owned = { ...ownership, tables: new Map(ownership.tables) };
  const state = after(FILE, FILE, { owned, renamedAway: ['table public.things'] });
  expect(written(state)).toEqual(['managed table public.todos', 'managed table public.notes']);
  expect(state.forgotten).toEqual(['table public.things']);
});

describe('a removed declaration', () => {
  test('a table is retired with its owned parts', () => {
    const state = after(FILE, WITHOUT_NOTES);
    expect(written(state)).toEqual(['retired table public.notes']);
    expect(state.forgotten).toEqual([]);
    expect([...state.owned.retiredTables.keys()]).toEqual(['public.notes']);
  });

  test('a column is retired', () => {
    const state = after(FILE, WITHOUT_SIZE);
    expect(written(state)).toEqual(['managed table public.todos', 'retired column public.todos.size']);
    expect([...state.owned.retiredColumns]).toEqual(['public.todos.size']);
  });

  test('a dropped table is forgotten', () => {
    expect(after(FILE, WITHOUT_NOTES, { drops: true })).toMatchObject({
      writes: [],
      forgotten: ['table public.notes'],
    });
  });

  test('a function is forgotten, after the long steps if there are any', () => {
    expect(after(FILE, WITHOUT_FUNCTION)).toMatchObject({
      forgotten: ['function public.count_todos'],
      forgottenLater: [],
    });
    expect(after(FILE, WITHOUT_FUNCTION, { isLong: true })).toMatchObject({
      forgotten: [],
      forgottenLater: ['function public.count_todos'],
    });
  });

  test('a declaration that returns is no longer retired', () => {
    const objects = recorded(WITHOUT_SIZE);
    const owned: Ownership = { ...objects.ownership, retiredColumns: new Set(['public.todos.size']) };
    const state = after(WITHOUT_SIZE, FILE, { owned, objects: { ...objects, ownership: owned } });
    expect(state.forgotten).toEqual(['column public.todos.size']);
    expect([...state.owned.retiredColumns]).toEqual([]);
  });
});

describe('while long steps remain', () => {
  test('the labels that they remove stay owned', () => {
    const state = after(FILE, WITHOUT_SIZE, { isLong: true });
    expect(definition(state, 'table public.todos')).toMatchObject({
      leaving: {
        constraints: ['todos_size_range'],
        indexes: ['todos_size_idx'],
        policies: ['todos_p1_select'],
      },
    });
    expect(definition(after(FILE, WITHOUT_SIZE), 'table public.todos')).not.toHaveProperty('leaving');
  });

  test('a backfill is recorded with its value', () => {
    const backfills = new Map([['public.todos', { size: '1' }]]);
    expect(definition(after(FILE, FILE, { backfills, isLong: true }), 'table public.todos')).toMatchObject({
      fills: { size: '1' },
    });
  });
});

test('the policies of buckets are recorded as one object', () => {
  const bucket = (using: string): string =>
    `${FILE}storage:\n  images: { rls: [{ operations: [select], using: "${using}" }] }\n`;
  const state = after(FILE, bucket('true'));
  expect(written(state)).toEqual(['managed storage policies']);
  expect(definition(state, 'storage policies')).toMatchObject({
    canonical: { policies: [["bucket_id = 'images' and (\ntrue\n)", null]] },
  });
});
