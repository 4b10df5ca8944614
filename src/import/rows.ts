// Rows of the application's tables. Both sides hash their rows in parts; only the parts that differ travel, by COPY,
// and of those only the rows that differ are written.
import { copyBetween } from '../postgres/bulk/copy.ts';
import { ident, join, raw, sql, type Sql } from '../postgres/sql.ts';
import type { Connected } from '../postgres/bulk/one-transaction.ts';
import { qualifiedName, type Pair } from './tables.ts';
import type { Changes } from './write-users.ts';

/** A table of which something differs. */
export type Difference = {
  readonly pair: Pair;
  /** Undefined for all of it. */
  readonly parts: Parts | undefined;
  readonly isEmptyHere: boolean;
};

type Parts = { readonly mask: number; readonly numbers: readonly number[] };
type PartHash = { readonly part: number; readonly rows: number; readonly hash: string };

const ROWS_IN_A_PART = 10_000;
const MAX_PARTS = 4_096;

/** Undefined when both sides have the same rows. */
export async function compareRows(
  source: Connected,
  target: Connected,
  pair: Pair,
): Promise<Difference | undefined> {
  const mask = pair.key.length === 0 ? 0 : countParts(pair.rows) - 1;
  const [there, here] = await Promise.all([hashParts(source, pair, mask), hashParts(target, pair, mask)]);
  const numbers = differing(there, here);
  if (numbers.length === 0) return undefined;
  const isEmptyHere = here.length === 0;
  return { pair, isEmptyHere, parts: isEmptyHere || pair.key.length === 0 ? undefined : { mask, numbers } };
}

/** A power of two. */
const countParts = (rows: number): number =>
  Math.min(MAX_PARTS, 2 ** Math.max(0, Math.ceil(Math.log2(Math.max(1, rows) / ROWS_IN_A_PART))));

async function hashParts(db: Connected, pair: Pair, mask: number): Promise<PartHash[]> {
  return await db.query<PartHash>(sql`
    select ${partExpression(pair, mask)} as part, count(*)::float8 as rows,
      sum(hashtextextended(${asText('t', pair.columns)}, 0)::numeric)::text as hash
    from ${tableName(pair)} t group by 1`);
}

function differing(there: readonly PartHash[], here: readonly PartHash[]): number[] {
  const mine = new Map(here.map((part) => [part.part, part]));
  const different = there.filter(({ part, rows, hash }) => {
    const targetPart = mine.get(part);
    mine.delete(part);
    return targetPart?.rows !== rows || targetPart.hash !== hash;
  });
  return [...different.map(({ part }) => part), ...mine.keys()];
}

/** Changes one target table to match the source. */
export async function writeRows(
  source: Connected,
  target: Connected,
  { pair, parts, isEmptyHere }: Difference,
): Promise<Changes> {
  const kind = qualifiedName(pair);
  if (isEmptyHere) {
    const added = await copyInto(source, target, { pair, parts, into: tableName(pair) });
    return { kind, added, changed: 0, removed: 0 };
  }
  await stageRows(source, target, { pair, parts });
  const counts =
    pair.key.length === 0
      ? await replaceAll(target, pair, STAGE)
      : await replaceDifferent(target, pair, { parts, stage: STAGE });
  await target.query(sql`drop table ${STAGE}`);
  return { kind, ...counts };
}

const STAGE = ident('pg_temp', 'import_rows_stage');

/** Stages the source's rows of the differing parts. */
async function stageRows(
  source: Connected,
  target: Connected,
  { pair, parts }: Omit<Difference, 'isEmptyHere'>,
): Promise<void> {
  await target.query(sql`create temporary table import_rows_stage on commit drop as
    select ${columnList(pair.columns)} from ${tableName(pair)} with no data`);
  await copyInto(source, target, { pair, parts, into: STAGE });
  await target.query(sql`analyze ${STAGE}`);
}

/**
 * Provides queries for rows that the target has added, changed and lost. They are valid while `work` runs.
 */
export async function differingRows(
  source: Connected,
  target: Connected,
  { pair, parts }: Difference,
  work: (rows: { readonly inserted: Sql; readonly updated: Sql; readonly deleted: Sql }) => Promise<void>,
): Promise<void> {
  await stageRows(source, target, { pair, parts });
  const here = sql`${tableName(pair)} t where ${inParts(pair, parts)}`;
  const columns = columnList(pair.columns);
  if (pair.key.length > 0) {
    const sameKey = sql`${asText('s', pair.key)} = ${asText('t', pair.key)}`;
    const differs = sql`${asText('s', pair.columns)} <> ${asText('t', pair.columns)}`;
    await work({
      inserted: sql`select ${columns} from ${here} and not exists (select from ${STAGE} s where ${sameKey})`,
      updated: sql`select ${columns} from ${here} and exists (select from ${STAGE} s where ${sameKey} and ${differs})`,
      deleted: sql`select ${columnList(pair.key)} from ${STAGE} s
        where not exists (select from ${tableName(pair)} t where ${sameKey})`,
    });
  } else {
    // Number equal rows to distinguish them.
    const counted = (of: Sql, name: string): Sql => sql`
      (select *, ${asText(name, pair.columns)} as import_row,
        row_number() over (partition by ${asText(name, pair.columns)}) as import_number from ${of})`;
    const mine = counted(here, 't');
    const theirs = counted(sql`${STAGE} s`, 's');
    const without = (rows: Sql, excluded: Sql): Sql => sql`
      select ${columns} from ${rows} a where not exists (
        select from ${excluded} b where a.import_row = b.import_row and a.import_number = b.import_number)`;
    await work({
      inserted: without(mine, theirs),
      updated: sql`select ${columns} from ${STAGE} where false`,
      deleted: without(theirs, mine),
    });
  }
  await target.query(sql`drop table ${STAGE}`);
}

type CopyOrder = { readonly pair: Pair; readonly parts: Parts | undefined; readonly into: Sql };

async function copyInto(
  source: Connected,
  target: Connected,
  { pair, parts, into }: CopyOrder,
): Promise<number> {
  const rows = sql`select ${columnList(pair.columns)} from ${tableName(pair)} t where ${inParts(pair, parts)}`;
  return await copyBetween(
    { client: source.client, statement: sqlText(sql`copy (${rows}) to stdout`) },
    { client: target.client, statement: sqlText(sql`copy ${into} (${columnList(pair.columns)}) from stdin`) },
  );
}

type Counts = Omit<Changes, 'kind'>;

/** Compares whole rows, because rows without a key cannot be identified. */
async function replaceAll(target: Connected, pair: Pair, stage: Sql): Promise<Counts> {
  const [gone] = await target.query<{ count: number }>(sql`
    with gone as (delete from ${tableName(pair)} returning 1) select count(*)::float8 as count from gone`);
  const added = await insertFrom(target, pair, sql`${stage} s`);
  return { added, changed: 0, removed: gone?.count ?? 0 };
}

/**
 * Deletes and re-inserts changed rows, because a unique value may have moved to another row. Foreign keys are
 * disabled so that references do not notice.
 */
async function replaceDifferent(
  target: Connected,
  pair: Pair,
  { parts, stage }: { readonly parts: Parts | undefined; readonly stage: Sql },
): Promise<Counts> {
  const sameKey = sql`${asText('s', pair.key)} = ${asText('t', pair.key)}`;
  const [gone] = await target.query<{ removed: number; changed: number }>(sql`
    with gone as (
      delete from ${tableName(pair)} t where ${inParts(pair, parts)}
        and not exists (select from ${stage} s where ${asText('s', pair.columns)} = ${asText('t', pair.columns)})
      returning ${columnList(
        pair.key.map((column) => column),
        't',
      )}
    )
    select count(*) filter (where present)::float8 as changed, count(*) filter (where not present)::float8 as removed
    from (select exists (select from ${stage} s where ${sameKey}) as present from gone t) rows`);
  const { removed = 0, changed = 0 } = gone ?? {};
  const inserted = await insertFrom(
    target,
    pair,
    sql`${stage} s where not exists (select from ${tableName(pair)} t where ${sameKey})`,
  );
  return { added: inserted - changed, changed, removed };
}

async function insertFrom(target: Connected, pair: Pair, from: Sql): Promise<number> {
  const [row] = await target.query<{ count: number }>(sql`
    with made as (
      insert into ${tableName(pair)} (${columnList(pair.columns)}) overriding system value
      select ${columnList(pair.columns, 's')} from ${from} returning 1
    ) select count(*)::float8 as count from made`);
  return row?.count ?? 0;
}

const tableName = ({ schema, name }: Pair): Sql => ident(schema, name);

const columnList = (columns: readonly string[], of?: string): Sql =>
  join(columns.map((column) => (of === undefined ? ident(column) : ident(of, column))));

/** The server's own print of the values: equal for equal values of every type. */
const asText = (of: string, columns: readonly string[]): Sql =>
  sql`row(${columnList(columns, of)})::text collate "C"`;

const partExpression = (pair: Pair, mask: number): Sql =>
  mask === 0 ? raw('0') : sql`(hashtextextended(${asText('t', pair.key)}, 0) & ${raw(String(mask))})::int`;

const inParts = (pair: Pair, parts: Parts | undefined): Sql =>
  parts === undefined || parts.mask === 0
    ? raw('true')
    : sql`${partExpression(pair, parts.mask)} in (${raw(parts.numbers.join(', '))})`;

/** Text for COPY, which accepts no parameters. These statements have none. */
export const sqlText = (statement: Sql): string => statement.compile().text;
