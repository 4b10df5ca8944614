// Reads and writes rows through the data API as one caller: reads windows, writes single values.
import type { CallerName, ColumnInfo, TableInfo } from '../../../../src/dashboard-api/contract.ts';
import { as, request } from '../../api.ts';
import { isComparable, jsonObject, valueKind, losesDigits, toText } from '../../parts/values.ts';

export type Row = Readonly<Record<string, unknown>>;

/** `condition`: syntax of the REST API, such as `eq.5`, `ilike.*milk*`, `not.is.null`. */
export type Filter = { readonly column: string; readonly condition: string };
export type Sort = { readonly column: string; readonly descending: boolean };

export type RowSource = {
  readonly table: TableInfo;
  readonly caller: CallerName;
  readonly filters: readonly Filter[];
  readonly sort: Sort | undefined;
};

/** Number of rows in one request. */
export const WINDOW = 200;
/** Maximum estimate for an exact count. Above it, counting takes too long. */
const EXACT_COUNT_BELOW = 1_000_000;
/** Maximum length of a compared value. Longer ones would exceed URL limits of servers. */
const MAX_COMPARED_LENGTH = 500;

export type RowCount = { readonly total: number; readonly exact: boolean };

export async function countRows(source: RowSource, signal: AbortSignal): Promise<RowCount> {
  const { table } = source;
  const exact = table.kind.endsWith('view') || table.estimatedRows < EXACT_COUNT_BELOW;
  const query = new URLSearchParams(conditions(source));
  query.set('limit', '1');
  const response = await request(tablePath(source, query), {
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
  query.set('select', selectList(source.table.columns));
  const order = orderClause(source);
  if (order !== '') query.set('order', order);
  query.set('limit', String(WINDOW));
  query.set('offset', String(window * WINDOW));
  const response = await request(tablePath(source, query), { headers: readHeaders(source.table), signal });
  return (await response.json()) as Row[];
}

/** Identifies a row; undefined if the table has no primary key. */
export function rowKey(table: TableInfo, row: Row): string | undefined {
  if (table.primaryKey.length === 0) return undefined;
  return JSON.stringify(table.primaryKey.map((column) => toText(row[column])));
}

export type Saved =
  | { readonly kind: 'saved'; readonly row: Row }
  /** Not written: the value has changed since it was read. */
  | { readonly kind: 'conflict'; readonly row: Row }
  /** Not written: no policy allows this caller to change the row. */
  | { readonly kind: 'not-allowed' }
  /** Deleted since it was read, or hidden from this caller. */
  | { readonly kind: 'gone' };

/** Writes one value if it still equals the value in `row`. `json`: new value. */
export async function saveValue(
  source: RowSource,
  row: Row,
  column: ColumnInfo,
  json: string,
): Promise<Saved> {
  const { table } = source;
  const old = toText(row[column.name]);
  const isCompared =
    old === null ||
    (isComparable(column) && old.length <= MAX_COMPARED_LENGTH && valueKind(column) !== 'json');
  const query = new URLSearchParams(keyConditions(table, row));
  if (isCompared) query.append(column.name, old === null ? 'is.null' : `eq.${old}`);
  query.set('select', selectList(table.columns));
  const response = await request(tablePath(source, query), {
    method: 'PATCH',
    headers: { ...writeHeaders(table), prefer: 'return=representation' },
    body: jsonObject([[column.name, json]]),
  });
  const [written] = (await response.json()) as Row[];
  if (written) return { kind: 'saved', row: written };
  const now = await readRow(source, row);
  if (!now) return { kind: 'gone' };
  return toText(now[column.name]) === old ? { kind: 'not-allowed' } : { kind: 'conflict', row: now };
}

async function readRow(source: RowSource, row: Row): Promise<Row | undefined> {
  const query = new URLSearchParams(keyConditions(source.table, row));
  query.set('select', selectList(source.table.columns));
  const response = await request(tablePath(source, query), { headers: readHeaders(source.table) });
  return ((await response.json()) as Row[])[0];
}

/** Inserts a row. `members` are JSON already; omitted columns get their default. */
export async function addRow(
  source: RowSource,
  members: ReadonlyArray<readonly [name: string, json: string]>,
): Promise<void> {
  const response = await request(tablePath(source, new URLSearchParams()), {
    method: 'POST',
    // Do not request the row: a caller who may insert it need not be allowed to read it.
    headers: { ...writeHeaders(source.table), prefer: 'return=minimal' },
    body: jsonObject(members),
  });
  // Read the body, even if it is empty. Otherwise the browser cancels the request.
  await response.arrayBuffer();
}

const DELETE_BATCH_SIZE = 50;

/** Returns the number of deleted rows. Policies may prevent some deletions. */
export async function deleteRows(source: RowSource, rows: readonly Row[]): Promise<number> {
  const { table } = source;
  let deleted = 0;
  for (let start = 0; start < rows.length; start += DELETE_BATCH_SIZE) {
    const alternatives = rows
      .slice(start, start + DELETE_BATCH_SIZE)
      .map(
        (row) =>
          `and(${table.primaryKey.map((column) => `${quote(column)}.eq.${quote(toText(row[column]) ?? '')}`).join(',')})`,
      );
    const query = new URLSearchParams({
      or: `(${alternatives.join(',')})`,
      select: selectList(table.columns.filter(({ name }) => table.primaryKey.includes(name))),
    });
    const response = await request(tablePath(source, query), {
      method: 'DELETE',
      headers: { ...writeHeaders(table), prefer: 'return=representation' },
    });
    deleted += ((await response.json()) as Row[]).length;
  }
  return deleted;
}

function tablePath({ caller, table }: RowSource, query: URLSearchParams): string {
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

function selectList(columns: readonly ColumnInfo[]): string {
  return columns
    .map(({ name, type }) => (losesDigits(type) ? `${quote(name)}::text` : quote(name)))
    .join(',');
}

/** Always a total order, so that windows neither overlap nor leave gaps. */
function orderClause({ table, sort }: RowSource): string {
  const chosen = sort ? [`${quote(sort.column)}.${sort.descending ? 'desc' : 'asc'}`] : [];
  const rest = table.primaryKey.filter((column) => column !== sort?.column).map(quote);
  return [...chosen, ...rest].join(',');
}

function quote(name: string): string {
  return /^[A-Za-z_][A-Za-z0-9_]*$/.test(name)
    ? name
    : `"${name.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`;
}

/** The query string of the page contains filters in the syntax of the REST API. */
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
