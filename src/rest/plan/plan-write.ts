// Writes, checked against the catalog: which columns, which conflict target, which rows.
import type { Column } from '../../catalog/catalog.ts';
import { unreachable } from '../../lib/assert.ts';
import { badBody, badPutFilters, sameColumn, unknownColumn, whereRequired } from '../problem.ts';
import type { Payload } from '../request/body.ts';
import type { Preferences } from '../request/preferences.ts';
import type { Query, Slot } from '../request/query.ts';
import { currentColumn } from './alternative-names.ts';
import type { ExposedRelation } from './relation.ts';

type Conflict = { readonly columns: readonly string[]; readonly action: 'merge' | 'ignore' };

export type WrittenColumn = Column & {
  /** Name of the column in the request's rows. */
  readonly key: string;
  /** True if the rows contain the JSON as text. */
  readonly isJsonText: boolean;
};

export type WriteRows = {
  /** Columns that at least one row contains; null in rows without them. */
  readonly columns: readonly WrittenColumn[];
  /**
   * `missing=default`: columns that no row contains. PostgreSQL evaluates their defaults. This covers identity
   * columns, domains and the tables under a view, and needs no privilege on a sequence of an identity column.
   */
  readonly omitted: readonly WrittenColumn[];
  /** `missing=default`: the elements of `columns` that some rows omit. */
  readonly partial: readonly WrittenColumn[];
  readonly isArray: boolean;
};

export type InsertPlan = {
  readonly kind: 'insert';
  readonly rows: WriteRows;
  readonly conflict: Conflict | undefined;
  /** PUT: only the element with these primary key values. */
  readonly only: ReadonlyArray<{ readonly column: string; readonly slot: Slot }>;
};

export type WritePlan =
  | InsertPlan
  /** `rows` without columns changes nothing. */
  | { readonly kind: 'update'; readonly rows: WriteRows }
  | { readonly kind: 'delete' };

export type WriteKind = 'insert' | 'update' | 'put' | 'delete';

export function planWrite(
  kind: WriteKind,
  relation: ExposedRelation,
  query: Query,
  payload: Payload,
  preferences: Preferences,
): WritePlan {
  switch (kind) {
    case 'insert':
      return planInsert(relation, query, payload, preferences);
    case 'update':
      return planUpdate(relation, query, payload, preferences);
    case 'put':
      return planPut(relation, query, payload);
    case 'delete':
      requireFilter(query, 'DELETE');
      return { kind: 'delete' };
    default:
      return unreachable(kind);
  }
}

function planInsert(
  relation: ExposedRelation,
  query: Query,
  payload: Payload,
  preferences: Preferences,
): InsertPlan {
  if (!query.columns && !payload.uniform) {
    throw badBody(
      'All object keys must match',
      'Give every object the same keys, or name them all in the columns parameter.',
    );
  }
  const target = query.onConflict?.map((name) => currentColumn(relation, name)) ?? relation.primaryKey;
  const conflict: Conflict | undefined =
    preferences.resolution && target.length > 0
      ? {
          columns: target,
          action: preferences.resolution === 'merge-duplicates' ? 'merge' : 'ignore',
        }
      : undefined;
  return {
    kind: 'insert',
    rows: writtenRows(relation, query.columns ?? payload.keys, payload, preferences),
    conflict,
    only: [],
  };
}

function planUpdate(
  relation: ExposedRelation,
  query: Query,
  payload: Payload,
  preferences: Preferences,
): WritePlan {
  requireFilter(query, 'UPDATE');
  if (payload.isArray && payload.rows > 1 && payload.keys.length > 0) {
    throw badBody('A PATCH body may hold one object only', 'Send one object; its values apply to every row.');
  }
  const rows = writtenRows(relation, query.columns ?? payload.keys, payload, preferences);
  // An empty array means zero rows, not a row of defaults.
  return { kind: 'update', rows: payload.rows === 0 ? { ...rows, columns: [], omitted: [] } : rows };
}

function planPut(relation: ExposedRelation, query: Query, payload: Payload): InsertPlan {
  if (!payload.uniform) {
    throw badBody('All object keys must match', 'Send the one row that the URL names.');
  }
  const only = query.conditions.map(({ path, value }) => {
    const isKeyTest =
      path.length === 0 &&
      value.kind === 'filter' &&
      !value.negated &&
      value.path.steps.length === 0 &&
      value.operation.kind === 'compare' &&
      value.operation.operator === 'eq' &&
      value.operation.quantifier === undefined;
    if (!isKeyTest) throw badPutFilters();
    return { column: currentColumn(relation, value.path.column), slot: value.operation.slot };
  });
  const named = new Set(only.map(({ column }) => column));
  const { primaryKey } = relation;
  const isWholeKey =
    primaryKey.length > 0 &&
    only.length === primaryKey.length &&
    primaryKey.every((column) => named.has(column));
  if (!isWholeKey) throw badPutFilters();
  return {
    kind: 'insert',
    // The key's columns are compared with the URL, so they are read even if the body lacks them.
    rows: {
      columns: writtenColumns(relation, withKey(relation, payload.keys).sort(), payload),
      omitted: [],
      partial: [],
      isArray: payload.isArray,
    },
    conflict: { columns: primaryKey, action: 'merge' },
    only,
  };
}

function withKey(relation: ExposedRelation, keys: readonly string[]): string[] {
  const named = new Set(keys.map((key) => currentColumn(relation, key)));
  return [...new Set([...keys, ...relation.primaryKey.filter((column) => !named.has(column))])];
}

function writtenRows(
  relation: ExposedRelation,
  names: readonly string[],
  payload: Payload,
  preferences: Preferences,
): WriteRows {
  const columns = writtenColumns(relation, [...new Set(names)], payload);
  const { isArray } = payload;
  if (preferences.missing !== 'default') return { columns, omitted: [], partial: [], isArray };
  const used = new Set(payload.used);
  const partial = new Set(payload.partial);
  return {
    columns: columns.filter(({ key }) => used.has(key)),
    omitted: columns.filter(({ key }) => !used.has(key)),
    partial: columns.filter(({ key }) => partial.has(key)),
    isArray,
  };
}

function writtenColumns(
  relation: ExposedRelation,
  keys: readonly string[],
  { isText }: Pick<Payload, 'isText'>,
): WrittenColumn[] {
  const columns = keys.map((key) => {
    const column = relation.column.get(currentColumn(relation, key));
    if (!column) throw unknownColumn(key, relation.name);
    return { ...column, key, isJsonText: isText && isJsonType(column) };
  });
  for (const [index, { name, key }] of columns.entries()) {
    const first = columns.findIndex((candidate) => candidate.name === name);
    if (first < index) throw sameColumn(columns[first]?.key ?? name, key, relation.name);
  }
  return columns;
}

function isJsonType({ baseType }: Column): boolean {
  return baseType === 'json' || baseType === 'jsonb';
}

/** Rejects a write to all rows, which is usually a mistake, unless it has a filter. */
function requireFilter(query: Query, verb: 'UPDATE' | 'DELETE'): void {
  if (!query.conditions.some(({ path }) => path.length === 0)) throw whereRequired(verb);
}
