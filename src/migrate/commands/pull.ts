// An existing database as a svc.yaml. What the file cannot express is listed in comments and stays in the database,
// unmanaged. Reads only.
import { isTransient } from '../schema/label.ts';
import { Document, isMap, visit, type YAMLMap } from 'yaml';
import type { Live, LiveCheck, LiveColumn, LivePolicy, LiveTable } from '../schema/live/live-schema.ts';
import { rolesOf } from '../diff/policy-match.ts';
import { POLICY_ROLES, PUBLIC } from '../schema/rights/roles.ts';
import { pulledFunctions } from './pulled-functions.ts';
import { pulledGrants } from '../schema/rights/grants.ts';
import { toIndex } from './pulled-index.ts';
import { extensionsKey } from './pulled-objects/extensions.ts';
import { columnKeys, referenceKeys } from './pulled-columns.ts';
import { triggersKey } from './declared-triggers.ts';
import {
  isOfTable,
  pulledCheck,
  pulledExclusions,
  pulledForeignKey,
  pulledUniques,
  referenceOf,
} from './pulled-constraints.ts';
import { isPlainKey } from '../schema/relation.ts';
import { partitioningKeys } from './pulled-partitions.ts';
import { realtimeKey } from './pulled-publication.ts';
import { newUserKey, onUpdateKey } from './pulled-triggers.ts';
import { pulledSequences } from './pulled-objects/sequences.ts';
import { pulledStatements } from './pulled-objects/statements.ts';
import { pulledTypes } from './pulled-objects/types.ts';
import { toView } from './pulled-views.ts';
import { unwrapCallerHelpers } from '../../lib/sql/sql-text.ts';

type Node = Record<string, unknown>;

/** What the file has beside the schema, and what is said to be left alone. */
export type Beside = { readonly storage: Node; readonly realtime: Node; readonly left: readonly string[] };

export type PulledFile = {
  readonly document: Document;
  /** What the file cannot say, a line each. */
  readonly left: readonly string[];
};

const NOTHING_BESIDE: Beside = { storage: {}, realtime: {}, left: [] };

/** The whole file as one text. */
export function renderPulled(
  live: Live,
  isTaken: (key: string) => boolean,
  beside: Beside = NOTHING_BESIDE,
): string {
  return pulledText(pulledFile(live, isTaken, beside).document);
}

export function pulledText(document: Document): string {
  return document.toString({ lineWidth: 0 });
}

/** `isTaken`: which tables and views, by `schema.name`. */
export function pulledFile(
  live: Live,
  isTaken: (key: string) => boolean,
  beside: Beside = NOTHING_BESIDE,
): PulledFile {
  const taken = [...live.tables].filter(([key]) => isTaken(key)).map(([, table]) => table);
  const names = new Set<string>();
  const tables: [string, Node, string[]][] = [];
  const left: string[] = [...beside.left];
  const { functions, names: declared, alike, left: ofFunctions } = pulledFunctions(live.functions);
  left.push(...ofFunctions);
  const isDeclared = (fn: string): boolean => declared.has(fn);
  for (const table of taken) {
    // The file names tables without their schema, so of two with one name only the first can be declared.
    if (names.has(table.name)) {
      left.push(`table ${table.schema}.${table.name}: another schema has a table of this name`);
      continue;
    }
    names.add(table.name);
    const notes: string[] = [];
    tables.push([table.name, toTable(table, live, isDeclared, notes), notes]);
  }
  const types = pulledTypes(live.types, strip);
  left.push(...types.left);
  const views: [string, Node, string[]][] = [];
  for (const [key, view] of live.views) {
    if (!isTaken(key) || isTransient(view.name)) continue;
    if (names.has(view.name)) {
      left.push(`view ${key}: another schema has a table or view of this name`);
      continue;
    }
    names.add(view.name);
    const notes: string[] = [];
    views.push([view.name, toView(view, isDeclared, strip, notes), notes]);
  }
  const sequences = pulledSequences(live.sequences, names);
  left.push(...sequences.left);
  const statements = pulledStatements(live.statements, isTaken);
  left.push(...statements.left);
  const ofUsers = triggersKey(live.userTriggers, 'users', isDeclared, strip, left);
  const document = new Document({
    version: 1,
    ...(Object.keys(ofUsers).length > 0 ? { auth: ofUsers } : {}),
    ...(Object.keys(types.types).length > 0 ? { types: types.types } : {}),
    ...(Object.keys(sequences.sequences).length > 0 ? { sequences: sequences.sequences } : {}),
    ...extensionsKey(live.extensions),
    ...(Object.keys(beside.storage).length > 0 ? { storage: beside.storage } : {}),
    ...(Object.keys(beside.realtime).length > 0 ? { realtime: beside.realtime } : {}),
    tables: Object.fromEntries(tables.map(([name, node]) => [name, node])),
    ...(views.length > 0 ? { views: Object.fromEntries(views.map(([name, node]) => [name, node])) } : {}),
    ...(Object.keys(statements.statements).length > 0 ? { statements: statements.statements } : {}),
    ...(functions.length > 0 ? { rpc: Object.fromEntries(functions) } : {}),
  });
  for (const [block, entries] of [
    ['tables', tables],
    ['views', views],
  ] as const)
    for (const [name, , notes] of entries) {
      const node = document.getIn([block, name], true);
      if (isMap(node) && notes.length > 0) comment(node, notes);
    }
  for (const key of alike) {
    const node = document.getIn(['rpc', key], true);
    if (isMap(node))
      node.comment =
        ' Not served: the API could not tell it from another one, whose arguments have the same names.';
  }
  compact(document);
  keepReferences(document);
  if (left.length > 0)
    document.comment = ` Not in this file, and left alone:\n${left.map((one) => `   ${one}`).join('\n')}`;
  const ofParts = [...tables, ...views].flatMap(([name, , notes]) =>
    notes.map((note) => `${note}, of ${name}`),
  );
  return { document, left: [...left, ...ofParts] };
}

function comment(node: YAMLMap, notes: readonly string[]): void {
  node.comment = ` Left alone, because the file cannot say it:\n${notes.map((note) => `   ${note.replaceAll('\n', ' ')}`).join('\n')}`;
}

// One line per field reads like the table it describes.
function compact(document: Document): void {
  for (const key of ['types', 'sequences']) {
    const named = document.get(key);
    for (const pair of isMap(named) ? named.items : []) if (isMap(pair.value)) pair.value.flow = true;
  }
  const tables = document.get('tables');
  if (!isMap(tables)) return;
  for (const pair of tables.items) {
    if (!isMap(pair.value)) continue;
    const by: unknown = pair.value.get('partition_by');
    if (isMap(by)) by.flow = true;
    for (const key of ['fields', 'indexes', 'constraints', 'triggers', 'partitions']) {
      const list = pair.value.get(key);
      if (typeof list !== 'object' || list === null || !('items' in list) || !Array.isArray(list.items))
        continue;
      for (const item of list.items) if (isMap(item)) item.flow = true;
    }
  }
}

/** `${NAME}` in a text of the database is no reference to a variable of the file. */
function keepReferences(document: Document): void {
  visit(document, {
    Scalar(_key, scalar) {
      if (typeof scalar.value === 'string')
        scalar.value = scalar.value.replaceAll(
          /(?<!\$)((?:\$\$)*)\$(?=\{[A-Za-z_]\w*(?::-[^{}]*)?\})/g,
          '$1$$$$',
        );
    },
  });
}

function toTable(table: LiveTable, live: Live, isDeclared: (fn: string) => boolean, notes: string[]): Node {
  const checks = new Map<string, Node>();
  for (const check of table.checks.filter((one) => !isOfTable(one))) placeCheck(table, check, checks, notes);
  const fields = orderedColumns(table).map((column) =>
    toField(table, column, live, checks.get(column.name) ?? {}),
  );
  const indexes = [
    ...table.keys
      .filter((key) => key.kind === 'unique' && key.columns.length > 1 && isPlainKey(key))
      .map((key): Node => ({ columns: key.columns, unique: true })),
    ...table.indexes.flatMap((index): Node[] => {
      const said = toIndex(index, strip);
      if (said === null) notes.push(`index ${index.label}`);
      return said === null ? [] : [said];
    }),
  ];
  const constraints = [
    ...pulledUniques(table),
    ...table.foreignKeys.filter((one) => one !== referenceOf(table, one.columns)).map(pulledForeignKey),
    ...pulledExclusions(table, strip, notes),
    ...table.checks.filter(isOfTable).map((check) => pulledCheck(check, strip)),
  ];
  const rls = table.policies.flatMap((policy) => pulledPolicy(policy, table, notes));
  return {
    ...(table.schema === 'public' ? {} : { schema: table.schema }),
    fields,
    ...(table.comment === null ? {} : { comment: table.comment }),
    ...newUserKey(live.newUsers, `${table.schema}.${table.name}`),
    ...(indexes.length > 0 ? { indexes } : {}),
    ...(constraints.length > 0 ? { constraints } : {}),
    ...(table.rowSecurity ? { rls } : {}),
    ...triggersKey(table.triggers, table.name, isDeclared, strip, notes),
    ...grantsKey(table),
    ...realtimeKey(table, notes),
    ...(table.unlogged ? { unlogged: true } : {}),
    ...(Object.keys(table.with).length > 0 ? { with: table.with } : {}),
    ...partitioningKeys(table, notes),
  };
}

function grantsKey(table: LiveTable): Node {
  const grants = pulledGrants(table);
  return grants === undefined ? {} : { grants };
}

// The order of the fields is the order of a composite key.
function orderedColumns(table: LiveTable): LiveColumn[] {
  const columns = [...table.columns.values()].filter((column) => !isTransient(column.name));
  const key = table.keys.find((one) => one.kind === 'primary')?.columns ?? [];
  const inKey = columns.filter((column) => key.includes(column.name));
  const sorted = key.flatMap((name) => inKey.filter((column) => column.name === name));
  return columns.map((column) => (key.includes(column.name) ? (sorted.shift() ?? column) : column));
}

const SERIAL: Record<string, string> = { bigint: 'bigserial', integer: 'serial', smallint: 'smallserial' };

function toField(table: LiveTable, column: LiveColumn, live: Live, checks: Node): Node {
  const primary = table.keys.find((key) => key.kind === 'primary')?.columns.includes(column.name) ?? false;
  const unique = table.keys.some(
    (key) =>
      key.kind === 'unique' && isPlainKey(key) && key.columns.length === 1 && key.columns[0] === column.name,
  );
  const reference = referenceOf(table, [column.name]);
  const isSerial = column.serial && column.identity === null;
  const type = isSerial ? (SERIAL[column.type] ?? column.type) : column.type;
  const target = reference && live.tables.get(`${reference.targetSchema}.${reference.targetTable}`);
  return {
    name: column.name,
    type,
    ...(primary ? { primary_key: true } : {}),
    ...(column.notNull && !primary && !column.serial ? { required: true } : {}),
    ...(unique ? { unique: true } : {}),
    ...(column.default === null || column.generated ? {} : { default: toDefault(column) }),
    ...columnKeys(column, strip),
    ...onUpdateKey(table.triggers, column.name),
    ...checks,
    ...(reference
      ? {
          foreign_key: {
            references: `${reference.targetSchema === 'public' && target !== undefined ? '' : `${reference.targetSchema}.`}${reference.targetTable}.${reference.targetColumns[0] ?? ''}`,
            ...referenceKeys(reference),
          },
        }
      : {}),
  };
}

const PLAIN_DEFAULTS = new Set(['now()', 'gen_random_uuid()']);

function toDefault(column: LiveColumn): unknown {
  const text = column.default ?? '';
  if (
    PLAIN_DEFAULTS.has(text) &&
    (text === 'now()' ? /^(timestamp|date)/.test(column.type) : column.type === 'uuid')
  )
    return text;
  if (text === 'CURRENT_DATE') return 'current_date';
  if (text === 'true' || text === 'false') return text === 'true';
  // A literal of another type of numbers is printed with its cast, which the one of the database has not.
  if (/^-?\d{1,9}$/.test(text) && column.type === 'integer') return Number(text);
  const quoted = /^'((?:[^'\\]|'')*)'::[\w "]+(?:\(\d+\))?$/.exec(text)?.[1]?.replaceAll("''", "'");
  // Only for text does a quoted literal mean the same with and without its cast.
  if (quoted !== undefined && column.type === 'text' && text.endsWith('::text') && !quoted.includes('${'))
    return quoted;
  return { sql: unwrapCallerHelpers(text) };
}

function placeCheck(table: LiveTable, check: LiveCheck, placed: Map<string, Node>, notes: string[]): void {
  const [column = ''] = check.columns;
  const known = check.columns.length === 1 ? recognise(check.expression, table.columns.get(column)) : null;
  const at = placed.get(column) ?? {};
  if (known && !('enum' in at)) {
    placed.set(column, { ...at, ...known });
    return;
  }
  // Any field without a check can carry it: the expression may use the whole row.
  const home = [...check.columns, ...table.columns.keys()].find(
    (name) => !('check' in (placed.get(name) ?? {})),
  );
  if (home === undefined) notes.push(`check ${check.label}`);
  else placed.set(home, { ...placed.get(home), check: strip(check.expression) });
}

/** `col = ANY (ARRAY['a'::text, …])` is how the server prints an enum on a text column. */
function recognise(expression: string, column: LiveColumn | undefined): Node | null {
  if (column?.type !== 'text') return null;
  const list = /^\((?:\w+|"(?:[^"]|"")+") = ANY \(ARRAY\[((?:'(?:[^'\\]|'')*'::text(?:, )?)+)\]\)\)$/.exec(
    expression,
  )?.[1];
  if (list === undefined) return null;
  const values = [...list.matchAll(/'((?:[^']|'')*)'::text/g)].map((match) =>
    (match[1] ?? '').replaceAll("''", "'"),
  );
  // An enum of one value prints as a comparison, so a list of one was not declared as an enum.
  return values.length > 1 && !list.includes('${') ? { enum: values } : null;
}

/** None for a policy that means nothing here, which is named in `notes`. */
export function pulledPolicy(
  policy: LivePolicy,
  table: Pick<LiveTable, 'grantedToOthers'>,
  notes: string[],
): Node[] {
  const roles = rolesOf(policy);
  if (roles === 'service_role') {
    notes.push(`policy ${policy.label}: it is for service_role, which passes every policy`);
    return [];
  }
  // Where nobody else may touch the table, PUBLIC is the callers.
  const isForCallers = roles === POLICY_ROLES || (roles === PUBLIC && !table.grantedToOthers);
  return [
    {
      ...(isForCallers ? {} : { to: roles.split(',') }),
      operations: policy.command === 'all' ? ['select', 'insert', 'update', 'delete'] : [policy.command],
      ...(policy.permissive ? {} : { type: 'restrictive' }),
      ...(policy.using === null ? {} : { using: strip(unwrapCallerHelpers(policy.using)) }),
      ...(policy.check === null ? {} : { with_check: strip(unwrapCallerHelpers(policy.check)) }),
    },
  ];
}

/** Without the outermost pair of parentheses, when it really is one pair. */
function strip(text: string): string {
  if (!text.startsWith('(') || !text.endsWith(')')) return text;
  let depth = 0;
  let quoted: string | null = null;
  for (let index = 0; index < text.length; index += 1) {
    const character = text[index] ?? '';
    if (quoted !== null) {
      if (character === quoted) quoted = null;
    } else if (character === "'" || character === '"') quoted = character;
    else if (character === '(') depth += 1;
    else if (character === ')') depth -= 1;
    if (depth === 0 && index < text.length - 1) return text;
  }
  return text.slice(1, -1);
}
