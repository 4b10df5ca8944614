// Rows of a table as one caller has them, by the data API itself: read in windows, written one at a time.
import type { CallerName, ColumnInfo, TableInfo } from '../../../../src/dashboard-api/contract.ts';
import { as, request } from '../../api.ts';
import { isComparable, jsonObject, kindOf, losesDigits, toText } from '../../parts/values.ts';

export type Row = Readonly<Record<string, unknown>>;

/** The right side is the REST API's own: `eq.5`, `ilike.*milk*`, `not.is.null`. */
export type Filter = { readonly column: string; readonly condition: string };
export type Sort = { readonly column: string; readonly descending: boolean };

export type RowSource = {
  readonly table: TableInfo;
  readonly caller: CallerName;
  readonly filters: readonly Filter[];
  readonly sort: Sort | undefined;
};

/** Rows of one request. */
export const WINDOW = 200;
/** Above this, an exact count takes longer than it helps. */
const EXACT_COUNT_BELOW = 1_000_000;
/** A longer value in a condition makes a longer address than servers take. */
const MAX_COMPARED_LENGTH = 500;

export type RowCount = { readonly total: number; readonly exact: boolean };

export async function countRows(source: RowSource, signal: AbortSignal): Promise<RowCount> {
  const { table } = source;
  const exact = table.kind.endsWith('view') || table.estimatedRows < EXACT_COUNT_BELOW;
  const query = new URLSearchParams(conditions(source));
  query.set('limit', '1');
  const response = await request(pathOf(source, query), {
    method: 'HEAD',
    headers: { ...readHeaders(table), prefer: `count=${exact ? 'exact' : 'estimated'}` },
    signal,
  });
  await response.arrayBuffer();
  const total = Number(/\/(\d+)$/.exec(response.headers.get('content-range') ?? '')?.[1] ?? 0);
  return { total, exact };
}

export async function readWindow(source: RowSource, window: number, signal: AbortSignal): Promise<Row[]> {
  const query = new URLSearchParams(conditions(source));
  query.set('select', selectOf(source.table.columns));
  const order = orderOf(source);
  if (order !== '') query.set('order', order);
  query.set('limit', String(WINDOW));
  query.set('offset', String(window * WINDOW));
  const response = await request(pathOf(source, query), { headers: readHeaders(source.table), signal });
  return (await response.json()) as Row[];
}

/** Names a row among others; undefined where the table has no primary key. */
export function keyOf(table: TableInfo, row: Row): string | undefined {
  if (table.primaryKey.length === 0) return undefined;
  return JSON.stringify(table.primaryKey.map((column) => toText(row[column])));
}

export type Saved =
  | { readonly kind: 'saved'; readonly row: Row }
  /** Not written: somebody else changed the value after it was read. */
  | { readonly kind: 'changed-meanwhile'; readonly row: Row }
  /** Not written: no policy lets this caller change the row. */
  | { readonly kind: 'not-allowed' }
  /** Deleted meanwhile, or hidden from this caller. */
  | { readonly kind: 'gone' };

/** Writes one value, if it still is what `row` says it was. `json` is the value to send. */
export async function saveValue(
  source: RowSource,
  row: Row,
  column: ColumnInfo,
  json: string,
): Promise<Saved> {
  const { table } = source;
  const old = toText(row[column.name]);
  const isCompared =
    old === null || (isComparable(column) && old.length <= MAX_COMPARED_LENGTH && kindOf(column) !== 'json');
  const query = new URLSearchParams(keyConditions(table, row));
  if (isCompared) query.append(column.name, old === null ? 'is.null' : `eq.${old}`);
  query.set('select', selectOf(table.columns));
  const response = await request(pathOf(source, query), {
    method: 'PATCH',
    headers: { ...writeHeaders(table), prefer: 'return=representation' },
    body: jsonObject([[column.name, json]]),
  });
  const [written] = (await response.json()) as Row[];
  if (written) return { kind: 'saved', row: written };
  const now = await readRow(source, row);
  if (!now) return { kind: 'gone' };
  return toText(now[column.name]) === old ? { kind: 'not-allowed' } : { kind: 'changed-meanwhile', row: now };
}

async function readRow(source: RowSource, row: Row): Promise<Row | undefined> {
  const query = new URLSearchParams(keyConditions(source.table, row));
  query.set('select', selectOf(source.table.columns));
  const response = await request(pathOf(source, query), { headers: readHeaders(source.table) });
  return ((await response.json()) as Row[])[0];
}

/** Members are JSON already; columns left out get their default. */
export async function addRow(
  source: RowSource,
  members: ReadonlyArray<readonly [name: string, json: string]>,
): Promise<void> {
  const response = await request(pathOf(source, new URLSearchParams()), {
    method: 'POST',
    // Whoever may write a row need not be allowed to see it.
    headers: { ...writeHeaders(source.table), prefer: 'return=minimal' },
    body: jsonObject(members),
  });
  // A body that nobody reads, even an empty one, is a request that the browser cancels.
  await response.arrayBuffer();
}

const DELETED_AT_ONCE = 50;

/** How many were deleted: policies may have kept some. */
export async function deleteRows(source: RowSource, rows: readonly Row[]): Promise<number> {
  const { table } = source;
  let deleted = 0;
  for (let start = 0; start < rows.length; start += DELETED_AT_ONCE) {
    const alternatives = rows
      .slice(start, start + DELETED_AT_ONCE)
      .map(
        (row) =>
          `and(${table.primaryKey.map((column) => `${quoted(column)}.eq.${quoted(toText(row[column]) ?? '')}`).join(',')})`,
      );
    const query = new URLSearchParams({
      or: `(${alternatives.join(',')})`,
      select: selectOf(table.columns.filter(({ name }) => table.primaryKey.includes(name))),
    });
    const response = await request(pathOf(source, query), {
      method: 'DELETE',
      headers: { ...writeHeaders(table), prefer: 'return=representation' },
    });
    deleted += ((await response.json()) as Row[]).length;
  }
  return deleted;
}

function pathOf({ caller, table }: RowSource, query: URLSearchParams): string {
  const text = query.toString();
  return as(caller, 'rest', encodeURIComponent(table.name) + (text === '' ? '' : `?${text}`));
}

function readHeaders({ schema }: TableInfo): Record<string, string> {
  return schema === 'public' ? {} : { 'accept-profile': schema };
}

function writeHeaders({ schema }: TableInfo): Record<string, string> {
  return {
    'content-type': 'application/json',
    ...(schema === 'public' ? {} : { 'content-profile': schema }),
  };
}

function conditions({ filters }: RowSource): string[][] {
  return filters.map(({ column, condition }) => [column, condition]);
}

function keyConditions(table: TableInfo, row: Row): string[][] {
  return table.primaryKey.map((column) => [column, `eq.${toText(row[column]) ?? ''}`]);
}

function selectOf(columns: readonly ColumnInfo[]): string {
  return columns
    .map(({ name, type }) => (losesDigits(type) ? `${quoted(name)}::text` : quoted(name)))
    .join(',');
}

/** Always total, so that windows neither overlap nor leave gaps. */
function orderOf({ table, sort }: RowSource): string {
  const chosen = sort ? [`${quoted(sort.column)}.${sort.descending ? 'desc' : 'asc'}`] : [];
  const rest = table.primaryKey.filter((column) => column !== sort?.column).map(quoted);
  return [...chosen, ...rest].join(',');
}

function quoted(name: string): string {
  return /^[A-Za-z_][A-Za-z0-9_]*$/.test(name)
    ? name
    : `"${name.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`;
}

/** In the address of the page the filters are what they are in the REST API's. */
export function parseFilters(text: string | undefined): Filter[] {
  return [...new URLSearchParams(text ?? '')].map(([column, condition]) => ({ column, condition }));
}

export function renderFilters(filters: readonly Filter[]): string | undefined {
  if (filters.length === 0) return undefined;
  return new URLSearchParams(filters.map(({ column, condition }) => [column, condition])).toString();
}

export function parseSort(text: string | undefined): Sort | undefined {
  const match = /^(.+)\.(asc|desc)$/.exec(text ?? '');
  return match?.[1] === undefined ? undefined : { column: match[1], descending: match[2] === 'desc' };
}

export function renderSort(sort: Sort | undefined): string | undefined {
  return sort && `${sort.column}.${sort.descending ? 'desc' : 'asc'}`;
}
