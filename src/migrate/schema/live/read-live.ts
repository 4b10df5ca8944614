// Reads the live schema in a fixed number of queries. Printed texts depend on session settings, which are pinned first:
// sessions with other time zones or search paths must print the same.
import { groupBy } from '../../../lib/group-by.ts';
import { raw, sql, type Sql } from '../../../postgres/sql.ts';
import { isDatabaseError } from '../../../postgres/pg-error.ts';
import type { Queryable } from '../../../postgres/owner-database.ts';
import type {
  Live,
  LiveColumn,
  LiveExtension,
  LiveForeignKey,
  LiveFunction,
  LiveTable,
} from './live-schema.ts';
import { API_ROLES } from '../rights/roles.ts';
import type { LiveSequence } from '../sequences.ts';
import {
  columnNamesQuery,
  columnsQuery,
  constraintsQuery,
  EXTENSIONS,
  freeSequencesQuery,
  functionsQuery,
  indexesQuery,
  namespacesQuery,
  partitionsQuery,
  policiesQuery,
  PUBLICATIONS,
  relationsQuery,
  sequencesQuery,
  triggersQuery,
  typesQuery,
  USER_TRIGGERS,
  type ColumnNameRow,
  type ColumnRow,
  type ConstraintRow,
  type IndexRow,
  type NamespaceRow,
  type PartitionRow,
  type PolicyRow,
  type PublicationRow,
  type RelationRow,
  type SequenceRow,
  type TriggerRow,
  type TypeRow,
} from './live-queries.ts';
import { perHost } from '../rights/hosts.ts';
import { NEW_USER_PREFIX } from '../label.ts';
import { readStatements } from './live-statements.ts';
import { readViews } from './live-views.ts';
import { atomicBody } from '../sql/atomic-body.ts';
import { keyOf } from '../model.ts';
import type { LivePartition, LivePartitioning } from '../partitions.ts';
import { PUBLICATION, SUPABASE_PUBLICATION } from '../publication.ts';

const PINS: ReadonlyArray<readonly [string, string]> = [
  ['search_path', 'pg_catalog'],
  ['timezone', 'UTC'],
  ['datestyle', 'ISO, YMD'],
  ['intervalstyle', 'postgres'],
  ['bytea_output', 'hex'],
  ['extra_float_digits', '1'],
  ['quote_all_identifiers', 'off'],
  ['standard_conforming_strings', 'on'],
  ['jit', 'off'],
];

/** Makes prints comparable for the rest of the transaction. */
export async function pinPrinting(session: Queryable): Promise<void> {
  const settings = PINS.map(([name, value]) => `set_config('${name}', '${value}', true)`);
  await session.query(raw(`select ${settings.join(', ')}`));
}

/** One snapshot; `part`: only these tables and views, by `schema.name`. The functions that print expressions read the newest catalog regardless, hence the retry. */
export async function readLive(
  session: Queryable,
  schemas: readonly string[],
  part: ReadonlySet<string> | null = null,
): Promise<Live> {
  for (let attempt = 1; ; attempt += 1) {
    await session.query(raw('begin isolation level repeatable read read only'));
    try {
      return await readLiveInside(session, schemas, part);
    } catch (error) {
      // "cache lookup failed"
      if (attempt >= 3 || !isDatabaseError(error, 'internal_error')) throw error;
    } finally {
      await session.query(raw('rollback'));
    }
  }
}

/** The same inside a transaction that is already open; leaves the print settings pinned. */
export async function readLiveInside(
  session: Queryable,
  schemas: readonly string[],
  part: ReadonlySet<string> | null = null,
): Promise<Live> {
  await pinPrinting(session);
  const [server] = await session.query<{ version: number }>(
    raw(`select current_setting('server_version_num')::int as version`),
  );
  const which = part === null ? sql`n.nspname = any (${[...schemas]})` : await whichOf(session, part);
  const relations = await session.query<RelationRow>(relationsQuery(which));
  const columns = await session.query<ColumnRow>(columnsQuery(which));
  const sequences = await session.query<SequenceRow>(sequencesQuery(which));
  const partitions = await session.query<PartitionRow>(partitionsQuery(which));
  const constraints = await session.query<ConstraintRow>(constraintsQuery(which));
  const indexes = await session.query<IndexRow>(indexesQuery(which));
  const policies = await session.query<PolicyRow>(policiesQuery(which));
  const triggers = await session.query<TriggerRow>(triggersQuery(which));
  const publications = await session.query<PublicationRow>(PUBLICATIONS);
  const ofUsers = await session.query<TriggerRow>(USER_TRIGGERS);
  const isNewUser = ({ label }: TriggerRow): boolean => label.startsWith(NEW_USER_PREFIX);
  const triggersOf = groupBy(triggers, (row) => row.relation);
  const views = await readViews(session, which, triggersOf);
  const functions = await session.query<LiveFunction>(functionsQuery(schemas));
  const types = await session.query<TypeRow>(typesQuery(schemas));
  const extensions = await session.query<LiveExtension>(EXTENSIONS);
  const free = await session.query<LiveSequence>(freeSequencesQuery(schemas));
  const statements = await readStatements(session, schemas);
  const namespaces = await session.query<NamespaceRow>(namespacesQuery(schemas));

  const columnsOf = groupBy(columns, (row) => row.relation);
  const rows: TableRows = {
    columns: columnsOf,
    sequences: new Map(sequences.map((row) => [`${row.relation} ${row.number}`, row])),
    constraints: groupBy(constraints, (row) => row.relation),
    indexes: groupBy(indexes, (row) => row.relation),
    policies: groupBy(policies, (row) => row.relation),
    triggers: triggersOf,
    partitions: groupBy(partitions, (row) => row.relation),
    publications: groupBy(publications, (row) => row.relation ?? ''),
    namesOf: await readNames(session, columnsOf, constraints),
  };
  return {
    types: new Map(types.map((row) => [keyOf(row), row])),
    tables: new Map(relations.map((row) => [keyOf(row), toTable(row, rows)])),
    functions: groupBy(
      functions.map((fn) => ({ ...fn, body: fn.atomic ? atomicBody(fn.body) : fn.body.trimEnd() })),
      keyOf,
    ),
    views: new Map(views.map((view) => [keyOf(view), view])),
    schemas: new Map(
      namespaces.map((row) => [row.name, { name: row.name, usageGranted: row.granted === API_ROLES.length }]),
    ),
    hosted: perHost((host) => policies.filter((row) => row.host === host)),
    newUsers: ofUsers.filter(isNewUser),
    userTriggers: ofUsers.filter((trigger) => !isNewUser(trigger)),
    publication: publications.find((row) => row.publication === PUBLICATION) ?? null,
    extensions,
    sequences: new Map(free.map((row) => [keyOf(row), row])),
    statements: new Map(statements.map((row) => [row.identity, row])),
    serverVersion: server?.version ?? 0,
  };
}

async function whichOf(session: Queryable, part: ReadonlySet<string>): Promise<Sql> {
  const rows = await session.query<{ oid: string }>(sql`
    select c.oid::text as oid from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname || '.' || c.relname = any (${[...part]})`);
  return sql`c.oid = any (${rows.map((row) => row.oid)}::oid[])`;
}

type TableRows = {
  readonly columns: ReadonlyMap<string, readonly ColumnRow[]>;
  /** By relation and column number. */
  readonly sequences: ReadonlyMap<string, SequenceRow>;
  readonly constraints: ReadonlyMap<string, readonly ConstraintRow[]>;
  readonly indexes: ReadonlyMap<string, readonly IndexRow[]>;
  readonly policies: ReadonlyMap<string, readonly PolicyRow[]>;
  readonly triggers: ReadonlyMap<string, readonly TriggerRow[]>;
  readonly partitions: ReadonlyMap<string, readonly PartitionRow[]>;
  readonly publications: ReadonlyMap<string, readonly PublicationRow[]>;
  /** Column names by relation and number, those of tables that foreign keys refer to included. */
  readonly namesOf: ReadonlyMap<string, ReadonlyMap<number, string>>;
};

async function readNames(
  session: Queryable,
  columns: ReadonlyMap<string, readonly ColumnRow[]>,
  constraints: readonly ConstraintRow[],
): Promise<Map<string, Map<number, string>>> {
  const targets = constraints.filter((row) => row.type === 'f').map((row) => row.target);
  const outside = [...new Set(targets)].filter((relation) => !columns.has(relation));
  const more = outside.length === 0 ? [] : await session.query<ColumnNameRow>(columnNamesQuery(outside));
  return new Map(
    [...columns, ...groupBy(more, (row) => row.relation)].map(([relation, rows]) => [
      relation,
      new Map(rows.map((row) => [row.number, row.name])),
    ]),
  );
}

const CALLER_VERBS = 'DELETE,INSERT,SELECT,UPDATE';

function toTable({ grants, grantedTo, everything, ...row }: RelationRow, rows: TableRows): LiveTable {
  const names = (numbers: readonly number[] | null, relation: string = row.oid): string[] =>
    (numbers ?? []).map((number) => rows.namesOf.get(relation)?.get(number) ?? '');
  const api = `anon:${CALLER_VERBS} authenticated:${CALLER_VERBS} service_role:${everything}`;
  const columnRows = rows.columns.get(row.oid) ?? [];
  const columns = columnRows.map((column) =>
    toColumn(column, rows.sequences.get(`${row.oid} ${column.number}`)),
  );
  const constraints = rows.constraints.get(row.oid) ?? [];
  const publications = rows.publications.get(row.oid) ?? [];
  const ofRealtime = publications.find(({ publication }) => publication === PUBLICATION);
  const ofType = (...types: string[]): ConstraintRow[] =>
    constraints.filter(({ type }) => types.includes(type));
  return {
    ...row,
    published: ofRealtime === undefined ? 'no' : ofRealtime.whole ? 'whole' : 'part',
    publishedThere: publications.find(({ publication }) => publication === SUPABASE_PUBLICATION) ?? null,
    grants: grantedTo,
    granted: grants === api ? 'api' : grants === '' ? 'none' : 'other',
    grantedToOthers: row.grantedToOthers || columnRows.some((column) => column.grantedToOthers),
    columns: new Map(columns.map((column) => [column.name, column])),
    keys: ofType('p', 'u').map((key) => ({
      label: key.label,
      kind: key.type === 'p' ? 'primary' : 'unique',
      columns: names(key.columns),
      deferrable: deferrableOf(key),
      nullsNotDistinct: key.nullsNotDistinct,
    })),
    foreignKeys: ofType('f').map((key) =>
      toForeignKey(
        key,
        names(key.columns),
        names(key.targetColumns, key.target),
        key.onDeleteColumns && names(key.onDeleteColumns),
      ),
    ),
    checks: ofType('c').map(({ label, columns: numbers, expression, validated, enforced }) => ({
      label,
      columns: names(numbers),
      expression: expression ?? '',
      validated,
      enforced,
    })),
    exclusions: ofType('x').map((one) => ({
      label: one.label,
      definition: one.exclusion?.definition ?? '',
      columns: names((one.columns ?? []).filter((number) => number > 0)),
      keys: one.exclusion?.keys ?? [],
      operators: one.exclusion?.operators ?? [],
      where: one.exclusion?.where ?? null,
      deferrable: deferrableOf(one),
    })),
    // Expressions have no number.
    indexes: (rows.indexes.get(row.oid) ?? []).map((index) => ({
      ...index,
      columns: names(index.columns.filter((number) => number > 0)),
    })),
    partitioning: toPartitioning(rows.partitions.get(row.oid) ?? []),
    policies: rows.policies.get(row.oid) ?? [],
    triggers: rows.triggers.get(row.oid) ?? [],
  };
}

/** The first row is the table itself. */
function toPartitioning([table, ...partitions]: readonly PartitionRow[]): LivePartitioning | null {
  if (!table) return null;
  const keyOf = ({ strategy, key, keys }: PartitionRow): LivePartition['by'] =>
    strategy === null ? null : { strategy, key: key ?? '', keys };
  const by = keyOf(table);
  if (by === null) return null;
  return {
    ...by,
    partitions: partitions.map((one) => {
      const { oid, schema, name, parent, bound } = one;
      return { oid, schema, name, parent, bound, by: keyOf(one) };
    }),
  };
}

// Six grants: USAGE and SELECT for each of the three roles.
const SEQUENCE_GRANTS = 6;

function toColumn(row: ColumnRow, sequence: SequenceRow | undefined): LiveColumn {
  const serial =
    row.identity !== null || (sequence?.auto === true && (row.default ?? '').startsWith('nextval('));
  return {
    name: row.name,
    number: row.number,
    type: row.type,
    category: row.category,
    notNull: row.notNull,
    identity: row.identity,
    generated: row.generated,
    collation: row.collation,
    comment: row.comment,
    default: serial ? null : row.default,
    serial,
    sequence: sequence?.name ?? null,
    grants: row.grants,
    sequenceGranted: row.identity !== null || sequence?.granted === SEQUENCE_GRANTS,
  };
}

const ACTIONS: Record<string, LiveForeignKey['onDelete']> = {
  c: 'cascade',
  a: 'no_action',
  r: 'restrict',
  n: 'set_null',
  d: 'set_default',
};

function deferrableOf({ deferrable, deferred }: ConstraintRow): LiveForeignKey['deferrable'] {
  if (!deferrable) return null;
  return deferred ? 'deferred' : 'immediate';
}

function toForeignKey(
  row: ConstraintRow,
  columns: string[],
  targetColumns: string[],
  onDeleteColumns: string[] | null,
): LiveForeignKey {
  return {
    label: row.label,
    columns,
    targetSchema: row.targetSchema ?? '',
    targetTable: row.targetTable ?? '',
    targetColumns,
    onDelete: ACTIONS[row.onDelete] ?? 'no_action',
    onUpdate: ACTIONS[row.onUpdate] ?? 'no_action',
    onDeleteColumns,
    deferrable: deferrableOf(row),
    matchFull: row.match === 'f',
    validated: row.validated,
    enforced: row.enforced,
  };
}
