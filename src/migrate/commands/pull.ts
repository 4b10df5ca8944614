// Generates a svc.yaml from an existing database. Objects that the file cannot express are listed in comments and stay
// unmanaged in the database. Reads only.
import { isTransient } from '../schema/label.ts';
import { Document, isMap, visit, type YAMLMap } from 'yaml';
import type { Live, LiveCheck, LiveColumn, LivePolicy, LiveTable } from '../schema/live/live-schema.ts';
import { absentCondition, boundRoles } from '../diff/policy-match.ts';
import { POLICY_ROLES, PUBLIC } from '../schema/rights/roles.ts';
import { pulledFunctions } from './pulled-functions.ts';
import { pulledGrants } from '../schema/rights/grants.ts';
import { toIndex } from './pulled-index.ts';
import { extensionsKey } from './pulled-objects/extensions.ts';
import { columnKeys, referenceKeys, typeNamer } from './pulled-columns.ts';
import { pulledDefault } from './pulled-default.ts';
import { compact } from './pulled-objects/layout.ts';
import { triggersKey } from './declared-triggers.ts';
import {
  canBelongToField,
  needsTableConstraint,
  pulledCheck,
  pulledExclusions,
  pulledForeignKey,
  pulledUniques,
  fieldReference,
} from './pulled-constraints.ts';
import { removeRefused } from './adoption/remove-refused.ts';
import { isOfPostgres } from '../../config/check/tables/type-family.ts';
import { findOmissions, findOutsideOmissions, publicFirst } from './adoption/omissions.ts';
import { omitDependants, type Remaining } from './adoption/omit-dependants.ts';
import type { Use } from './adoption/read-uses.ts';
import { partitioningKeys } from './pulled-partitions.ts';
import { realtimeKey } from './pulled-publication.ts';
import { newUserKey, onUpdateKey } from './pulled-triggers.ts';
import { pulledSequences } from './pulled-objects/sequences.ts';
import { pulledStatements } from './pulled-objects/statements.ts';
import { pulledTypes } from './pulled-objects/types.ts';
import { toView } from './pulled-views.ts';
import { pulledAttributes } from '../schema/sql/table-attributes.ts';
import { withoutSvcReferences, withoutDuplicates } from './adoption/remove-duplicates.ts';
import { plainOrQuoted } from '../../postgres/sql.ts';
import { unwrapCallerHelpers } from '../../lib/sql/sql-text.ts';

type Node = Record<string, unknown>;

/** Sections other than the schema, and objects that are not in the file. */
export type OtherSections = {
  readonly storage?: Node;
  readonly realtime?: Node;
  readonly omitted?: readonly string[];
  /** Functions that the API does not serve, regardless of their grants. */
  readonly hidden?: ReadonlySet<string>;
};

export type PulledFile = {
  readonly document: Document;
  /** Objects that the file cannot express, one line each. */
  readonly omitted: readonly string[];
  /** Paths of functions that the file changes on purpose, such as `rpc.area`. */
  readonly repaired: readonly string[];
};

/** Returns the whole file as text. */
export function renderPulled(
  live: Live,
  isSelected: (key: string) => boolean,
  sections: OtherSections = {},
): string {
  return pulledText(pulledFile(live, isSelected, sections).document);
}

export function pulledText(document: Document): string {
  return document.toString({ lineWidth: 0 });
}

/** Removes objects that a file cannot express, together with the objects that use them. */
export function withoutOmitted(
  found: Live,
  isSelected: (key: string) => boolean,
  uses: readonly Use[],
): Remaining {
  const live = publicFirst(found);
  const isExpressible = (type: string): boolean => !isOfPostgres(type);
  const omitted = [
    ...findOmissions(live, { isSelected, isExpressible }),
    ...findOutsideOmissions(live, uses),
  ];
  return omitDependants(live, omitted, uses);
}

/** Generates the file. `isSelected` selects tables and views by `schema.name`. */
export function pulledFile(
  found: Live,
  isSelected: (key: string) => boolean,
  { storage = {}, realtime = {}, omitted: already = [], hidden }: OtherSections = {},
): PulledFile {
  const live = publicFirst(found);
  const taken = [...live.tables].filter(([key]) => isSelected(key)).map(([, table]) => table);
  const names = new Set<string>();
  const tables: [string, Node, string[]][] = [];
  const omitted: string[] = [...already];
  const { functions, names: declared, alike, repaired, omitted: ofFunctions } = pulledFunctions(live, hidden);
  omitted.push(...ofFunctions);
  const isDeclared = (fn: string): boolean => declared.has(fn);
  for (const table of taken) {
    // The file names tables without their schema, so only the first of two tables with the same name can be declared.
    if (names.has(table.name)) {
      omitted.push(`table ${table.schema}.${table.name}: another schema has a table of this name`);
      continue;
    }
    names.add(table.name);
    const notes: string[] = [];
    tables.push([table.name, toTable(table, live, isDeclared, notes), notes]);
  }
  const types = pulledTypes(live.types, strip);
  omitted.push(...types.omitted);
  const views: [string, Node, string[]][] = [];
  for (const [key, view] of live.views) {
    if (!isSelected(key) || isTransient(view.name)) continue;
    if (names.has(view.name)) {
      omitted.push(`view ${key}: another schema has a table or view of this name`);
      continue;
    }
    names.add(view.name);
    const notes: string[] = [];
    views.push([view.name, toView(view, isDeclared, strip, notes), notes]);
  }
  const sequences = pulledSequences(live.sequences, names);
  omitted.push(...sequences.omitted);
  const statements = pulledStatements(live.statements, isSelected);
  omitted.push(...statements.omitted);
  const ofUsers = triggersKey(live.userTriggers, 'users', isDeclared, strip, omitted);
  const document = new Document({
    version: 1,
    ...(Object.keys(ofUsers).length > 0 ? { auth: ofUsers } : {}),
    ...(Object.keys(types.types).length > 0 ? { types: types.types } : {}),
    ...(Object.keys(sequences.sequences).length > 0 ? { sequences: sequences.sequences } : {}),
    ...extensionsKey(live.extensions),
    ...(Object.keys(storage).length > 0 ? { storage } : {}),
    ...(Object.keys(realtime).length > 0 ? { realtime } : {}),
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
        ' Not served: the API cannot distinguish it from another function with the same argument names.';
  }
  compact(document);
  keepReferences(document);
  omitted.push(...removeRefused(document));
  if (omitted.length > 0)
    document.comment = ` Not in this file, and left alone:\n${omitted.map((line) => `   ${line}`).join('\n')}`;
  const ofParts = [...tables, ...views].flatMap(([name, , notes]) =>
    notes.map((note) => `${note}, of ${name}`),
  );
  return { document, omitted: [...omitted, ...ofParts], repaired: repaired.map((key) => `rpc.${key}`) };
}

function comment(node: YAMLMap, notes: readonly string[]): void {
  const lines = notes.map((note) => `   ${note.replaceAll('\n', ' ')}`);
  node.comment = ` Left alone, because this file cannot express it:\n${lines.join('\n')}`;
}

/** Escapes `${NAME}` in texts of the database, because the file would replace it with a variable. */
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

function toTable(found: LiveTable, live: Live, isDeclared: (fn: string) => boolean, notes: string[]): Node {
  const table = withoutDuplicates(withoutSvcReferences(found, notes), notes);
  const checks = new Map<string, Node>();
  for (const check of table.checks.filter((check) => !needsTableConstraint(table, check)))
    placeCheck(table, check, checks, notes);
  const fields = orderedColumns(table).map((column) =>
    toField(table, column, live, checks.get(column.name) ?? {}),
  );
  const indexes = table.indexes.flatMap((index): Node[] => {
    const entry = toIndex(index, strip, table.name);
    if (entry === null) notes.push(`index ${index.label}`);
    return entry === null ? [] : [entry];
  });
  const constraints = [
    ...pulledUniques(table),
    ...table.foreignKeys
      .filter((foreignKey) => foreignKey !== fieldReference(table, foreignKey.columns))
      .map((foreignKey) => pulledForeignKey(table, foreignKey)),
    ...pulledExclusions(table, strip, notes),
    ...table.checks
      .filter((check) => needsTableConstraint(table, check))
      .map((check) => pulledCheck(check, strip)),
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
    ...pulledAttributes(table),
    ...partitioningKeys(table, notes),
  };
}

function grantsKey(table: LiveTable): Node {
  const grants = pulledGrants(table);
  return grants === undefined ? {} : { grants };
}

// The order of the fields determines the order of the columns in a composite key.
function orderedColumns(table: LiveTable): LiveColumn[] {
  const columns = [...table.columns.values()].filter((column) => !isTransient(column.name));
  const key = table.keys.find((key) => key.kind === 'primary')?.columns ?? [];
  const inKey = columns.filter((column) => key.includes(column.name));
  const sorted = key.flatMap((name) => inKey.filter((column) => column.name === name));
  return columns.map((column) => (key.includes(column.name) ? (sorted.shift() ?? column) : column));
}

const SERIAL: Record<string, string> = { bigint: 'bigserial', integer: 'serial', smallint: 'smallserial' };

/** Returns the names of enum types as PostgreSQL prints them. */
function enumNames({ types }: Live): ReadonlySet<string> {
  return new Set(
    [...types.values()].flatMap(({ kind, schema, name }) =>
      kind === 'enum' ? [`${plainOrQuoted(schema)}.${plainOrQuoted(name)}`] : [],
    ),
  );
}

function toField(table: LiveTable, column: LiveColumn, live: Live, checks: Node): Node {
  const primary = table.keys.find((key) => key.kind === 'primary')?.columns.includes(column.name) ?? false;
  const unique = table.keys.some((key) => key.columns[0] === column.name && canBelongToField(table, key));
  const reference = fieldReference(table, [column.name]);
  const isSerial = column.serial && column.identity === null;
  const type = isSerial ? (SERIAL[column.type] ?? column.type) : typeNamer(live)(column.type);
  const target = reference && live.tables.get(`${reference.targetSchema}.${reference.targetTable}`);
  const targetSchema =
    reference?.targetSchema === 'public' && target !== undefined ? '' : `${reference?.targetSchema}.`;
  const enums = enumNames(live);
  return {
    name: column.name,
    type,
    ...(primary ? { primary_key: true } : {}),
    ...(column.notNull && !primary && !column.serial ? { required: true } : {}),
    ...(unique ? { unique: true } : {}),
    ...(column.default === null || column.generated ? {} : { default: pulledDefault(column, enums) }),
    ...columnKeys(column, strip),
    ...onUpdateKey(table.triggers, column.name),
    ...checks,
    ...(reference
      ? {
          foreign_key: {
            references: `${targetSchema}${reference.targetTable}.${reference.targetColumns[0] ?? ''}`,
            ...referenceKeys(reference),
          },
        }
      : {}),
  };
}

function placeCheck(table: LiveTable, check: LiveCheck, placed: Map<string, Node>, notes: string[]): void {
  const [column = ''] = check.columns;
  const known = check.columns.length === 1 ? recognise(check.expression, table.columns.get(column)) : null;
  const at = placed.get(column) ?? {};
  if (known !== null && !('enum' in at)) {
    placed.set(column, { ...at, ...known });
    return;
  }
  // Any field without a check can contain it, because the expression may use the whole row.
  const home = [...check.columns, ...table.columns.keys()].find(
    (name) => !('check' in (placed.get(name) ?? {})),
  );
  if (home === undefined) notes.push(`check ${check.label}`);
  else placed.set(home, { ...placed.get(home), check: strip(check.expression) });
}

const TEXT_ENUM = /^\((?:\w+|"(?:[^"]|"")+") = ANY \(ARRAY\[((?:'(?:[^'\\]|'')*'::text(?:, )?)+)\]\)\)$/;
const VARYING_ENUM =
  /^\(\((?:\w+|"(?:[^"]|"")+")\)::text = ANY \(\(ARRAY\[((?:'(?:[^'\\]|'')*'::character varying(?:, )?)+)\]\)::text\[\]\)\)$/;

/** Recognises an `enum` of a text column, which PostgreSQL prints as `col = ANY (ARRAY['a'::text, …])`. */
function recognise(expression: string, column: LiveColumn | undefined): Node | null {
  const isVarying = /^character varying(\(\d+\))?$/.test(column?.type ?? '');
  if (column?.type !== 'text' && !isVarying) return null;
  const list = (isVarying ? VARYING_ENUM : TEXT_ENUM).exec(expression)?.[1];
  if (list === undefined) return null;
  const values = [...list.matchAll(/'((?:[^']|'')*)'::(?:text|character varying)/g)].map((match) =>
    (match[1] ?? '').replaceAll("''", "'"),
  );
  // PostgreSQL prints an enum of one value as a comparison, so a list of one value was not declared as an enum.
  return values.length > 1 && !list.includes('${') ? { enum: values } : null;
}

/** Returns true for a label that svc generated. Such a label needs no `name`. */
const isGenerated = (label: string): boolean => /_p\d+_(?:select|insert|update|delete|all)$/.test(label);

/** Returns the policy as an entry of `rls`. A policy without effect in svc is added to `notes` instead. */
export function pulledPolicy(
  policy: LivePolicy,
  table: Pick<LiveTable, 'grantedToOthers'>,
  notes: string[],
): Node[] {
  const roles = boundRoles(policy);
  if (roles === 'service_role') {
    notes.push(`policy ${policy.label}: it is for service_role, which bypasses policies`);
    return [];
  }
  // If no other role has grants on the table, PUBLIC means the API callers.
  const isForCallers = roles === POLICY_ROLES || (roles === PUBLIC && !table.grantedToOthers);
  const { command, permissive, label } = policy;
  const absent = absentCondition(permissive);
  const using = policy.using ?? (command === 'insert' ? null : absent);
  const check = policy.check ?? (command === 'insert' ? absent : null);
  return [
    {
      ...(isGenerated(label) ? {} : { name: label }),
      ...(isForCallers ? {} : { to: roles.split(',') }),
      operations: command === 'all' ? ['select', 'insert', 'update', 'delete'] : [command],
      ...(permissive ? {} : { type: 'restrictive' }),
      ...(using === null ? {} : { using: strip(unwrapCallerHelpers(using)) }),
      ...(check === null ? {} : { with_check: strip(unwrapCallerHelpers(check)) }),
    },
  ];
}

/** Removes the outermost pair of parentheses, if it encloses the whole text. */
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
  const inside = text.slice(1, -1);
  // A query is an expression only inside parentheses.
  return /^\s*(?:select|with|values|table)\b/i.test(inside) ? text : inside;
}
