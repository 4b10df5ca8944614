// Reads the rows that triggers have recorded in `realtime.changes`, and turns them into changes.
import { sql } from '../../../postgres/sql.ts';
import type { Relation } from '../../../postgres/replication/pgoutput.ts';
import type { OwnerDatabase } from '../../../postgres/owner-database.ts';
import { readRecord } from '../../tables/record-text.ts';
import type { SourceChange } from './change-source.ts';
import type { Recorded } from './triggers.ts';

export const READ_BATCH_ROWS = 500;

export type Transaction = { readonly xid: string; readonly rows: number };

export type RecordedRow = {
  readonly id: string;
  readonly xid: string;
  readonly relation: string;
  readonly kind: 'insert' | 'update' | 'delete';
  readonly columns: readonly string[];
  readonly new: string | null;
  readonly old: string | null;
  /** Time of the change in milliseconds since 1970. */
  readonly at: number;
};

/** Returns the transactions that became visible after `snapshot`, with a new snapshot. */
export async function readTransactions(
  owner: OwnerDatabase,
  snapshot: string,
): Promise<{ readonly snapshot: string; readonly transactions: readonly Transaction[] } | undefined> {
  const [found] = await owner.query<{ snapshot: string; transactions: Transaction[] | null }>(
    sql`select pg_current_snapshot()::text as snapshot, (
        select json_agg(json_build_object('xid', t.xid, 'rows', t.rows) order by t.last) from (
          select xid::text as xid, count(*) as rows, max(id) as last from realtime.changes
          where xid >= pg_snapshot_xmin(${snapshot}::pg_snapshot)
            and not pg_visible_in_snapshot(xid, ${snapshot}::pg_snapshot)
          group by 1) t) as transactions`,
    'realtime-changes',
  );
  return found && { snapshot: found.snapshot, transactions: found.transactions ?? [] };
}

/** Returns at most `READ_BATCH_ROWS` rows of the transactions. `after`: id of the last row that was read. */
export async function readRows(
  owner: OwnerDatabase,
  transactions: readonly Transaction[],
  after: string,
): Promise<RecordedRow[]> {
  const xids = transactions.map(({ xid }) => xid);
  return await owner.query<RecordedRow>(sql`
        select c.id::text, c.xid::text, c.relation::text, c.kind, c.columns, c.new, c.old,
          (extract(epoch from c.at) * 1000)::float8 as at
        from realtime.changes c where c.xid = any (${xids}::text[]::xid8[]) and c.id > ${after}::bigint
        order by ${transactions.length > 1 ? sql`array_position(${xids}::text[], c.xid::text), c.id` : sql`c.id`}
        limit ${READ_BATCH_ROWS}::integer`);
}

/** Groups small transactions, so that one statement reads them. A group has at most `READ_BATCH_ROWS` rows. */
export function* groupTransactions(transactions: readonly Transaction[]): Generator<Transaction[]> {
  let group: Transaction[] = [];
  let rows = 0;
  for (const transaction of transactions) {
    if (group.length > 0 && rows + transaction.rows > READ_BATCH_ROWS) {
      yield group;
      group = [];
      rows = 0;
    }
    group.push(transaction);
    rows += transaction.rows;
  }
  if (group.length > 0) yield group;
}

export class RecordedTables {
  readonly #relations = new Map<string, Relation>();
  #tables: ReadonlyMap<string, Recorded> = new Map();

  set(tables: ReadonlyMap<string, Recorded>): void {
    this.#tables = tables;
    this.#relations.clear();
  }

  /** Returns undefined for a row of a table that is not published any more. */
  toChange(row: RecordedRow, lsn: bigint): SourceChange | undefined {
    const relation = this.#resolveRelation(row);
    if (!relation) return undefined;
    const { kind, columns } = row;
    const readValues = (text: string | null): Array<string | null> | undefined =>
      text === null ? undefined : readRecord(text).filter((_, at) => columns[at] !== '');
    return {
      transaction: {
        kind: 'begin',
        lsn,
        committedAt: row.at,
        xid: Number(BigInt.asUintN(32, BigInt(row.xid))),
      },
      relation,
      change: {
        kind,
        relation: relation.oid,
        new: readValues(row.new),
        old: readValues(row.old),
        isWholeOld: relation.identity === 'f',
        bytes: (row.new?.length ?? 0) + (row.old?.length ?? 0),
      },
    };
  }

  #resolveRelation({ relation: oid, columns }: RecordedRow): Relation | undefined {
    const cacheKey = `${oid} ${columns.join('\0')}`;
    const cached = this.#relations.get(cacheKey);
    if (cached) return cached;
    const table = this.#tables.get(oid);
    if (!table) return undefined;
    const key = new Set(table.key);
    const relation: Relation = {
      oid: Number(oid),
      schema: table.schema,
      table: table.name,
      identity: table.identity,
      columns: columns.filter(Boolean).map((name) => ({ name, isKey: key.has(name), type: 0 })),
    };
    this.#relations.set(cacheKey, relation);
    return relation;
  }
}
