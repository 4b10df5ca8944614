// Generates random files and random edits. Objects refer to each other by id and get their names when the file is
// rendered, so that edits leave no dangling names. Values that fit each column are known.
import { stringify } from 'yaml';

export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0 || 1;
  }

  next(): number {
    // mulberry32
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  }

  below(limit: number): number {
    return Math.floor(this.next() * limit);
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  pick<T>(list: readonly T[]): T {
    const picked = list[this.below(list.length)];
    if (picked === undefined) throw new Error('cannot pick from an empty list');
    return picked;
  }

  shuffle<T>(list: readonly T[]): T[] {
    const copy = [...list];
    for (let i = copy.length - 1; i > 0; i -= 1) {
      const j = this.below(i + 1);
      [copy[i], copy[j]] = [copy[j]!, copy[i]!];
    }
    return copy;
  }
}

/** Past names that a new table or column must not use, because it would get the rows of a retired object. */
export type TakenNames = {
  readonly tables: ReadonlySet<string>;
  columnNames(table: number): ReadonlySet<string>;
};

export type RandomFile = {
  tables: RandomTable[];
  functions: RandomFunction[];
  buckets: RandomBucket[];
  channels: RandomPolicy[];
  sequences: RandomSequence[];
  /** Initial value of an aggregate, which is declared together with a range type. Absent without these. */
  begins?: number;
  /** A partitioned table without references from other objects. */
  spread?: RandomSpread;
  nextId: number;
};

export type RandomSpread = {
  /** Values with a separate partition. */
  parts: number[];
  /** True if a default partition, which is partitioned itself, contains the other values. */
  rest: boolean;
  /** Columns other than the key. */
  more: number;
  indexed: boolean;
  checked: boolean;
};

type RandomIndex = {
  columns: number[];
  unique: boolean;
  where: Template | null;
  /** Form other than a list of columns. */
  form?: 'desc' | 'expression' | 'include';
};

export type RandomTable = {
  id: number;
  name: string;
  schema: string;
  renamedFrom?: string;
  columns: RandomColumn[];
  indexes: RandomIndex[];
  rls: 'absent' | RandomPolicy[];
  /** Column of an exclusion constraint. The column may have been removed. */
  excluded?: number;
  /** Replica identity of a published table. */
  told?: 'key' | 'full';
  /** Columns of a materialized view of the table. Some may have been removed. */
  stored?: number[];
  /** Columns of a statistics object. Some may have been removed. */
  measured?: number[];
  /** Column that a rule uses. The column may have been removed. */
  ruled?: number;
};

export type RandomColumn = {
  id: number;
  name: string;
  renamedFrom?: string;
  type: string;
  primaryKey?: boolean;
  required?: boolean;
  unique?: boolean;
  default?: unknown;
  enum?: string[];
  pattern?: string;
  min?: number;
  max?: number;
  check?: Template;
  reference?: { table: number; column: number; onDelete: string };
  backfill?: string;
  /** True for a text column with a separate domain. */
  own?: boolean;
  /** Sequence that the default uses. */
  draws?: number;
  using?: Template;
  /** True for a column that is never edited, because it identifies the rows. */
  fixed?: boolean;
};

/**
 * SQL text with placeholders: `{12}` for column 12, `{t3}` for table 3, `{p3}` with its schema, `{f4}` for function 4.
 */
type Template = string;

export type RandomPolicy = {
  operations: string[];
  to?: string[];
  type?: string;
  using?: Template;
  with_check?: Template;
  check?: Template;
};

export type RandomFunction = {
  id: number;
  name: string;
  /** Name in SQL of an overloaded function. */
  called?: string;
  /** True for an atomic body, which PostgreSQL parses. */
  atomic?: true;
  language: string;
  volatility: string;
  security: string;
  args: { name: string; type: string; required?: boolean; default?: unknown }[];
  returns: Template;
  body: Template;
};

/** A sequence without a column. */
export type RandomSequence = {
  id: number;
  name: string;
  renamedFrom?: string;
  increment: number;
  usage?: string[];
};

type RandomBucket = { name: string; rls: RandomPolicy[] };

const TABLE_NAMES = [
  'todos',
  'Notes',
  'a b',
  'quo"te',
  'select',
  'ünïcode',
  'x'.repeat(63),
  'users',
  "it's",
  'log_entries',
  'back\\slash',
];
const COLUMN_NAMES = [
  'title',
  'Body',
  'due date',
  'qu"ote',
  'order',
  'größe',
  'c'.repeat(60),
  'state',
  'amount',
  'flag',
  'payload',
  'tags',
  'seen_at',
  'ref_no',
  'kind',
  'score',
];

/** Types with valid values, and the types to which each can be converted without loss. */
const TYPES: Record<string, { values: string[]; defaults: unknown[]; into: string[] }> = {
  text: {
    values: ['alpha', 'beta', 'gamma'],
    defaults: ['alpha', '', "it's", 'now()', { sql: "lower('ALPHA')" }],
    into: ['varchar(40)'],
  },
  'varchar(40)': { values: ['alpha', 'beta', 'gamma'], defaults: ['beta'], into: ['text', 'varchar(80)'] },
  'varchar(80)': {
    values: ['alpha', 'beta', 'gamma'],
    defaults: ['beta'],
    into: ['text', 'character varying(40)'],
  },
  integer: { values: ['1', '2', '3'], defaults: [0, -1, 7], into: ['bigint', 'numeric(12,2)', 'text'] },
  bigint: { values: ['1', '2', '3'], defaults: [0, 42], into: ['integer', 'int4', 'text'] },
  'numeric(12,2)': {
    values: ['1.00', '2.00', '3.00'],
    defaults: [1.5, -3],
    into: ['numeric(14,2)', 'numeric'],
  },
  boolean: { values: ['true', 'false'], defaults: [true, false], into: ['text'] },
  timestamptz: {
    values: ['2024-01-01 00:00:00+00', '2024-06-01 12:30:00+00'],
    defaults: ['now()', '2020-01-01T00:00:00Z'],
    into: ['timestamp'],
  },
  date: {
    values: ['2024-01-01', '2024-02-02'],
    defaults: ['current_date', '2020-02-02'],
    into: ['timestamptz'],
  },
  uuid: {
    values: ['11111111-1111-4111-8111-111111111111', '22222222-2222-4222-8222-222222222222'],
    defaults: ['uuid_v4()', 'uuid_v7()', 'gen_random_uuid()'],
    into: ['text'],
  },
  jsonb: { values: ['{"a": 1}', '[]'], defaults: [{ a: 1 }, [], '{"b":2}'], into: ['text'] },
  'text[]': { values: ['{a,b}', '{}'], defaults: [[], ['a', 'b']], into: [] },
  'double precision': { values: ['1.5', '2.25'], defaults: [0.5], into: ['text'] },
};

/** Name of the function that checks in a chain call. */
export const CHECKING_FUNCTION = 'is_ok';

export const KEY_TYPES: Record<string, string> = {
  serial: 'bigserial',
  bigserial: 'serial',
  integer: 'bigint',
  bigint: 'integer',
};

export function randomFile(random: Random): RandomFile {
  const file: RandomFile = { tables: [], functions: [], buckets: [], channels: [], sequences: [], nextId: 1 };
  const count = 1 + random.below(3);
  for (let i = 0; i < count; i += 1) addTable(file, random);
  for (let i = 0; i < random.below(3); i += 1) addFunction(file, random);
  if (random.chance(0.3)) file.buckets.push({ name: 'avatars', rls: [storagePolicy(random)] });
  return file;
}

const NOTHING_TAKEN: TakenNames = { tables: new Set(), columnNames: () => new Set() };

/** Returns the names in all these files. */
export function namesTakenBy(files: readonly RandomFile[]): TakenNames {
  const tables = new Set(files.flatMap((file) => file.tables.map((table) => table.name)));
  return {
    tables,
    columnNames: (id) =>
      new Set(
        files.flatMap((file) =>
          file.tables
            .filter((table) => table.id === id)
            .flatMap((table) => table.columns.map((column) => column.name)),
        ),
      ),
  };
}

function addTable(file: RandomFile, random: Random, past: TakenNames = NOTHING_TAKEN): void {
  // A recently retired name would restore the table, possibly with different types.
  const taken = new Set(file.tables.map((table) => table.name));
  const free = TABLE_NAMES.filter((name) => !taken.has(name) && !past.tables.has(name));
  if (free.length === 0) return;
  const name = random.pick(free);
  const table: RandomTable = {
    id: file.nextId++,
    name,
    schema: random.chance(0.15) ? 'crm' : 'public',
    columns: [],
    indexes: [],
    rls: 'absent',
  };
  file.tables.push(table);
  const key = random.pick(['bigserial', 'serial', 'uuid', 'integer']);
  table.columns.push({
    id: file.nextId++,
    name: 'id',
    type: key,
    primaryKey: true,
    ...(key === 'uuid' ? { default: 'uuid_v4()' } : {}),
  });
  if (key === 'integer' && random.chance(0.5))
    table.columns.push({ id: file.nextId++, name: 'part', type: 'integer', primaryKey: true });
  const count = 1 + random.below(5);
  for (let i = 0; i < count; i += 1) addColumn(file, table, random, false);
  if (random.chance(0.5)) addReference(file, table, random, false);
  for (let i = 0; i < random.below(3); i += 1) addIndex(table, random);
  if (random.chance(0.6))
    table.rls = Array.from({ length: random.below(4) }, () => randomPolicy(file, table, random));
}

function addColumn(
  file: RandomFile,
  table: RandomTable,
  random: Random,
  later: boolean,
  past: TakenNames = NOTHING_TAKEN,
): void {
  const taken = new Set(table.columns.map((column) => column.name));
  const gone = past.columnNames(table.id);
  const free = COLUMN_NAMES.filter((name) => !taken.has(name) && !gone.has(name));
  if (free.length === 0) return;
  const type = random.pick(Object.keys(TYPES));
  const column: RandomColumn = { id: file.nextId++, name: random.pick(free), type };
  decorate(column, random);
  if (later) {
    // A required column that is added to a table with rows usually gets a value for them.
    delete column.unique;
    if (column.required && column.default === undefined && random.chance(0.8))
      column.backfill = `'${validValues(column)[0]}'`;
  }
  table.columns.push(column);
}

function decorate(column: RandomColumn, random: Random): void {
  const { defaults } = TYPES[column.type] ?? { defaults: [] };
  if (random.chance(0.3)) column.required = true;
  if (defaults.length > 0 && random.chance(0.4)) column.default = random.pick(defaults);
  if (['text', 'varchar(40)', 'varchar(80)'].includes(column.type)) {
    const dice = random.next();
    if (dice < 0.25) {
      column.enum = ['alpha', 'beta', 'gamma', "o'hara"];
      if (column.default !== 'alpha' && column.default !== 'beta') delete column.default;
    } else if (dice < 0.45) {
      column.pattern = '^[a-z]*$';
      if (column.default === "it's" || column.default === 'now()') delete column.default;
    } else if (dice < 0.6) column.check = `length({${column.id}}) < 50 or {${column.id}} is null`;
  }
  if (['integer', 'bigint', 'numeric(12,2)'].includes(column.type)) {
    if (random.chance(0.25)) column.min = -10;
    if (random.chance(0.25)) column.max = 1_000;
    if (random.chance(0.15)) column.check = `{${column.id}} <> 666`;
  }
  if (random.chance(0.1) && column.default === undefined && ['integer', 'text', 'uuid'].includes(column.type))
    column.unique = true;
}

/** Returns values of a column that satisfy all its constraints. */
export function validValues(column: RandomColumn): string[] {
  // Types that only a type change produces.
  if (column.type === 'timestamp') return ['2024-01-01 00:00:00', '2024-06-01 12:30:00'];
  return TYPES[column.type]?.values ?? ['1', '2', '3'];
}

function addReference(file: RandomFile, table: RandomTable, random: Random, later: boolean): void {
  const targets = file.tables.filter(
    (table) => table.columns.filter((column) => column.primaryKey).length === 1,
  );
  if (targets.length === 0 || table.columns.some((column) => column.name === 'parent_id')) return;
  const target = random.pick(targets);
  const key = target.columns.find((column) => column.primaryKey)!;
  table.columns.push({
    id: file.nextId++,
    name: 'parent_id',
    type: '',
    reference: {
      table: target.id,
      column: key.id,
      onDelete: random.pick(['cascade', 'restrict', 'set_null']),
    },
    ...(later || target.id === table.id ? {} : {}),
  });
}

function addIndex(table: RandomTable, random: Random): void {
  const plain = table.columns.filter((column) => column.type !== 'jsonb' && column.type !== 'text[]');
  if (plain.length === 0) return;
  const columns = random
    .shuffle(plain)
    .slice(0, 1 + random.below(2))
    .map((column) => column.id);
  const first = columns[0]!;
  const where = random.chance(0.3) ? `{${first}} is not null` : null;
  const same = table.indexes.some(
    (index) => index.columns.join() === columns.join() && index.where === where,
  );
  if (!same)
    table.indexes.push({
      columns,
      unique:
        random.chance(0.15) &&
        table.columns.some((column) => column.primaryKey && columns.includes(column.id)),
      where,
      ...(random.chance(0.3) ? { form: random.pick(['desc', 'expression', 'include'] as const) } : {}),
    });
}

function randomPolicy(file: RandomFile, table: RandomTable, random: Random): RandomPolicy {
  const operations = random.chance(0.3)
    ? ['select', 'insert', 'update', 'delete']
    : random.shuffle(['select', 'insert', 'update', 'delete']).slice(0, 1 + random.below(3));
  const expression = (): Template => {
    const column = random.pick(table.columns);
    const readTable = random.pick(file.tables);
    const readColumn = random.pick(readTable.columns);
    return random.pick([
      `{${column.id}} is not null`,
      `auth.uid() is not null or {${column.id}}::text = 'alpha'`,
      `auth.is_authenticated()`,
      `exists (select 1 from {t${readTable.id}} o where o.{${readColumn.id}} is not null
        and o.{${readColumn.id}}::text <> {t${table.id}}.{${column.id}}::text)`,
      `{${column.id}}::text in ('alpha', 'beta') -- a remark`,
      `coalesce((select auth.uid())::text, '') <> {${column.id}}::text`,
    ]);
  };
  const policy: RandomPolicy = { operations };
  if (random.chance(0.2)) policy.type = 'restrictive';
  if (random.chance(0.2)) policy.to = [random.pick(['anon', 'authenticated'])];
  if (random.chance(0.2)) policy.check = expression();
  else policy.using = expression();
  if (random.chance(0.3) && operations.some((operation) => operation === 'insert' || operation === 'update'))
    policy.with_check = expression();
  return policy;
}

function indexColumns(
  { columns, unique, form }: RandomIndex,
  columnName: (id: number) => string,
  text: (template: Template) => string,
): Record<string, unknown> {
  const names = columns.map(columnName);
  const [first = 0, ...others] = columns;
  switch (form) {
    case 'desc':
      return { columns: [{ column: columnName(first), order: 'desc' }, ...others.map(columnName)] };
    case 'expression':
      return unique
        ? { columns: names }
        : { columns: [{ expression: text(`{${first}} is null`) }, ...others.map(columnName)] };
    case 'include':
      // Only the combination of all columns is unique, so INCLUDE is not possible.
      return { columns: unique ? names : [columnName(first)], include: names };
    default:
      return { columns: names };
  }
}

function channelPolicy(random: Random): RandomPolicy {
  return {
    operations: random.pick([['select'], ['insert'], ['select', 'insert']]),
    check: random.pick(["realtime.topic() = 'room:' || auth.uid()", "extension = 'presence'", 'true']),
  };
}

function storagePolicy(random: Random): RandomPolicy {
  return {
    operations: random.pick([['select'], ['insert', 'update'], ['select', 'insert', 'update', 'delete']]),
    using: random.pick(['owner_id = auth.uid()::text', "name like 'public/%'", 'true']),
  };
}

function addFunction(file: RandomFile, random: Random): void {
  const taken = new Set(file.functions.map((fn) => fn.name));
  const name = random.pick(
    ['list all', 'count_rows', 'greet', 'Odd']
      .filter((candidate) => !taken.has(candidate))
      .concat(taken.size >= 4 ? ['never'] : []),
  );
  if (taken.has(name)) return;
  const fn: RandomFunction = {
    id: file.nextId++,
    name,
    language: 'sql',
    volatility: random.pick(['volatile', 'stable']),
    security: random.pick(['invoker', 'definer']),
    args: [],
    returns: 'bigint',
    body: 'select 1::bigint',
  };
  shape(fn, file, random);
  file.functions.push(fn);
}

function shape(fn: RandomFunction, file: RandomFile, random: Random): void {
  const table = random.pick(file.tables);
  const visible = table.schema === 'public';
  const form = random.below(6);
  // No function returns rows of a table outside `public`.
  if (!visible && (form === 1 || form === 3)) return;
  delete fn.atomic;
  switch (form) {
    case 0:
      Object.assign(fn, {
        language: 'sql',
        args: [],
        returns: 'bigint',
        body: `select count(*) from {t${table.id}}`,
      });
      return;
    case 1:
      Object.assign(fn, {
        language: 'sql',
        args: [{ name: 'n', type: 'integer', default: 5 }],
        returns: `setof {t${table.id}}`,
        body: `select * from {t${table.id}} limit n`,
      });
      return;
    case 2: {
      const column = random.pick(table.columns);
      Object.assign(fn, {
        language: 'sql',
        atomic: true,
        args: [{ name: 'least', type: 'text', default: 'a' }],
        returns: 'bigint',
        body: random.pick([
          `return (select count(*) from {p${table.id}} o where o.{${column.id}}::text > least)`,
          `select 1; select count(o.{${column.id}}) from {p${table.id}} o where least is not null;`,
        ]),
      });
      return;
    }
    case 3:
      Object.assign(fn, {
        language: 'sql',
        atomic: true,
        args: [],
        returns: `setof {t${table.id}}`,
        // Returns the whole row, because the columns of a star depend on their order and on retired columns.
        body: `select o from {t${table.id}} o;`,
      });
      return;
    case 4:
      Object.assign(fn, {
        language: 'plpgsql',
        args: [
          { name: 'word', type: 'text', required: true },
          { name: 'times', type: 'int', default: 2 },
        ],
        returns: 'text',
        body: 'begin\n  return repeat(word, times);\nend\n',
      });
      return;
    default:
      Object.assign(fn, {
        language: 'plpgsql',
        args: [
          { name: 'a', type: 'integer' },
          { name: 'b', type: 'integer', required: true },
        ],
        returns: 'void',
        body: 'begin\n  perform a + b;\nend',
      });
  }
}

/** Returns a copy of `from` with one to four edits. */
export function edited(
  from: RandomFile,
  random: Random,
  past: TakenNames = namesTakenBy([from]),
): RandomFile {
  const file: RandomFile = structuredClone(from);
  for (const sequence of file.sequences) delete sequence.renamedFrom;
  for (const table of file.tables) {
    delete table.renamedFrom;
    for (const column of table.columns) {
      delete column.renamedFrom;
      delete column.backfill;
    }
  }
  const renamed = { tables: new Set<number>(), columns: new Set<number>() };
  const edits = 1 + random.below(4);
  for (let i = 0; i < edits; i += 1) editOnce(file, from, past, random, renamed);
  return file;
}

function editOnce(
  file: RandomFile,
  from: RandomFile,
  past: TakenNames,
  random: Random,
  renamed: { tables: Set<number>; columns: Set<number> },
): void {
  if (file.tables.length === 0) return addTable(file, random, past);
  const table = random.pick(file.tables);
  const old = from.tables.find((candidate) => candidate.id === table.id);
  const ordinary = table.columns.filter((column) => !column.primaryKey && !column.reference && !column.fixed);
  const column = ordinary.length > 0 ? random.pick(ordinary) : undefined;
  const oldColumn = old?.columns.find((candidate) => candidate.id === column?.id);
  switch (random.below(21)) {
    case 0:
      return addTable(file, random, past);
    case 1:
      return removeTable(file, table);
    case 2: {
      const free = TABLE_NAMES.filter(
        (name) => !past.tables.has(name) && !file.tables.some((table) => table.name === name),
      );
      // The check of the file accepts only plain names after `setof`.
      if (file.functions.some((fn) => mentions(fn.returns, `{t${table.id}}`))) return;
      if (!old || renamed.tables.has(table.id) || free.length === 0) return;
      renamed.tables.add(table.id);
      table.renamedFrom = table.name;
      table.name = random.pick(free);
      return;
    }
    case 3:
    case 4:
      return addColumn(file, table, random, true, past);
    case 5:
      return column && removeColumn(file, table, column);
    case 6: {
      if (!column || !oldColumn || !old || renamed.columns.has(column.id)) return;
      const gone = past.columnNames(table.id);
      const free = COLUMN_NAMES.filter(
        (name) => !gone.has(name) && !table.columns.some((column) => column.name === name),
      );
      if (free.length === 0) return;
      renamed.columns.add(column.id);
      column.renamedFrom = column.name;
      column.name = random.pick(free);
      return;
    }
    case 7: {
      const into = column ? (TYPES[column.type]?.into ?? []) : [];
      if (!column || into.length === 0) return;
      column.type = random.pick(into);
      for (const key of ['default', 'draws', 'enum', 'pattern', 'min', 'max', 'check'] as const)
        delete column[key];
      return;
    }
    case 8: {
      const defaults = column ? (TYPES[column.type]?.defaults ?? []) : [];
      if (!column || column.enum || column.pattern) return;
      delete column.draws;
      if (random.chance(0.3) || defaults.length === 0) delete column.default;
      else column.default = random.pick(defaults);
      return;
    }
    case 9:
      if (column?.enum)
        column.enum = random.chance(0.5) ? [...new Set([...column.enum, 'delta'])] : column.enum.slice(0, 3);
      else if (column && ['text', 'varchar(40)'].includes(column.type) && column.default === undefined)
        column.enum = ['alpha', 'beta', 'gamma'];
      return;
    case 10:
      if (!column) return;
      if (column.required) delete column.required;
      else {
        column.required = true;
        if (random.chance(0.5)) column.backfill = `'${validValues(column)[0]}'`;
      }
      return;
    case 11:
      if (table.rls === 'absent') table.rls = [];
      table.rls.push(randomPolicy(file, table, random));
      return;
    case 12:
      if (table.rls === 'absent') table.rls = [randomPolicy(file, table, random)];
      else if (random.chance(0.3)) table.rls = 'absent';
      else table.rls = random.shuffle(table.rls).slice(0, Math.max(0, table.rls.length - random.below(2)));
      return;
    case 13:
      table.columns = random.shuffle(table.columns);
      if (random.chance(0.5)) addIndex(table, random);
      else table.indexes = table.indexes.slice(1);
      return;
    case 14: {
      const reference = table.columns.find((column) => column.reference);
      // A retired parent_id would be restored, possibly with a different type.
      if (!reference?.reference)
        return past.columnNames(table.id).has('parent_id')
          ? undefined
          : addReference(file, table, random, true);
      if (random.chance(0.5)) reference.reference.onDelete = random.pick(['cascade', 'restrict', 'set_null']);
      else removeColumn(file, table, reference);
      return;
    }
    case 15: {
      // A function that checks call keeps its body. Another edit changes its argument.
      const free = file.functions.filter((fn) => fn.name !== CHECKING_FUNCTION && fn.called === undefined);
      if (free.length === 0 || random.chance(0.3)) return addFunction(file, random);
      if (random.chance(0.3)) file.functions = file.functions.filter((fn) => fn !== free.at(-1));
      else shape(random.pick(free), file, random);
      return;
    }
    case 16:
      if (random.chance(0.3)) delete table.told;
      else table.told = random.pick(['key', 'full']);
      return;
    case 17: {
      // Columns that refer to a key change with it.
      const key = table.columns.find((column) => column.primaryKey);
      if (key && key.type in KEY_TYPES) key.type = KEY_TYPES[key.type]!;
      return;
    }
    case 18:
      return editSequence(file, from, random, column);
    case 19:
      return editStatements(file, random, table);
    default:
      if (random.chance(0.4)) file.channels = random.chance(0.3) ? [] : [channelPolicy(random)];
      else if (file.buckets.length === 0)
        file.buckets.push({ name: 'avatars', rls: [storagePolicy(random)] });
      else file.buckets[0]!.rls = random.chance(0.5) ? [] : [storagePolicy(random), storagePolicy(random)];
  }
}

const SEQUENCE_NAMES = ['numbers', 'Odd "ones', 'nümmern', "it's next"];

function editSequence(
  file: RandomFile,
  from: RandomFile,
  random: Random,
  column: RandomColumn | undefined,
): void {
  const free = SEQUENCE_NAMES.filter(
    (name) => ![...file.sequences, ...from.sequences].some((sequence) => sequence.name === name),
  );
  const [first] = random.shuffle(file.sequences);
  const old = first && from.sequences.find((sequence) => sequence.id === first.id);
  const dice = random.next();
  if (first === undefined || (dice < 0.3 && free.length > 0)) {
    if (free.length === 0) return;
    file.sequences.push({ id: file.nextId++, name: random.pick(free), increment: 1 + random.below(3) });
  } else if (dice < 0.45) {
    file.sequences = file.sequences.filter((sequence) => sequence !== first);
    for (const table of file.tables)
      for (const column of table.columns) if (column.draws === first.id) delete column.draws;
  } else if (dice < 0.65 && old?.name === first.name && free.length > 0) {
    first.renamedFrom = first.name;
    first.name = random.pick(free);
  } else {
    first.increment = random.pick([-1, 1, 2, 5]);
    if (random.chance(0.5)) first.usage = random.pick([[], ['authenticated']]);
    else delete first.usage;
  }
  const [drawn] = random.shuffle(file.sequences);
  if (!column || !drawn || !['integer', 'bigint'].includes(column.type)) return;
  delete column.default;
  column.draws = drawn.id;
}

function editStatements(file: RandomFile, random: Random, table: RandomTable): void {
  const columns = random.shuffle(table.columns).map(({ id }) => id);
  const dice = random.next();
  if (dice < 0.3) file.begins = random.below(3);
  else if (dice < 0.4) delete file.begins;
  else if (dice < 0.6) table.measured = columns.slice(0, 3);
  else if (dice < 0.7) delete table.measured;
  else if (dice < 0.9) table.ruled = columns[0]!;
  else delete table.ruled;
}

/** Returns statements for objects without a key in the file. */
function listStatements(file: RandomFile, text: (template: Template) => string): Record<string, unknown> {
  const said: Record<string, unknown> = {};
  if (file.begins !== undefined) {
    const create = `create aggregate added(integer) (sfunc = int4pl, stype = integer, initcond = '${file.begins}')`;
    said['added'] = { create, ...(file.begins === 1 ? { execute: ['anon'] } : {}), comment: 'All together' };
    said['steps'] = {
      create: `create type steps as range (subtype = integer, multirange_type_name = all_steps${file.begins})`,
    };
  }
  for (const table of file.tables) {
    const has = (id: number | undefined): boolean => table.columns.some((column) => column.id === id);
    const measured = (table.measured ?? []).filter(has);
    if (measured.length > 1) {
      const columns = measured.map((id) => `{${id}}`).join(', ');
      said[`statistics of ${table.id}`] = {
        create: text(`create statistics m_${table.id} on ${columns} from {p${table.id}}`),
      };
    }
    if (has(table.ruled)) {
      const when = `old.{${table.ruled}} is null and old.{${table.ruled}} is not null`;
      said[`rule of ${table.id}`] = {
        create: text(`create rule "Kept" as on delete to {p${table.id}} where ${when} do instead nothing`),
      };
    }
  }
  return said;
}

function mentions(text: Template | null | undefined, mark: string): boolean {
  return text?.includes(mark) ?? false;
}

export function dropMentions(file: RandomFile, mark: string): void {
  for (const table of file.tables) {
    if (table.rls !== 'absent')
      table.rls = table.rls.filter(
        (rule) => ![rule.using, rule.with_check, rule.check].some((text) => mentions(text, mark)),
      );
    for (const column of table.columns) if (mentions(column.check, mark)) delete column.check;
    table.indexes = table.indexes.filter((index) => !mentions(index.where, mark));
  }
  for (const bucket of file.buckets)
    bucket.rls = bucket.rls.filter(
      (rule) => ![rule.using, rule.with_check, rule.check].some((text) => mentions(text, mark)),
    );
  file.functions = file.functions.filter((fn) => !mentions(fn.body, mark) && !mentions(fn.returns, mark));
}

export function removeColumn(file: RandomFile, table: RandomTable, column: RandomColumn): void {
  table.columns = table.columns.filter((candidate) => candidate !== column);
  table.indexes = table.indexes.filter((index) => !index.columns.includes(column.id));
  dropMentions(file, `{${column.id}}`);
}

export function removeTable(file: RandomFile, table: RandomTable): void {
  file.tables = file.tables.filter((candidate) => candidate !== table);
  dropMentions(file, `{t${table.id}}`);
  dropMentions(file, `{p${table.id}}`);
  for (const item of file.tables) {
    for (const column of item.columns.filter((column) => column.reference?.table === table.id))
      removeColumn(file, item, column);
  }
}

/** Returns `back` with the renames from `from` declared. */
export function wayBack(back: RandomFile, from: RandomFile): RandomFile {
  const file: RandomFile = structuredClone(back);
  for (const sequence of file.sequences) {
    const there = from.sequences.find((candidate) => candidate.id === sequence.id);
    delete sequence.renamedFrom;
    if (there && there.name !== sequence.name) sequence.renamedFrom = there.name;
  }
  for (const table of file.tables) {
    const there = from.tables.find((candidate) => candidate.id === table.id);
    delete table.renamedFrom;
    if (there && there.name !== table.name) table.renamedFrom = there.name;
    for (const column of table.columns) {
      const was = there?.columns.find((candidate) => candidate.id === column.id);
      delete column.renamedFrom;
      if (was && was.name !== column.name) column.renamedFrom = was.name;
      if (was && was.type !== column.type && /^(text|varchar|character)/.test(was.type))
        column.using = `{${column.id}}::${column.type}`;
    }
  }
  return file;
}

export function storedName({ id }: Pick<RandomTable, 'id'>): string {
  return `stored_${id}`;
}

export const SPREAD = 'spread';

function spreadTable({ parts, rest, more, indexed, checked }: RandomSpread): Record<string, unknown> {
  return {
    rls: [],
    fields: [
      { name: 'id', type: 'integer', primary_key: true },
      { name: 'part', type: 'integer', primary_key: true },
      ...Array.from({ length: more }, (_, n) => ({ name: `more_${n}`, type: 'integer', default: n })),
    ],
    partition_by: { list: ['part'] },
    partitions: [
      ...parts.map((part) => ({ name: `${SPREAD}_${part}`, values: `in (${part})` })),
      ...(rest
        ? [
            {
              name: `${SPREAD}_rest`,
              values: 'default',
              partition_by: { hash: ['id'] },
              partitions: [0, 1].map((n) => ({
                name: `${SPREAD}_rest_${n}`,
                values: `with (modulus 2, remainder ${n})`,
              })),
            },
          ]
        : []),
    ],
    ...(indexed ? { indexes: [{ columns: ['id'] }, { columns: ['part', 'id'], unique: true }] } : {}),
    ...(checked ? { constraints: [{ check: 'id <> 666' }] } : {}),
  };
}

function ownType({ id }: RandomColumn): string {
  return `word_${id}`;
}

export function toYaml(file: RandomFile): string {
  const names = new Map<string, string>();
  const quote = (name: string): string => `"${name.replaceAll('"', '""')}"`;
  for (const table of file.tables) {
    names.set(
      `t${table.id}`,
      table.schema === 'public' ? quote(table.name) : `${table.schema}.${quote(table.name)}`,
    );
    names.set(`p${table.id}`, `${table.schema}.${quote(table.name)}`);
    for (const column of table.columns) names.set(String(column.id), quote(column.name));
  }
  for (const fn of file.functions) names.set(`f${fn.id}`, quote(fn.called ?? fn.name));
  const text = (template: Template): string =>
    template.replace(/\{([tpf]?\d+)\}/g, (_all, key: string) => names.get(key) ?? '"missing"');
  const policy = (rule: RandomPolicy): Record<string, unknown> => ({
    operations: rule.operations,
    ...(rule.type ? { type: rule.type } : {}),
    ...(rule.to ? { to: rule.to } : {}),
    ...(rule.using ? { using: text(rule.using) } : {}),
    ...(rule.with_check ? { with_check: text(rule.with_check) } : {}),
    ...(rule.check ? { check: text(rule.check) } : {}),
  });
  const columnName = (table: RandomTable, id: number): string =>
    table.columns.find((column) => column.id === id)?.name ?? '';
  const tables = file.tables.map((table) => [
    table.name,
    {
      ...(table.schema === 'public' ? {} : { schema: table.schema }),
      ...(table.renamedFrom ? { renamed_from: table.renamedFrom } : {}),
      fields: table.columns.map((column) => {
        const {
          id,
          type: base,
          primaryKey,
          renamedFrom,
          reference,
          check,
          using,
          draws,
          fixed,
          own,
          ...rest
        } = column;
        const type = own && base === 'text' ? ownType(column) : base;
        const drawn = file.sequences.find((sequence) => sequence.id === draws);
        const followsUpdates = type.startsWith('timestamp') && !primaryKey && id % 2 === 0;
        void fixed;
        const target = file.tables.find((table) => table.id === reference?.table);
        return {
          ...rest,
          ...(type === '' ? {} : { type }),
          ...(primaryKey ? { primary_key: true } : {}),
          ...(followsUpdates ? { on_update: 'now()' } : {}),
          ...(renamedFrom ? { renamed_from: renamedFrom } : {}),
          ...(check ? { check: text(check) } : {}),
          ...(drawn ? { default: { sql: `nextval('${quote(drawn.name).replaceAll("'", "''")}')` } } : {}),
          ...(using ? { using: text(using) } : {}),
          ...(target && reference
            ? {
                foreign_key: {
                  references: `${target.schema}.${target.name}.${columnName(target, reference.column)}`,
                  on_delete: reference.onDelete,
                },
              }
            : {}),
        };
      }),
      ...(table.indexes.length > 0
        ? {
            indexes: table.indexes.map((index) => ({
              ...indexColumns(index, (id) => columnName(table, id), text),
              ...(index.unique ? { unique: true } : {}),
              ...(index.where ? { where: text(index.where) } : {}),
            })),
          }
        : {}),
      ...(table.rls === 'absent' ? {} : { rls: table.rls.map(policy) }),
      ...(table.excluded === undefined || columnName(table, table.excluded) === ''
        ? {}
        : {
            constraints: [
              {
                exclude: [{ column: columnName(table, table.excluded), with: '=' }],
                using: 'btree',
                where: text(`{${table.excluded}} is not null`),
              },
            ],
          }),
      ...(table.told === undefined ? {} : { realtime: table.told === 'key' ? true : { old: 'full' } }),
    },
  ]);
  const views = file.tables.flatMap((table) => {
    if (table.stored === undefined) return [];
    const columns = table.stored.filter((id) => columnName(table, id) !== '');
    const shown = ['1 as one', ...columns.map((id) => `{${id}} as c${id}`)].join(', ');
    const indexes = columns.slice(0, 1).map((id) => ({ columns: [`c${id}`], where: 'one > 0' }));
    const query = text(`select ${shown} from {p${table.id}}`);
    return [[storedName(table), { query, materialized: true, indexes }] as const];
  });
  const owned = file.tables.flatMap(({ columns }) =>
    columns.filter((column) => column.own && column.type === 'text'),
  );
  return stringify({
    types: Object.fromEntries(
      owned.map((column) => [ownType(column), { domain: 'text', check: 'length(value) < 1000' }]),
    ),
    tables: {
      ...Object.fromEntries(tables),
      ...(file.spread ? { [SPREAD]: spreadTable(file.spread) } : {}),
    },
    ...(views.length === 0 ? {} : { views: Object.fromEntries(views) }),
    ...(file.sequences.length === 0
      ? {}
      : {
          sequences: Object.fromEntries(
            file.sequences.map(({ name, renamedFrom, increment, usage }) => [
              name,
              {
                increment,
                min: -1000,
                // Values of the sequence satisfy the checks of any column.
                start: 1,
                max: 1_000_000,
                ...(usage ? { usage } : {}),
                ...(renamedFrom ? { renamed_from: renamedFrom } : {}),
              },
            ]),
          ),
        }),
    statements: listStatements(file, text),
    rpc: Object.fromEntries(
      file.functions.map(({ id, name, called, returns, body, ...fn }) => [
        name,
        {
          ...fn,
          ...(called ? { name: called } : {}),
          returns: { type: text(returns) },
          body: text(body),
          description: String(id),
        },
      ]),
    ),
    ...(file.channels.length === 0 ? {} : { realtime: { rls: file.channels.map(policy) } }),
    storage: Object.fromEntries(file.buckets.map((bucket) => [bucket.name, { rls: bucket.rls.map(policy) }])),
  });
}
