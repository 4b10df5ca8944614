// Generates random chains of files that resemble the history of a project: objects are removed and restored, keys move,
// columns change their type while their key moves, policies of buckets read tables, and checks call changing functions.
import {
  CHECKING_FUNCTION,
  dropMentions,
  edited,
  KEY_TYPES,
  namesTakenBy,
  randomFile,
  removeColumn,
  removeTable,
  wayBack,
  type Random,
  type RandomColumn,
  type RandomFile,
  type RandomTable,
} from './random-file.ts';

export function firstLink(random: Random): Link {
  const file = randomFile(random);
  for (const table of file.tables) addRowNumber(file, table);
  return { file, edit: 'first' };
}

/** Draws the next file after these files, of which the last is served. Refused files are not in the list. */
export function nextLink(files: readonly RandomFile[], random: Random): Link {
  const link = drawLink(files, random);
  for (const table of link.file.tables) addRowNumber(link.file, table);
  removeDanglingReferences(link.file);
  // Ids are never reused, even after a rollback.
  link.file.nextId = Math.max(link.file.nextId, ...files.map((file) => file.nextId));
  return link;
}

export type Link = { readonly file: RandomFile; readonly edit: string };

/** Column that identifies the rows of a table through all changes of its keys. */
export const ROW_NUMBER = 'row_no';

function addRowNumber(file: RandomFile, table: RandomTable): void {
  if (table.columns.some((column) => column.fixed)) return;
  table.columns.push({ id: file.nextId++, name: ROW_NUMBER, type: 'integer', required: true, fixed: true });
}

function drawLink(files: readonly RandomFile[], random: Random): Link {
  const from = files.at(-1);
  if (!from) throw new Error('a chain begins with a file');
  const ordinary = (): RandomFile => edited(from, random, namesTakenBy(files));
  const dice = random.next();
  if (dice < 0.12) {
    const back = random.pick(files);
    const file = wayBack(back, from);
    declareReturns(file, files);
    return { file, edit: `back to file ${files.indexOf(back) + 1}` };
  }
  const file = dice < 0.35 ? edited(from, random, namesTakenBy(files)) : withoutOnce(from);
  // After the last table is removed, restore a table or create a new one.
  const special = file.tables.length === 0 ? restoresTable : random.pick(SPECIAL_EDITS);
  const done = special(file, files, random);
  return done === null ? { file: ordinary(), edit: 'edits' } : { file, edit: done };
}

/**
 * Declares the last name of restored objects that were renamed before their removal, and the conversion from their
 * last type.
 */
function declareReturns(file: RandomFile, files: readonly RandomFile[]): void {
  const from = files.at(-1);
  for (const table of file.tables) {
    const past = files.flatMap((file) => file.tables.filter((candidate) => candidate.id === table.id));
    const lastName = past.at(-1)?.name;
    if (lastName !== undefined && lastName !== table.name) table.renamedFrom = lastName;
    const live = from?.tables.find((candidate) => candidate.id === table.id);
    for (const column of table.columns) {
      if (live?.columns.some((candidate) => candidate.id === column.id)) continue;
      const last = past
        .flatMap((item) => item.columns.filter((candidate) => candidate.id === column.id))
        .at(-1);
      if (!last) continue;
      if (last.name !== column.name) column.renamedFrom = last.name;
      if (last.type !== column.type && /^(text|varchar|character)/.test(last.type) && column.type !== '')
        column.using = `{${column.id}}::${column.type}`;
    }
  }
}

/** Removes keys that apply to one file only, such as a former name or a backfill. */
function withoutOnce(from: RandomFile): RandomFile {
  const file = structuredClone(from);
  for (const sequence of file.sequences) delete sequence.renamedFrom;
  for (const table of file.tables) {
    delete table.renamedFrom;
    for (const column of table.columns) {
      delete column.renamedFrom;
      delete column.backfill;
      delete column.using;
    }
  }
  return file;
}

/** Number of rows in the partitioned table. Each has a different value. */
export const SPREAD_ROWS = 5;

/** Changes the file and returns a description, or returns null if the edit is not possible. */
type SpecialEdit = (file: RandomFile, files: readonly RandomFile[], random: Random) => string | null;

const removesTable: SpecialEdit = (file, _files, random) => {
  if (file.tables.length < 2) return null;
  const table = random.pick(file.tables);
  removeTable(file, table);
  return `${table.name} is removed`;
};

const restoresTable: SpecialEdit = (file, files, random) => {
  const gone = files.flatMap((past) =>
    past.tables.filter(
      (table) => !file.tables.some((candidate) => candidate.id === table.id || candidate.name === table.name),
    ),
  );
  if (gone.length === 0) return null;
  const table = structuredClone(random.pick(gone));
  // With its last name, because older names are unknown.
  const last = files.flatMap((past) => past.tables.filter((candidate) => candidate.id === table.id)).at(-1);
  if (!last || file.tables.some((table) => table.name === last.name)) return null;
  table.name = last.name;
  delete table.renamedFrom;
  for (const column of table.columns) {
    delete column.renamedFrom;
    delete column.backfill;
    delete column.using;
    // The same conversion as above.
    column.name = last.columns.find((candidate) => candidate.id === column.id)?.name ?? column.name;
    if (last.columns.some((candidate) => candidate.id !== column.id && candidate.name === column.name))
      return null;
    const was = files
      .flatMap((past) => past.tables.filter((candidate) => candidate.id === table.id))
      .flatMap((table) => table.columns.filter((candidate) => candidate.id === column.id))
      .at(-1);
    if (was) column.name = was.name;
    if (was && was.type !== column.type && /^(text|varchar|character)/.test(was.type) && column.type !== '')
      column.using = `{${column.id}}::${column.type}`;
  }
  if (new Set(table.columns.map((column) => column.name)).size !== table.columns.length) return null;
  const dice = random.next();
  if (dice < 0.35) table.rls = [];
  else if (dice < 0.6) table.rls = 'absent';
  if (random.chance(0.3)) table.indexes = [];
  if (random.chance(0.3))
    for (const column of table.columns) {
      delete column.unique;
      delete column.check;
    }
  let edit = `${table.name} comes back`;
  if (random.chance(0.25)) {
    const free = ['returned', 'Came "back"'].find(
      (name) => !files.some((past) => past.tables.some((table) => table.name === name)),
    );
    if (free) {
      edit = `${table.name} comes back as ${free}`;
      table.renamedFrom = table.name;
      table.name = free;
    }
  }
  file.tables.push(table);
  return `${edit} (rls: ${table.rls === 'absent' ? 'absent' : `${table.rls.length} policies`})`;
};

const restoresColumn: SpecialEdit = (file, files, random) => {
  const gone = file.tables.flatMap((table) => {
    const past = files.flatMap((file) => file.tables.filter((candidate) => candidate.id === table.id));
    return past
      .flatMap((item) => item.columns)
      .filter(
        (column) =>
          !table.columns.some((candidate) => candidate.id === column.id || candidate.name === column.name),
      )
      .map((column) => ({
        table,
        column,
        last: past
          .flatMap((item) => item.columns)
          .filter((candidate) => candidate.id === column.id)
          .at(-1),
      }));
  });
  if (gone.length === 0) return null;
  const { table, column, last } = random.pick(gone);
  if (!last || table.columns.some((column) => column.name === last.name)) return null;
  // Bounds and defaults must match its last type.
  const back = structuredClone(last.type === column.type ? column : last);
  back.name = last.name;
  delete back.renamedFrom;
  delete back.backfill;
  delete back.using;
  delete back.primaryKey;
  if (random.chance(0.4)) {
    delete back.check;
    delete back.unique;
    delete back.enum;
  }
  if (random.chance(0.3)) delete back.reference;
  if (back.type === '' && !back.reference) return null;
  table.columns.push(back);
  return `${table.name}.${back.name} comes back`;
};

const removesColumn: SpecialEdit = (file, _files, random) => {
  const table = random.pick(file.tables);
  const free = table.columns.filter((column) => !column.primaryKey && !column.fixed);
  if (free.length === 0) return null;
  const column = random.pick(free);
  removeColumn(file, table, column);
  return `${table.name}.${column.name} is removed`;
};

const KEYS = new Set(['integer', 'bigint', 'text', 'uuid', 'varchar(40)']);

const movesKey: SpecialEdit = (file, _files, random) => {
  const table = random.pick(file.tables);
  const keys = table.columns.filter((column) => column.primaryKey);
  const [key] = keys;
  const candidates = table.columns.filter(
    (column) => !column.primaryKey && !column.reference && column.required && KEYS.has(column.type),
  );
  if (!key || keys.length !== 1 || candidates.length === 0) return null;
  const next = random.pick(candidates);
  const isReferred = file.tables.some((table) =>
    table.columns.some((column) => column.reference?.column === key.id),
  );
  delete key.primaryKey;
  key.type = { serial: 'integer', bigserial: 'bigint' }[key.type] ?? key.type;
  if (isReferred && random.chance(0.6)) {
    key.unique = true;
  } else if (isReferred) {
    for (const table of file.tables)
      for (const column of table.columns.filter((column) => column.reference?.column === key.id))
        removeColumn(file, table, column);
  }
  let edit = `the key of ${table.name} moves to ${next.name}`;
  if (!isReferred && random.chance(0.5) && ['integer', 'bigint'].includes(key.type)) {
    key.type = random.pick([KEY_TYPES[key.type] ?? 'bigint', 'text']);
    edit += ` while ${key.name} becomes ${key.type}`;
  }
  for (const attribute of [
    'default',
    'enum',
    'pattern',
    'min',
    'max',
    'check',
    'unique',
    'required',
  ] as const)
    delete next[attribute];
  next.primaryKey = true;
  if (next.type === 'uuid') next.default = 'uuid_v4()';
  return edit;
};

const refersToNewKey: SpecialEdit = (file, _files, random) => {
  // A column becomes unique and gets a reference in the same file.
  const table = random.pick(file.tables);
  const candidates = table.columns.filter(
    (column) => !column.primaryKey && !column.reference && KEYS.has(column.type) && !column.fixed,
  );
  const referring = random.pick(file.tables);
  if (candidates.length === 0 || referring.columns.some((column) => column.name === 'refers_to')) return null;
  const target = random.pick(candidates);
  target.unique = true;
  referring.columns.push({
    id: file.nextId++,
    name: 'refers_to',
    type: '',
    reference: { table: table.id, column: target.id, onDelete: 'restrict' },
  });
  return `${referring.name}.refers_to refers to ${table.name}.${target.name}, which becomes unique`;
};

const bucketReadsTable: SpecialEdit = (file, _files, random) => {
  const table = random.pick(file.tables);
  const column = random.pick(table.columns);
  const mark = random.pick(['p', 't']);
  const policy = {
    operations: random.pick([['select'], ['insert', 'update'], ['select', 'insert', 'update', 'delete']]),
    using: random.pick([
      `exists (select 1 from {${mark}${table.id}} o where o.{${column.id}} is not null)`,
      `exists (select 1 from {${mark}${table.id}} o where o.{${column.id}}::text = name) ` +
        'or owner_id = auth.uid()::text',
    ]),
  };
  const bucket = file.buckets[0] ?? { name: 'avatars', rls: [] };
  if (file.buckets.length === 0) file.buckets.push(bucket);
  bucket.rls = random.chance(0.5) ? [policy] : [...bucket.rls, policy].slice(-3);
  return `a policy of the bucket reads ${table.name}.${column.name}`;
};

const TEXTS = new Set(['text', 'varchar(40)', 'varchar(80)']);
const ARGUMENT_TYPES = ['text', 'varchar', 'character varying(80)'];

const checkCallsFunction: SpecialEdit = (file, _files, random) => {
  const known = file.functions.find((fn) => fn.name === CHECKING_FUNCTION);
  if (known && random.chance(0.6)) {
    if (random.chance(0.3)) {
      file.functions = file.functions.filter((fn) => fn !== known);
      dropMentions(file, `{f${known.id}}`);
      return 'the function that checks call is removed';
    }
    const type = random.pick(ARGUMENT_TYPES);
    known.args = [{ name: 'word', type, required: true }];
    return `the function that checks call takes ${type}`;
  }
  const table = random.pick(file.tables);
  const texts = table.columns.filter(
    (column) => TEXTS.has(column.type) && !column.primaryKey && !column.reference,
  );
  if (texts.length === 0) return null;
  const fn = known ?? {
    id: file.nextId++,
    name: CHECKING_FUNCTION,
    language: 'sql',
    volatility: 'immutable',
    security: 'invoker',
    args: [{ name: 'word', type: 'text', required: true }],
    returns: 'boolean',
    body: 'select word is null or length(word) < 100',
  };
  if (!known) file.functions.push(fn);
  const column = random.pick(texts);
  column.check = `{f${fn.id}}({${column.id}})`;
  return `a check of ${table.name}.${column.name} calls a function`;
};

/** Changes a text column to a new domain of the same file, or removes the domain with its last column. */
const retypesToNewType: SpecialEdit = (file, _files, random) => {
  const table = random.pick(file.tables);
  const texts = table.columns.filter(
    (column) => TEXTS.has(column.type) && !column.primaryKey && !column.reference,
  );
  if (texts.length === 0) return null;
  const column = random.pick(texts);
  if (column.own) {
    delete column.own;
    return `${table.name}.${column.name} is text again`;
  }
  column.type = 'text';
  column.own = true;
  return `${table.name}.${column.name} gets a separate domain`;
};

/** Overloads with distinct argument types. */
const OVERLOADS: ReadonlyArray<{ readonly argument: string; readonly types: readonly string[] }> = [
  { argument: 'n', types: ['integer', 'bigint'] },
  { argument: 'word', types: ['text', 'varchar(7)'] },
  { argument: 'id', types: ['uuid', 'date'] },
];

const changesOverloads: SpecialEdit = (file, _files, random) => {
  const overload = random.pick(OVERLOADS);
  const name = `same by ${overload.argument}`;
  const known = file.functions.find((fn) => fn.name === name);
  if (known && random.chance(0.4)) {
    file.functions = file.functions.filter((fn) => fn !== known);
    return `${name} is removed`;
  }
  const table = random.pick(file.tables);
  const fn = known ?? {
    id: file.nextId++,
    name,
    called: 'same',
    language: 'sql',
    volatility: 'stable',
    security: 'invoker',
    args: [],
    returns: 'bigint',
    body: '',
  };
  if (!known) file.functions.push(fn);
  fn.args = [{ name: overload.argument, type: random.pick(overload.types), required: true }];
  const isAtomic = random.chance(0.6);
  fn.body = `${isAtomic ? 'return (' : ''}select count(*) from {p${table.id}}${isAtomic ? ')' : ''}`;
  if (isAtomic) fn.atomic = true;
  else delete fn.atomic;
  return `${name} takes ${fn.args[0]?.type ?? ''}`;
};

const policiesReadEachOther: SpecialEdit = (file, _files, random) => {
  if (file.tables.length < 2) return null;
  const [first, second] = random.shuffle(file.tables);
  if (!first || !second) return null;
  const column = random.pick(second.columns);
  first.rls = [
    {
      operations: ['select', 'insert', 'update', 'delete'],
      using: `auth.uid() is not null or exists (select 1 from {p${second.id}} o where o.{${column.id}} is not null)`,
      with_check: 'auth.uid() is not null',
    },
  ];
  if (second.rls === 'absent' || random.chance(0.5))
    second.rls = [{ operations: ['select'], using: 'auth.uid() is null' }];
  return `the policy of ${first.name} reads ${second.name}`;
};

const storesRows: SpecialEdit = (file, _files, random) => {
  const table = random.pick(file.tables);
  if (table.stored !== undefined && random.chance(0.3)) {
    delete table.stored;
    return `the materialized view of ${table.name} is removed`;
  }
  // Only types with a btree operator class, because the unique index needs one.
  const columns = table.columns.filter(({ type }) => KEYS.has(type)).map(({ id }) => id);
  table.stored = random.shuffle(columns).slice(0, 3);
  return `a materialized view stores rows of ${table.name}`;
};

const keepsApart: SpecialEdit = (file, _files, random) => {
  const table = random.pick(file.tables);
  if (table.excluded !== undefined && random.chance(0.3)) {
    delete table.excluded;
    return `the exclusion constraint of ${table.name} is removed`;
  }
  const columns = table.columns.filter(({ type, fixed }) => fixed || KEYS.has(type));
  if (columns.length === 0) return null;
  const column = random.pick(columns);
  table.excluded = column.id;
  return `an exclusion constraint keeps values of ${table.name}.${column.name} apart`;
};

/** Adds, removes and restores partitions of the partitioned table. */
const spreadsRows: SpecialEdit = (file, _files, random) => {
  const { spread } = file;
  if (spread === undefined) {
    file.spread = {
      parts: [0, 1, 2].filter(() => random.chance(0.7)),
      rest: random.chance(0.4),
      more: random.below(3),
      indexed: random.chance(0.5),
      checked: random.chance(0.3),
    };
    return 'a partitioned table';
  }
  if (random.chance(0.1)) {
    delete file.spread;
    return 'the partitioned table goes';
  }
  const part = random.below(SPREAD_ROWS);
  if (random.chance(0.6))
    spread.parts = spread.parts.includes(part)
      ? spread.parts.filter((candidate) => candidate !== part)
      : random.shuffle([...spread.parts, part]);
  if (random.chance(0.2)) spread.rest = !spread.rest;
  if (random.chance(0.2)) spread.more = random.below(3);
  if (random.chance(0.2)) spread.indexed = !spread.indexed;
  if (random.chance(0.2)) spread.checked = !spread.checked;
  return `other partitions: ${spread.parts.join(', ')}${spread.rest ? ' and the rest' : ''}`;
};

const SPECIAL_EDITS: readonly SpecialEdit[] = [
  keepsApart,
  keepsApart,
  keepsApart,
  storesRows,
  storesRows,
  storesRows,
  removesTable,
  restoresTable,
  restoresTable,
  restoresTable,
  removesColumn,
  restoresColumn,
  restoresColumn,
  movesKey,
  movesKey,
  refersToNewKey,
  bucketReadsTable,
  bucketReadsTable,
  checkCallsFunction,
  checkCallsFunction,
  retypesToNewType,
  retypesToNewType,
  retypesToNewType,
  changesOverloads,
  changesOverloads,
  policiesReadEachOther,
  spreadsRows,
  spreadsRows,
  spreadsRows,
  spreadsRows,
];

/** Removes references to unknown objects: restored objects may refer to removed objects. */
function removeDanglingReferences(file: RandomFile): void {
  const isKnown = (table: RandomTable | undefined, column: number): boolean =>
    table?.columns.some((candidate) => candidate.id === column) === true;
  for (const table of file.tables) {
    table.columns = table.columns.filter((column) => {
      if (!column.reference) return true;
      const target = file.tables.find((table) => table.id === column.reference?.table);
      return isKnown(target, column.reference.column) && canBeReferred(target, column.reference.column);
    });
    table.indexes = table.indexes.filter((index) => index.columns.every((id) => isKnown(table, id)));
  }
  const known = new Set([
    ...file.tables.flatMap((table) => [
      `{t${table.id}}`,
      `{p${table.id}}`,
      ...table.columns.map((column) => `{${column.id}}`),
    ]),
    ...file.functions.map((fn) => `{f${fn.id}}`),
  ]);
  for (const mark of JSON.stringify(file).match(/\{[tpf]?\d+\}/g) ?? [])
    if (!known.has(mark)) dropMentions(file, mark);
}

function canBeReferred(table: RandomTable | undefined, id: number): boolean {
  const column = table?.columns.find((column) => column.id === id);
  const keys = table?.columns.filter((column) => column.primaryKey) ?? [];
  return column?.unique === true || (keys.length === 1 && keys[0] === column);
}

/** Returns the SQL type of a column. A reference without a type has the type of its key. */
export function sqlType(file: RandomFile, column: RandomColumn): string {
  if (column.type === '') {
    const target = file.tables.find((table) => table.id === column.reference?.table);
    const key = target?.columns.find((candidate) => candidate.id === column.reference?.column);
    return key ? sqlType(file, key) : 'text';
  }
  return { serial: 'integer', bigserial: 'bigint' }[column.type] ?? column.type;
}
