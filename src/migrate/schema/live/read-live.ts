// Reads the live schema in a bounded number of queries. Printed expressions depend on session settings, so these are
// pinned first.
import { groupBy } from '../../../lib/group-by.ts';
import { raw, sql, type Sql } from '../../../postgres/sql.ts';
import { isDatabaseError } from '../../../postgres/pg-error.ts';
import type { Queryable, Row } from '../../../postgres/owner-database.ts';
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
} from './live-queries.ts';
import type {
  ColumnNameRow,
  ColumnRow,
  ConstraintRow,
  IndexRow,
  NamespaceRow,
  PartitionRow,
  PolicyRow,
  PublicationRow,
  RelationRow,
  SequenceRow,
  TriggerRow,
  TypeRow,
} from './live-rows.ts';
import { perHost } from '../rights/hosts.ts';
import { NEW_USER_PREFIX } from '../label.ts';
import { readStatements } from './live-statements.ts';
import { type PresentKind, readPresentKinds } from './present-kinds.ts';
import { STATEMENT_KINDS } from '../statements.ts';
import { readViews } from './live-views.ts';
import { atomicBody } from '../sql/atomic-body.ts';
import { objectKey } from '../model.ts';
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

/** Sets the settings that affect printed expressions, for the rest of the transaction. */
export async function pinPrinting(session: Queryable): Promise<void> {
  const settings = PINS.map(([name, value]) => `set_config('${name}', '${value}', true)`);
  await session.query(raw(`select ${settings.join(', ')}`));
}

/**
 * Reads the live schema in one snapshot. `part` limits it to these tables and views, as `schema.name`. Retries because
 * the functions that print expressions read the current catalog, not the snapshot.
 */
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
      // PostgreSQL reports "cache lookup failed" for an object that was dropped after the snapshot.
      if (attempt >= 3 || !isDatabaseError(error, 'internal_error')) throw error;
    } finally {
      await session.query(raw('rollback'));
    }
  }
}

/** Reads the live schema in the open transaction. The print settings stay pinned. */
export async function readLiveInside(
  session: Queryable,
  schemas: readonly string[],
  part: ReadonlySet<string> | null = null,
): Promise<Live> {
  await pinPrinting(session);
  const [server] = await session.query<{ version: number }>(
    raw(`select current_setting('server_version_num')::int as version`),
  );
  const filter = part === null ? sql`n.nspname = any (${[...schemas]})` : await relationFilter(session, part);
  const present = await readPresentKinds(session, schemas, filter);
  const readIf = async <R extends Row>(kind: PresentKind, query: Sql): Promise<R[]> =>
    present.has(kind) ? session.query<R>(query, `live ${kind}`) : [];
  const relations = await readIf<RelationRow>('table', relationsQuery(filter));
  const tables = sql`${relations.map(({ oid }) => oid)}::oid[]`;
  const readParts = async <R extends Row>(parts: string, query: Sql): Promise<R[]> =>
    relations.length > 0 ? session.query<R>(query, `live ${parts}`) : [];
  const columns = await readParts<ColumnRow>('columns', columnsQuery(tables));
  const sequences = await readIf<SequenceRow>('columnSequence', sequencesQuery(filter));
  const partitions = await readIf<PartitionRow>('partition', partitionsQuery(filter));
  const constraints = await readParts<ConstraintRow>('constraints', constraintsQuery(tables));
  const indexes = await readParts<IndexRow>('indexes', indexesQuery(tables));
  const policies = await readIf<PolicyRow>('policy', policiesQuery(filter));
  const triggers = await readIf<TriggerRow>('trigger', triggersQuery(filter));
  const publications = await session.query<PublicationRow>(PUBLICATIONS, 'live publications');
  const userRows = await readIf<TriggerRow>('userTrigger', USER_TRIGGERS);
  const isNewUser = ({ label }: TriggerRow): boolean => label.startsWith(NEW_USER_PREFIX);
  const triggersByRelation = groupBy(triggers, (row) => row.relation);
  const views = present.has('view') ? await readViews(session, filter, triggersByRelation) : [];
  const functions = await readIf<LiveFunction>('function', functionsQuery(schemas));
  const types = await readIf<TypeRow>('type', typesQuery(schemas));
  const extensions = await session.query<LiveExtension>(EXTENSIONS);
  const free = await readIf<LiveSequence>('sequence', freeSequencesQuery(schemas));
  const kinds = STATEMENT_KINDS.filter((kind) => present.has(kind));
  const statements = await readStatements(session, schemas, kinds);
  const namespaces = await session.query<NamespaceRow>(namespacesQuery(schemas), 'live schemas');

  const columnsByRelation = groupBy(columns, (row) => row.relation);
  const rows: TableRows = {
    columns: columnsByRelation,
    sequences: new Map(sequences.map((row) => [`${row.relation} ${row.number}`, row])),
    constraints: groupBy(constraints, (row) => row.relation),
    indexes: groupBy(indexes, (row) => row.relation),
    policies: groupBy(policies, (row) => row.relation),
    triggers: triggersByRelation,
    partitions: groupBy(partitions, (row) => row.relation),
    publications: groupBy(publications, (row) => row.relation ?? ''),
    columnNames: await readNames(session, columnsByRelation, constraints),
  };
  return {
    types: new Map(types.map((row) => [objectKey(row), row])),
    tables: new Map(relations.map((row) => [objectKey(row), toTable(row, rows)])),
    functions: groupBy(
      functions.map((fn) => ({ ...fn, body: fn.atomic ? atomicBody(fn.body) : fn.body.trimEnd() })),
      objectKey,
    ),
    views: new Map(views.map((view) => [objectKey(view), view])),
    schemas: new Map(
      namespaces.map((row) => [row.name, { name: row.name, usageGranted: row.granted === API_ROLES.length }]),
    ),
    hosted: perHost((host) => policies.filter((row) => row.host === host)),
    newUsers: userRows.filter(isNewUser),
    userTriggers: userRows.filter((trigger) => !isNewUser(trigger)),
    publication: publications.find((row) => row.publication === PUBLICATION) ?? null,
    extensions,
    sequences: new Map(free.map((row) => [objectKey(row), row])),
    statements: new Map(statements.map((row) => [row.identity, row])),
    serverVersion: server?.version ?? 0,
  };
}

async function relationFilter(session: Queryable, part: ReadonlySet<string>): Promise<Sql> {
  const rows = await session.query<{ oid: string }>(sql`
    select c.oid::text as oid from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname || '.' || c.relname = any (${[...part]})`);
  return sql`c.oid = any (${rows.map((row) => row.oid)}::oid[])`;
}

type TableRows = {
  readonly columns: ReadonlyMap<string, readonly ColumnRow[]>;
  /** Keyed by relation and column number, separated by a space. */
  readonly sequences: ReadonlyMap<string, SequenceRow>;
  readonly constraints: ReadonlyMap<string, readonly ConstraintRow[]>;
  readonly indexes: ReadonlyMap<string, readonly IndexRow[]>;
  readonly policies: ReadonlyMap<string, readonly PolicyRow[]>;
  readonly triggers: ReadonlyMap<string, readonly TriggerRow[]>;
  readonly partitions: ReadonlyMap<string, readonly PartitionRow[]>;
  readonly publications: ReadonlyMap<string, readonly PublicationRow[]>;
  /** Column names by relation and number, including tables that foreign keys refer to. */
  readonly columnNames: ReadonlyMap<string, ReadonlyMap<number, string>>;
};

async function readNames(
  session: Queryable,
  columns: ReadonlyMap<string, readonly ColumnRow[]>,
  constraints: readonly ConstraintRow[],
): Promise<Map<string, Map<number, string>>> {
  const targets = constraints.filter((row) => row.type === 'f').map((row) => row.target);
  const outside = [...new Set(targets)].filter((relation) => !columns.has(relation));
  const outsideNames =
    outside.length === 0 ? [] : await session.query<ColumnNameRow>(columnNamesQuery(outside));
  return new Map(
    [...columns, ...groupBy(outsideNames, (row) => row.relation)].map(([relation, rows]) => [
      relation,
      new Map(rows.map((row) => [row.number, row.name])),
    ]),
  );
}

const CALLER_VERBS = 'DELETE,INSERT,SELECT,UPDATE';

function toTable({ grants, grantedTo, everything, ...row }: RelationRow, rows: TableRows): LiveTable {
  const names = (numbers: readonly number[] | null, relation: string = row.oid): string[] =>
    (numbers ?? []).map((number) => rows.columnNames.get(relation)?.get(number) ?? '');
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
    supabasePublication: publications.find(({ publication }) => publication === SUPABASE_PUBLICATION) ?? null,
    grants: grantedTo,
    granted: grants === api ? 'api' : grants === '' ? 'none' : 'other',
    grantedToOthers: row.grantedToOthers || columnRows.some((column) => column.grantedToOthers),
    columns: new Map(columns.map((column) => [column.name, column])),
    keys: ofType('p', 'u').map((key) => ({
      label: key.label,
      kind: key.type === 'p' ? 'primary' : 'unique',
      columns: names(key.columns),
      deferrable: deferrability(key),
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
    exclusions: ofType('x').map((exclusion) => ({
      label: exclusion.label,
      definition: exclusion.exclusion?.definition ?? '',
      columns: names((exclusion.columns ?? []).filter((number) => number > 0)),
      keys: exclusion.exclusion?.keys ?? [],
      operators: exclusion.exclusion?.operators ?? [],
      where: exclusion.exclusion?.where ?? null,
      deferrable: deferrability(exclusion),
    })),
    // Expressions have the number 0.
    indexes: (rows.indexes.get(row.oid) ?? []).map((index) => ({
      ...index,
      columns: names(index.columns.filter((number) => number > 0)),
    })),
    partitioning: toPartitioning(rows.partitions.get(row.oid) ?? []),
    policies: rows.policies.get(row.oid) ?? [],
    triggers: rows.triggers.get(row.oid) ?? [],
  };
}

/** Converts the rows of one table. The first row is the table itself. */
function toPartitioning([table, ...partitions]: readonly PartitionRow[]): LivePartitioning | null {
  if (!table) return null;
  const partitionKey = ({ strategy, key, keys }: PartitionRow): LivePartition['by'] =>
    strategy === null ? null : { strategy, key: key ?? '', keys };
  const by = partitionKey(table);
  if (by === null) return null;
  return {
    ...by,
    partitions: partitions.map((partition) => {
      const { oid, schema, name, parent, bound } = partition;
      return { oid, schema, name, parent, bound, by: partitionKey(partition) };
    }),
  };
}

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
    // PostgreSQL asks for no privilege on the sequence of an identity column.
    sequenceUsers: row.identity === null ? (sequence?.users ?? []) : API_ROLES,
  };
}

const ACTIONS: Record<string, LiveForeignKey['onDelete']> = {
  c: 'cascade',
  a: 'no_action',
  r: 'restrict',
  n: 'set_null',
  d: 'set_default',
};

function deferrability({ deferrable, deferred }: ConstraintRow): LiveForeignKey['deferrable'] {
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
    deferrable: deferrability(row),
    matchFull: row.match === 'f',
    validated: row.validated,
    enforced: row.enforced,
  };
}
