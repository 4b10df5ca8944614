// POST /object/list/:bucket and /object/list-v2/:bucket. Both run as the caller, so policies decide about each row;
// an unknown bucket and a forbidden one are both answered with an empty list.
import type { FastifyReply } from 'fastify';
import { z } from 'zod';
import { isoTimestamp, raw, sql, type Sql } from '../../postgres/sql.ts';
import { during } from '../http/caller.ts';
import { readJson } from './json-body.ts';
import { readAs } from '../objects/object.ts';
import { invalidParameter } from '../problem.ts';
import type { CallerCall } from '../storage-context.ts';

const V1_MAX_LIMIT = 1500;
const V2_MAX_LIMIT = 1000;

const order = z
  .string()
  .toLowerCase()
  .pipe(z.enum(['asc', 'desc']))
  .default('asc');

export const listBody = z.object({
  prefix: z.string(),
  limit: z.int().min(1).default(100),
  offset: z.int().min(0).default(0),
  search: z.string().default(''),
  sortBy: z
    .object({
      column: z.enum(['name', 'updated_at', 'created_at', 'last_accessed_at']).default('name'),
      order,
    })
    .default({ column: 'name', order: 'asc' }),
  exactMatch: z.boolean().default(false),
});

export async function listV1(call: CallerCall): Promise<FastifyReply> {
  const { context, request, reply, address, caller } = call;
  const { bucket } = address;
  const body = await readJson(call, listBody);
  const folder = asFolder(body.prefix);
  const { column } = body.sortBy;
  const direction = raw(body.sortBy.order);
  const ordering =
    column === 'name'
      ? sql`lower(name) collate "C" ${direction}, name collate "C" ${direction}`
      : sql`(id is not null), ${raw(column)} ${direction}, name collate "C"`;
  // Names below the folder are cut at the next slash after the searched text; a deeper name makes a virtual folder.
  const wanted = (folder + body.search).toLowerCase();
  const relativeStart = folder.length + 1;
  const slashesToKeep = body.search.split('/').length;
  const statement = sql`
    with matching as (
      select substr(o.name, ${relativeStart}::int) as rest, o.*
      from storage.objects o
      where o.bucket_id = ${bucket} and ${startsWith(sql`lower(o.name) collate "C"`, wanted)}
        ${body.exactMatch ? sql`and o.name = ${folder + body.search}` : sql``}
    ), cut as (
      select array_to_string((string_to_array(rest, '/'))[1:${slashesToKeep}::int], '/') as entry,
        array_length(string_to_array(rest, '/'), 1) > ${slashesToKeep}::int as deeper, m.*
      from matching m
    ), entries as (
      select entry as name, null::uuid as id, null::timestamptz as updated_at, null::timestamptz as created_at,
        null::timestamptz as last_accessed_at, null::jsonb as metadata
      from cut where deeper group by entry
      union all
      select entry, id, updated_at, created_at, last_accessed_at, metadata from cut where not deeper
    ), page as (
      select row_number() over (order by ${ordering}) as position, * from entries
      order by ${ordering} limit ${Math.min(body.limit, V1_MAX_LIMIT)} offset ${body.offset}
    )
    select coalesce(json_agg(json_build_object('name', name, 'id', id, 'updated_at', ${isoTimestamp('updated_at')},
      'created_at', ${isoTimestamp('created_at')}, 'last_accessed_at', ${isoTimestamp('last_accessed_at')},
      'metadata', metadata) order by position), '[]') from page`;
  const as = during(caller, 'storage.object.list', request);
  const [json = '[]'] = await readAs(context.callers, as, statement);
  return await reply.header('content-type', 'application/json; charset=utf-8').send(json);
}

export const listV2Body = z.object({
  prefix: z.string().default(''),
  limit: z.int().min(1).max(V2_MAX_LIMIT).default(V2_MAX_LIMIT),
  cursor: z.string().optional(),
  with_delimiter: z.boolean().default(false),
  sortBy: z
    .object({ column: z.enum(['name', 'created_at', 'updated_at']).default('name'), order })
    .default({ column: 'name', order: 'asc' }),
  exactMatch: z.boolean().default(false),
});

const cursorShape = z.object({
  /** Full name of the last entry; that of a folder ends in a slash. */
  k: z.string(),
  o: z.enum(['asc', 'desc']),
  c: z.enum(['name', 'created_at', 'updated_at']),
  /** Milliseconds, when sorted by time. */
  t: z.number().optional(),
});
type Cursor = z.infer<typeof cursorShape>;

/** An entry of a page. Metadata and times are sent unchanged. The id of a folder is null. */
type Entry = { readonly name: string; readonly id: string | null; readonly ms: number | null };

export async function listV2(call: CallerCall): Promise<FastifyReply> {
  const { context, request, reply, address, caller } = call;
  const body = await readJson(call, listV2Body);
  const cursor = body.cursor === undefined || body.cursor === '' ? undefined : parseCursor(body.cursor);
  // A page uses the order of the first page.
  const column = cursor?.c ?? body.sortBy.column;
  const direction = cursor?.o ?? body.sortBy.order;
  const listing: Listing = {
    bucket: address.bucket,
    prefix: body.prefix,
    exact: body.exactMatch,
    descending: direction === 'desc',
    direction: raw(direction),
    beyond: raw(direction === 'desc' ? '<' : '>'),
    cursor,
    // The additional row shows whether there is a next page.
    limit: body.limit + 1,
  };
  const rows = await readAs(
    context.callers,
    during(caller, 'storage.object.list_v2', request),
    sql`select json_build_object('name', name, 'id', id, 'ms', ms, 'metadata', metadata,
      'updated_at', ${isoTimestamp('updated_at')}, 'created_at', ${isoTimestamp('created_at')},
      'last_accessed_at', ${isoTimestamp('last_accessed_at')})
        from (${pageQuery(listing, column, body.with_delimiter)}) page`,
  );
  const hasNext = rows.length > body.limit;
  const page = rows.slice(0, body.limit).map((json) => JSON.parse(json) as Entry);
  // A folder's name ends in a slash, its key does not. Without folders entries have no key.
  const relativeKey = (name: string): string =>
    name.replace(/\/$/, '').slice(body.prefix.lastIndexOf('/') + 1);
  const shown = page.map(({ ms: _ms, ...entry }) =>
    body.with_delimiter ? { ...entry, key: relativeKey(entry.name) } : entry,
  );
  const folders = shown.filter(({ id }) => id === null);
  const objects = shown.filter(({ id }) => id !== null);
  const last = page.at(-1);
  if (!hasNext || !last) return await reply.send({ hasNext, folders, objects });
  const next: Cursor = { k: last.name, o: direction, c: column, t: last.ms ?? undefined };
  const nextCursor = Buffer.from(JSON.stringify(next)).toString('base64');
  return await reply.send({ hasNext, folders, objects, nextCursorKey: last.name, nextCursor });
}

type Listing = {
  readonly bucket: string;
  readonly prefix: string;
  readonly exact: boolean;
  readonly descending: boolean;
  readonly direction: Sql;
  /** Comparison with the entry of the cursor. */
  readonly beyond: Sql;
  readonly cursor: Cursor | undefined;
  readonly limit: number;
};

function pageQuery(listing: Listing, column: Cursor['c'], delimited: boolean): Sql {
  if (!delimited) return flatPage(listing, column);
  return column === 'name' ? delimitedPageByName(listing) : delimitedPageByTime(listing, column);
}

const COLUMNS = raw('o.name, o.id, o.metadata, o.updated_at, o.created_at, o.last_accessed_at');

/** The unit of cursors. */
function milliseconds(column: 'created_at' | 'updated_at'): Sql {
  return raw(`floor(extract(epoch from o.${column}) * 1000)::bigint`);
}

function within({ bucket, prefix, exact }: Listing): Sql {
  const named = exact ? sql`o.name = ${prefix}` : startsWith(sql`o.name`, prefix);
  return sql`o.bucket_id = ${bucket} and ${named}`;
}

function flatPage(listing: Listing, column: Cursor['c']): Sql {
  const { cursor, limit, direction, beyond } = listing;
  if (column === 'name') {
    const after = cursor ? sql`and o.name ${beyond} ${cursor.k}` : sql``;
    return sql`select ${COLUMNS}, null::bigint as ms from storage.objects o
      where ${within(listing)} ${after} order by o.name ${direction} limit ${limit}`;
  }
  const ms = milliseconds(column);
  const after = cursor ? sql`and (${ms}, o.name) ${beyond} (${cursor.t ?? 0}::bigint, ${cursor.k})` : sql``;
  return sql`select ${COLUMNS}, ${ms} as ms from storage.objects o
    where ${within(listing)} ${after} order by ${ms} ${direction}, o.name ${direction} limit ${limit}`;
}

/**
 * Uses one index probe per entry. The walk skips the content of folders, so its cost depends on the page size only.
 */
function delimitedPageByName(listing: Listing): Sql {
  const { prefix, descending, direction, cursor, limit } = listing;
  const start = cursor ? resume(sql`${cursor.k}::text`, descending) : sql`true`;
  const next = (beyond: Sql): Sql => sql`
    select ${COLUMNS}, position('/' in substr(o.name, ${prefix.length + 1}::int)) as slash
    from storage.objects o where ${within(listing)} and ${beyond}
    order by o.name ${direction} limit 1`;
  // A row appears as itself or as the folder that it is in.
  const entryExpression = (row: Sql): Sql =>
    sql`case when ${row}.slash > 0 then left(${row}.name, ${prefix.length}::int + ${row}.slash) else ${row}.name end`;
  return sql`
    with recursive walk as (
      select 1 as n, ${entryExpression(raw('head'))} as entry, head.* from (${next(start)}) head
      union all
      select walk.n + 1, ${entryExpression(raw('following'))}, following.*
      from walk, lateral (${next(resume(raw('walk.entry'), descending))}) following
      where walk.n < ${limit}
    )
    select entry as name, case when slash = 0 then id end as id, case when slash = 0 then metadata end as metadata,
      updated_at, created_at, last_accessed_at, null::bigint as ms
    from walk order by n`;
}

/** After an entry; of a folder, after everything in it. */
function resume(entry: Sql, descending: boolean): Sql {
  if (descending) return sql`o.name < ${entry} collate "C"`;
  return sql`o.name > (case when right(${entry}, 1) = '/' then ${entry} || chr(1114111) else ${entry} end) collate "C"`;
}

function delimitedPageByTime(listing: Listing, column: 'created_at' | 'updated_at'): Sql {
  const { prefix, cursor, limit, direction, beyond } = listing;
  const after = cursor
    ? sql`where (ms, name collate "C") ${beyond} (${cursor.t ?? 0}::bigint, ${cursor.k} collate "C")`
    : sql``;
  return sql`
    with level as (
      select ${COLUMNS}, position('/' in substr(o.name, ${prefix.length + 1}::int)) as slash,
        ${milliseconds(column)} as ms,
        ${milliseconds('created_at')} as created_ms
      from storage.objects o where ${within(listing)}
    ), folders as (
      select left(name, ${prefix.length}::int + slash) as folder, created_ms from level where slash > 0
    ), entries as (
      select name, id, metadata, updated_at, created_at, last_accessed_at, ms from level where slash = 0
      union all
      select folder, null, null, null, null, null, min(created_ms) from folders group by folder
    )
    select * from entries ${after} order by ms ${direction}, name collate "C" ${direction} limit ${limit}`;
}

/** Uses a range instead of LIKE, so that `%`, `_` and `\` in a prefix are literal characters. */
function startsWith(column: Sql, prefix: string): Sql {
  if (prefix === '') return sql`true`;
  // The end is the first text after all that begin with `prefix`: the "C" order is the order of UTF-8 bytes.
  return sql`${column} >= ${prefix} collate "C" and ${column} < ${`${prefix}\u{10ffff}`} collate "C"`;
}

function asFolder(prefix: string): string {
  const trimmed = prefix.replace(/^\/+/, '');
  return trimmed === '' || trimmed.endsWith('/') ? trimmed : `${trimmed}/`;
}

function parseCursor(text: string): Cursor {
  try {
    return cursorShape.parse(JSON.parse(Buffer.from(text, 'base64').toString('utf8')));
  } catch {
    // Not base64, not JSON or of another shape.
    throw invalidParameter('cursor');
  }
}
