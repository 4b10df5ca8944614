// Comparison of a file with the database of the previous file.
import { describe, expect, test } from 'vitest';
import {
  liveDatabase,
  declared,
  NOTHING_OWNED,
  ownedAfter,
  withTable,
} from '../../../test/migrate/schema-without-database.ts';
import type { LiveTable } from '../schema/live/live-schema.ts';
import type { Ownership } from '../schema/managed.ts';
import type { Change } from './change.ts';
import { diff, type Difference } from './diff.ts';
import { rebuildKey } from './table-diff.ts';

const ID = '{ name: id, type: bigint, primary_key: true }';

const table = (name: string, fields: readonly string[], more = ''): string =>
  `  ${name}:\n    fields:\n${[ID, ...fields].map((field) => `      - ${field}\n`).join('')}${more}`;
const todos = (...fields: string[]): string => `tables:\n${table('todos', fields)}`;
const list = (key: string, items: readonly string[]): string =>
  items.length === 0
    ? `    ${key}: []\n`
    : `    ${key}:\n${items.map((item) => `      - ${item}\n`).join('')}`;
const withIndexes = (...indexes: string[]): string =>
  `tables:\n${table('todos', ['{ name: title, type: text }'], list('indexes', indexes))}`;
const withPolicies = (...policies: string[]): string =>
  `tables:\n${table('todos', [], list('rls', policies))}`;
const fn = (head: string, body = 'select 1'): string =>
  `rpc:\n  total:\n    language: sql\n    ${head}\n    body: ${body}\n`;

function between(before: string, after: string): Difference {
  const was = declared(before);
  return diff(declared(after), liveDatabase(was), ownedAfter(was));
}

/** Returns text such as `add-column todos.note`. */
function describeChange(change: Change): string {
  const on = 'table' in change ? change.table.name : '';
  switch (change.kind) {
    case 'create-schema':
    case 'grant-schema':
      return `${change.kind} ${change.schema}`;
    case 'retire-table':
    case 'drop-function':
      return `${change.kind} ${change.live.name}`;
    case 'retire-column':
      return `${change.kind} ${on}.${change.liveColumn.name}`;
    case 'create-policy':
      return `${change.kind} ${change.label}${change.replaces ? ` for ${change.replaces.label}` : ''}`;
    case 'drop-policy':
    case 'drop-hosted-policy':
      return `${change.kind} ${change.policy.label}`;
    case 'create-hosted-policy':
      return `${change.kind} ${change.label}`;
    case 'add-check':
      return `${change.kind} ${change.check.label}${change.replaces ? ` for ${change.replaces.label}` : ''}`;
    default:
  }
  if ('fn' in change) return `${change.kind} ${change.fn.name}`;
  if ('column' in change) return `${change.kind} ${on}.${change.column.name}`;
  if ('key' in change) return `${change.kind} ${change.key.label}`;
  if ('check' in change) return `${change.kind} ${change.check.label}`;
  if ('foreignKey' in change) return `${change.kind} ${change.foreignKey.label}`;
  if ('index' in change) return `${change.kind} ${change.index.label}`;
  if ('reference' in change) return `${change.kind} ${on}.${change.reference.column}`;
  return `${change.kind} ${on}`;
}

type Case = readonly [what: string, before: string, after: string, changes: readonly string[]];

const expectChanges = (_what: string, before: string, after: string, changes: readonly string[]): void => {
  expect(between(before, after).changes.map(describeChange)).toEqual(changes);
};

describe('tables', () => {
  test.each<Case>([
    ['nothing changes', todos('{ name: title, type: text }'), todos('{ name: title, type: text }'), []],
    [
      'a new table is created with its constraints, policies and grants',
      'tables: {}\n',
      `tables:\n${table(
        'todos',
        ['{ name: title, type: text, unique: true, enum: [a, b] }'],
        list('rls', ['{ operations: [select], using: "true" }']),
      )}`,
      [
        'create-table todos',
        'add-key todos_pkey',
        'add-key todos_title_key',
        'add-check todos_title_enum',
        'create-policy todos_p1_select',
        'enable-rls todos',
        'grant-table todos',
      ],
    ],
    [
      'a new table in a new schema',
      'tables: {}\n',
      `tables:\n  deals:\n    schema: crm\n    fields: [${ID}]\n`,
      [
        'create-schema crm',
        'grant-schema crm',
        'create-table deals',
        'add-key deals_pkey',
        'grant-table deals',
      ],
    ],
    ['a removed table is retired', `${todos()}${table('notes', [])}`, todos(), ['retire-table notes']],
    ['row-level security on', todos(), withPolicies(), ['enable-rls todos']],
    ['row-level security off', withPolicies(), todos(), ['disable-rls todos']],
  ])('%s', expectChanges);

  test('FORCE ROW LEVEL SECURITY is removed', () => {
    const file = declared(withPolicies());
    const live = withTable(liveDatabase(file), 'public.todos', () => ({ rowSecurityForced: true }));
    expect(diff(file, live, ownedAfter(file)).changes.map(describeChange)).toEqual(['unforce-rls todos']);
  });

  test.each([
    ['a table that existed before svc gets no grants', NOTHING_OWNED, []],
    ['a table that svc created gets its grants', ownedAfter(declared(todos())), ['grant-table todos']],
  ] satisfies [string, Ownership, string[]][])('a table without grants: %s', (_what, owned, changes) => {
    const file = declared(todos());
    const live = withTable(liveDatabase(file), 'public.todos', () => ({ granted: 'none' }));
    const difference = diff(file, live, owned);
    expect(difference.changes.map(describeChange)).toEqual(changes);
    expect(difference.claims.get('public.todos')?.closed).toBe(changes.length === 0);
  });

  test('a privilege without a permissive policy does not open the table', () => {
    const file = declared(
      withPolicies(
        '{ operations: [select], using: "true" }',
        '{ operations: [insert], with_check: "true", type: restrictive }',
      ),
    );
    const live = withTable(liveDatabase(file), 'public.todos', () => ({ granted: 'none', grants: {} }));
    const { changes } = diff(file, live, ownedAfter(file));
    expect(changes).toMatchObject([
      { kind: 'grant-table', opens: ['select for anon', 'select for authenticated'] },
    ]);
  });
});

describe('columns', () => {
  const title = (more: string): string => todos(`{ name: title, ${more} }`);
  test.each<Case>([
    ['added', todos(), title('type: text'), ['add-column todos.title']],
    ['removed', title('type: text'), todos(), ['retire-column todos.title']],
    ['another type', title('type: text'), title('type: uuid'), ['change-type todos.title']],
    [
      'another type: the default is dropped and set in the new type',
      title('type: text, default: "1"'),
      title('type: integer, default: "1"'),
      ['change-type todos.title', 'drop-default todos.title', 'set-default todos.title'],
    ],
    ['required', title('type: text'), title('type: text, required: true'), ['set-not-null todos.title']],
    [
      'no longer required',
      title('type: text, required: true'),
      title('type: text'),
      ['drop-not-null todos.title'],
    ],
    ['a default', title('type: text'), title('type: text, default: a'), ['set-default todos.title']],
    [
      'another default',
      title('type: text, default: a'),
      title('type: text, default: b'),
      ['set-default todos.title'],
    ],
    ['no default', title('type: text, default: a'), title('type: text'), ['drop-default todos.title']],
    ['serial', title('type: bigint, required: true'), title('type: bigserial'), ['make-serial todos.title']],
    [
      'no longer serial',
      title('type: bigserial'),
      title('type: bigint, required: true'),
      ['drop-serial todos.title'],
    ],
    [
      'serial in place of a default',
      title('type: bigint, required: true, default: 1'),
      title('type: bigserial'),
      ['drop-default todos.title', 'make-serial todos.title'],
    ],
  ])('%s', expectChanges);

  const file = declared(todos());
  const extra = (name: string): LiveTable['columns'] => {
    const [id] = liveDatabase(file).tables.get('public.todos')?.columns.values() ?? [];
    return new Map(
      id
        ? [
            ['id', id],
            [name, { ...id, name, default: null }],
          ]
        : [],
    );
  };

  test.each([
    ['an undeclared column is not changed', 'theirs', ownedAfter(file), ['theirs']],
    [
      'a retired column is not reported',
      'notes',
      { ...ownedAfter(file), retiredColumns: new Set(['public.todos.notes']) },
      [],
    ],
    ['a shadow column of a type change is not reported', 'svc_n_0123abcd', ownedAfter(file), []],
  ] satisfies [string, string, Ownership, string[]][])('%s', (_what, name, owned, unmanaged) => {
    const live = withTable(liveDatabase(file), 'public.todos', () => ({ columns: extra(name) }));
    const difference = diff(file, live, owned);
    expect(difference.changes).toEqual([]);
    expect(difference.unmanaged.map((object) => object.name)).toEqual(unmanaged);
  });

  test('a backfill that an earlier run started is resumed', () => {
    const owned = ownedAfter(file);
    const fills = { id: '7' };
    const tables = new Map([...owned.tables].map(([key, state]) => [key, { ...state, fills }]));
    expect(diff(file, liveDatabase(file), { ...owned, tables }).changes).toMatchObject([
      { kind: 'resume-backfill', value: '7' },
    ]);
  });
});

describe('keys and indexes', () => {
  const title = (more: string): string => todos(`{ name: title, type: text${more} }`);
  test.each<Case>([
    ['a unique field', title(''), title(', unique: true'), ['add-key todos_title_key']],
    ['no longer unique', title(', unique: true'), title(''), ['drop-key todos_title_key']],
    ['an index', title(''), withIndexes('{ columns: [title] }'), ['add-index todos_title_idx']],
    ['no index', withIndexes('{ columns: [title] }'), title(''), ['drop-index todos_title_idx']],
    [
      'a name does not change an index',
      withIndexes('{ columns: [title] }'),
      withIndexes('{ columns: [title], name: by_title }'),
      [],
    ],
    [
      'another predicate is another index',
      withIndexes('{ columns: [title], name: one, where: "title > 1" }'),
      withIndexes('{ columns: [title], name: two, where: "title > 2" }'),
      ['add-index two', 'drop-index one'],
    ],
    [
      'the order of columns counts',
      withIndexes('{ columns: [id, title] }'),
      withIndexes('{ columns: [title, id] }'),
      ['add-index todos_title_id_idx', 'drop-index todos_id_title_idx'],
    ],
    [
      'a unique index serves as a unique field',
      withIndexes('{ columns: [title], unique: true }'),
      title(', unique: true'),
      [],
    ],
    [
      'a unique constraint serves as a unique index',
      title(', unique: true'),
      withIndexes('{ columns: [title], unique: true }'),
      [],
    ],
  ])('%s', expectChanges);

  test('another primary key replaces an existing one, also an undeclared one', () => {
    const was = declared(todos());
    const now = declared(
      'tables:\n  todos:\n    fields:\n      - { name: id, type: bigint, required: true }\n' +
        '      - { name: code, type: text, primary_key: true }\n',
    );
    expect(diff(now, liveDatabase(was), NOTHING_OWNED).changes.map(describeChange)).toEqual([
      'add-column todos.code',
      'add-key todos_pkey',
      'drop-key todos_pkey',
    ]);
  });

  test.each([
    ['half built', { valid: false }, ['drop-index todos_title_idx', 'add-index todos_title_idx']],
    ['of another kind', { plain: false }, ['add-index todos_title_idx', 'drop-index todos_title_idx']],
    ['renamed by hand', { label: 'theirs' }, []],
  ])('an index %s', (_what, difference, changes) => {
    const file = declared(withIndexes('{ columns: [title] }'));
    const live = withTable(liveDatabase(file), 'public.todos', ({ indexes }) => ({
      indexes: indexes.map((index) => ({ ...index, ...difference })),
    }));
    expect(diff(file, live, ownedAfter(file)).changes.map(describeChange)).toEqual(changes);
  });

  test('undeclared objects are reported and not dropped', () => {
    const was = declared(withIndexes('{ columns: [title] }'));
    const now = declared(todos('{ name: title, type: text }'));
    const difference = diff(now, liveDatabase(was), { ...NOTHING_OWNED });
    expect(difference.changes).toEqual([]);
    expect(difference.unmanaged).toEqual([{ table: 'public.todos', what: 'index', name: 'todos_title_idx' }]);
  });
});

describe('checks', () => {
  const size = (more: string): string => todos(`{ name: size, type: integer${more} }`);
  test.each<Case>([
    ['added', size(''), size(', min: 1'), ['add-check todos_size_range']],
    ['removed', size(', min: 1'), size(''), ['drop-check todos_size_range']],
    [
      'changed: replaced under its label',
      size(', min: 1'),
      size(', min: 2'),
      ['add-check todos_size_range for todos_size_range'],
    ],
    [
      'each kind of check has a separate constraint',
      size(', min: 1'),
      size(', min: 1, check: "size <> 3", enum: ["1", "2"]'),
      ['add-check todos_size_enum', 'add-check todos_size_check'],
    ],
    [
      'moved to another kind of check with the same text',
      size(', check: "\\"size\\" >= (1)"'),
      size(', min: 1'),
      [],
    ],
  ])('%s', expectChanges);

  test.each([
    ['renamed by hand', { label: 'theirs' }, []],
    ['not validated', { validated: false }, ['validate-check todos_size_range']],
    ['not enforced', { enforced: false }, ['add-check todos_size_range for todos_size_range']],
  ])('a check %s', (_what, difference, changes) => {
    const file = declared(size(', min: 1'));
    const live = withTable(liveDatabase(file), 'public.todos', ({ checks }) => ({
      checks: checks.map((check) => ({ ...check, ...difference })),
    }));
    expect(diff(file, live, ownedAfter(file)).changes.map(describeChange)).toEqual(changes);
  });

  test('an unused temporary check for NOT NULL is dropped', () => {
    const file = declared(size(''));
    const guard = {
      label: 'svc_nn_0123abcd',
      columns: ['size'],
      expression: '',
      validated: true,
      enforced: true,
    };
    const live = withTable(liveDatabase(file), 'public.todos', () => ({ checks: [guard] }));
    expect(diff(file, live, ownedAfter(file)).changes.map(describeChange)).toEqual([
      'drop-check svc_nn_0123abcd',
    ]);
  });
});

describe('foreign keys', () => {
  const file = (field: string, idType = 'bigint'): string =>
    `tables:\n  lists:\n    fields: [{ name: id, type: ${idType}, primary_key: true }]\n${table('todos', [field])}`;
  const list = (more = ''): string =>
    `{ name: list, type: bigint, foreign_key: { references: lists.id${more} } }`;
  test.each<Case>([
    ['added', file('{ name: list, type: bigint }'), file(list()), ['add-foreign-key todos_list_fkey']],
    ['removed', file(list()), file('{ name: list, type: bigint }'), ['drop-foreign-key todos_list_fkey']],
    [
      'another action: the old foreign key is dropped',
      file(list(', on_delete: cascade')),
      file(list(', on_delete: restrict')),
      ['add-foreign-key todos_list_fkey', 'drop-foreign-key todos_list_fkey'],
    ],
    [
      'dropped during a type change of both ends',
      file('{ name: list, foreign_key: { references: lists.id } }', 'bigint'),
      file('{ name: list, foreign_key: { references: lists.id } }', 'uuid'),
      [
        'change-type lists.id',
        'change-type todos.list',
        'drop-foreign-key todos_list_fkey',
        'add-foreign-key todos_list_fkey',
      ],
    ],
  ])('%s', expectChanges);

  test.each([
    ['not validated', { validated: false }, ['validate-foreign-key todos_list_fkey']],
    [
      'not enforced',
      { enforced: false },
      ['drop-foreign-key todos_list_fkey', 'add-foreign-key todos_list_fkey'],
    ],
    ['renamed by hand', { label: 'theirs' }, []],
  ])('a foreign key %s', (_what, difference, changes) => {
    const desired = declared(file(list()));
    const live = withTable(liveDatabase(desired), 'public.todos', ({ foreignKeys }) => ({
      foreignKeys: foreignKeys.map((foreignKey) => ({ ...foreignKey, ...difference })),
    }));
    expect(diff(desired, live, ownedAfter(desired)).changes.map(describeChange)).toEqual(changes);
  });
});

describe('policies', () => {
  const read = '{ operations: [select], using: "true" }';
  const write = '{ operations: [insert], with_check: "id > 1" }';
  const all = '{ operations: [select, insert, update, delete], using: "id = 1" }';
  const each = ['select', 'insert', 'update', 'delete'].map(
    (operation) => `{ operations: [${operation}], check: "id = 1" }`,
  );
  test.each<Case>([
    ['added', withPolicies(read), withPolicies(read, write), ['create-policy todos_p1_insert']],
    ['removed', withPolicies(read, write), withPolicies(read), ['drop-policy todos_p1_insert']],
    ['in another order', withPolicies(read, write), withPolicies(write, read), []],
    [
      'another expression replaces it under the same label',
      withPolicies(read),
      withPolicies('{ operations: [select], using: "id = 2" }'),
      ['drop-policy todos_p1_select', 'create-policy todos_p1_select for todos_p1_select'],
    ],
    [
      'two of one kind',
      withPolicies(),
      withPolicies(read, '{ operations: [select], using: "id = 2" }'),
      ['create-policy todos_p1_select', 'create-policy todos_p2_select'],
    ],
    ['one policy for all commands, or four policies', withPolicies(all), withPolicies(...each), []],
    [
      'restrictive is another policy',
      withPolicies(read),
      withPolicies('{ operations: [select], using: "true", type: restrictive }'),
      ['drop-policy todos_p1_select', 'create-policy todos_p1_select'],
    ],
  ])('%s', expectChanges);

  test.each([
    [
      'for other roles is recreated',
      { roles: 'nobody' },
      ['drop-policy todos_p1_select', 'create-policy todos_p1_select for todos_p1_select'],
    ],
    ['for PUBLIC is equivalent', { roles: 'public' }, []],
    ['with another label is equivalent', { label: 'theirs' }, []],
  ])('a policy %s', (_what, difference, changes) => {
    const file = declared(withPolicies(read));
    const live = withTable(liveDatabase(file), 'public.todos', ({ policies }) => ({
      policies: policies.map((policy) => ({ ...policy, ...difference })),
    }));
    expect(diff(file, live, ownedAfter(file)).changes.map(describeChange)).toEqual(changes);
  });

  test('an undeclared policy is reported and not changed', () => {
    const file = declared(withPolicies());
    const theirs = liveDatabase(declared(withPolicies(read))).tables.get('public.todos')?.policies ?? [];
    const live = withTable(liveDatabase(file), 'public.todos', () => ({ policies: theirs }));
    const difference = diff(file, live, ownedAfter(file));
    expect(difference.changes).toEqual([]);
    expect(difference.unmanaged).toMatchObject([{ what: 'policy', name: 'todos_p1_select' }]);
  });

  const bucket = (...policies: string[]): string =>
    `tables: {}\nstorage:\n  photos:\n    rls: [${policies.join(', ')}]\n`;
  test.each<Case>([
    ['of a bucket: added', bucket(), bucket(read), ['create-hosted-policy svc_photos_p1_select']],
    ['of a bucket: removed', bucket(read), bucket(), ['drop-hosted-policy svc_photos_p1_select']],
    ['of a bucket: the same', bucket(read), bucket(read), []],
  ])('%s', expectChanges);
});

describe('functions', () => {
  const returns = 'returns: { type: integer }';
  const args = (list: string): string => `args: [${list}]\n    ${returns}`;
  test.each<Case>([
    ['added', 'tables: {}\n', `tables: {}\n${fn(returns)}`, ['create-function total']],
    ['removed', `tables: {}\n${fn(returns)}`, 'tables: {}\n', ['drop-function total']],
    [
      'another body',
      `tables: {}\n${fn(returns)}`,
      `tables: {}\n${fn(returns, 'select 2')}`,
      ['replace-function total'],
    ],
    [
      'another volatility',
      `tables: {}\n${fn(returns)}`,
      `tables: {}\n${fn(`volatility: stable\n    ${returns}`)}`,
      ['replace-function total'],
    ],
    [
      'another result cannot be replaced',
      `tables: {}\n${fn(returns)}`,
      `tables: {}\n${fn('returns: { type: text }')}`,
      ['recreate-function total'],
    ],
    [
      'another argument cannot be replaced',
      `tables: {}\n${fn(args('{ name: a, type: integer }'))}`,
      `tables: {}\n${fn(args('{ name: b, type: integer }'))}`,
      ['recreate-function total'],
    ],
  ])('%s', expectChanges);

  test('grants that were changed by hand are restored', () => {
    const file = declared(`tables: {}\n${fn(returns)}`);
    const live = liveDatabase(file);
    const functions = new Map(
      [...live.functions].map(([key, list]) => [
        key,
        list.map((overload) => ({ ...overload, callers: ['anon', 'public'] })),
      ]),
    );
    expect(diff(file, { ...live, functions }, ownedAfter(file)).changes.map(describeChange)).toEqual([
      'grant-function total',
    ]);
  });
});

describe('references to stored objects', () => {
  const file = (more: string): string =>
    `${todos(`{ name: image, type: text${more} }`)}storage:\n  photos: {}\n  others: {}\n`;
  test.each<Case>([
    ['added', file(''), file(', ref: storage.photos'), ['add-reference todos.image']],
    ['removed', file(', ref: storage.photos'), file(''), ['drop-reference todos', 'drop-reference todos']],
    [
      'to another bucket',
      file(', ref: storage.photos'),
      file(', ref: storage.others'),
      ['add-reference todos.image'],
    ],
    [
      'of a column that changes its type: suspended',
      file(', ref: storage.photos'),
      `${todos('{ name: image, type: varchar, ref: storage.photos }')}storage:\n  photos: {}\n  others: {}\n`,
      ['change-type todos.image', 'suspend-reference todos.image', 'add-reference todos.image'],
    ],
  ])('%s', expectChanges);
});

test('unchanged objects that must be rebuilt are dropped and created', () => {
  const file = declared(
    `tables:\n${table(
      'todos',
      ['{ name: size, type: integer, default: 1, min: 0 }'],
      list('indexes', ['{ columns: [size], where: "size > 1" }']) +
        list('rls', ['{ operations: [select], using: "size = 1" }']),
    )}${fn('returns: { type: integer }')}`,
  );
  const live = liveDatabase(file);
  const [found] = live.tables.get('public.todos')?.indexes ?? [];
  const rebuild = new Set([
    rebuildKey('default', 'public.todos', 'size'),
    rebuildKey('check', 'public.todos', 'todos_size_range'),
    rebuildKey('index', 'public.todos', found?.label ?? ''),
    rebuildKey('policy', 'public.todos', 'todos_p1_select'),
    rebuildKey('function', '', '1001'),
  ]);
  expect(diff(file, live, ownedAfter(file), rebuild).changes.map(describeChange)).toEqual([
    'drop-default todos.size',
    'set-default todos.size',
    'add-check todos_size_range for todos_size_range',
    `drop-index ${found?.label}`,
    `add-index ${found?.label}`,
    'drop-policy todos_p1_select',
    'create-policy todos_p1_select for todos_p1_select',
    'recreate-function total',
  ]);
});

test('a rebuilt index or check is claimed under its new label', () => {
  const file = declared(
    `tables:\n${table(
      'todos',
      ['{ name: size, type: integer, min: 0 }'],
      list('indexes', ['{ columns: [size], where: "size > 1" }']) + list('rls', []),
    )}`,
  );
  const live = withTable(liveDatabase(file), 'public.todos', ({ checks, indexes }) => ({
    checks: checks.map((check) => ({ ...check, label: 'old_check' })),
    indexes: indexes.map((index) => ({ ...index, label: 'old_index' })),
  }));
  const claims = (...rebuild: string[]): unknown => {
    const { constraints, indexes } =
      diff(file, live, NOTHING_OWNED, new Set(rebuild)).claims.get('public.todos') ?? {};
    return { constraints, indexes };
  };
  const built = liveDatabase(file).tables.get('public.todos')?.indexes[0]?.label;
  expect(claims()).toEqual({ constraints: ['todos_pkey', 'old_check'], indexes: ['old_index'] });
  expect(
    claims(
      rebuildKey('check', 'public.todos', 'old_check'),
      rebuildKey('index', 'public.todos', 'old_index'),
    ),
  ).toEqual({ constraints: ['todos_pkey', 'todos_size_range'], indexes: [built] });
});

test('claims contain the labels of the database', () => {
  const file = declared(
    `tables:\n${table(
      'todos',
      ['{ name: title, type: text, unique: true, enum: [a] }'],
      list('indexes', ['{ columns: [title, id] }']) +
        list('rls', ['{ operations: [select], using: "true" }']),
    )}`,
  );
  const live = withTable(liveDatabase(file), 'public.todos', ({ checks }) => ({
    checks: checks.map((check) => ({ ...check, label: 'theirs' })),
  }));
  expect(diff(file, live, NOTHING_OWNED).claims.get('public.todos')).toEqual({
    columns: ['id', 'title'],
    constraints: ['todos_pkey', 'todos_title_key', 'theirs'],
    indexes: ['todos_title_id_idx'],
    policies: ['todos_p1_select'],
    closed: false,
  });
});
