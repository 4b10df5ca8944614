// `svc_meta.config`: all proposed files, and the applied one. Life of a row: proposed → applied | refused. The next
// applied row replaces it. One row is applied, and all instances serve it.
import { createHash } from 'node:crypto';
import { diffLines } from '../lib/text/line-diff.ts';
import type { OwnerDatabase, Queryable } from '../postgres/owner-database.ts';
import { raw, sql } from '../postgres/sql.ts';
import { must } from '../lib/assert.ts';
import { Problem } from '../problem/problem.ts';

/** Notified with the id of a row that was applied. */
export const CONFIG_CHANNEL = 'svc_config';

export type ConfigState = 'proposed' | 'applied' | 'refused' | 'replaced';

export type ConfigRow = {
  readonly id: string;
  /** Grows with every proposal; comparable with build stamps. */
  readonly sequence: number;
  /** SHA-256 of the text. */
  readonly hash: string;
  readonly text: string;
  readonly author: string;
  readonly note: string | null;
  readonly state: ConfigState;
  /** Why it was refused. */
  readonly reason: string | null;
  readonly createdAt: Date;
  readonly appliedAt: Date | null;
};

export type Proposal = {
  /** The file as written, `${VAR}` and all. */
  readonly text: string;
  readonly author: string;
  readonly note?: string | undefined;
  /** Id of the row that was changed: with another one applied by then, the proposal is refused. */
  /** Null: there was none. */
  readonly base?: string | null | undefined;
};

const COLUMNS = raw(`id::text as id, sequence::float8 as sequence, hash, text, author, note, state, reason,
  created_at as "createdAt", applied_at as "appliedAt"`);

/** The row to serve; undefined before the first. */
export async function readApplied(db: Queryable): Promise<ConfigRow | undefined> {
  const [row] = await db.query<ConfigRow>(
    sql`select ${COLUMNS} from svc_meta.config where state = 'applied'`,
  );
  return row;
}

export async function readRow(db: Queryable, id: string): Promise<ConfigRow | undefined> {
  const [row] = await db.query<ConfigRow>(
    sql`select ${COLUMNS} from svc_meta.config where id = ${id}::bigint`,
  );
  return row;
}

/** The newest first. */
export async function readRows(db: Queryable, limit: number): Promise<ConfigRow[]> {
  return await db.query<ConfigRow>(
    sql`select ${COLUMNS} from svc_meta.config order by id desc limit ${limit}`,
  );
}

export async function propose(owner: OwnerDatabase, proposal: Proposal): Promise<ConfigRow> {
  const { text, author, note = null, base = null } = proposal;
  const [row] = await owner.query<ConfigRow>(sql`
    insert into svc_meta.config (sequence, hash, text, base, author, note, state)
    select greatest(floor(extract(epoch from clock_timestamp()) * 1000)::bigint,
        (select max(sequence) + 1 from svc_meta.config),
        (select max(deploy_seq) + 1 from svc_meta.run where status = 'done')),
      ${sha256Hex(text)}, ${text}, ${base}::bigint, ${author}, ${note}, 'proposed'
    returning ${COLUMNS}`);
  return must(row, 'the proposed row');
}

/**
 * Marks a row as applied. Call it in the transaction that changes the schema, under the migration lock. Throws
 * `config_conflict` if the row that the proposal is based on is no longer applied.
 */
export async function markApplied(
  transaction: Queryable,
  row: ConfigRow,
  base: string | null | undefined,
): Promise<void> {
  if (base !== undefined) await assertBase(transaction, base, row.text);
  await transaction.query(raw(`update svc_meta.config set state = 'replaced' where state = 'applied'`));
  await transaction.query(
    sql`update svc_meta.config set state = 'applied', applied_at = now() where id = ${row.id}::bigint`,
  );
  await transaction.query(sql`select pg_notify(${CONFIG_CHANNEL}, ${row.id})`);
}

/** A row that was applied after all stays so. */
export async function markRefused(owner: OwnerDatabase, id: string, reason: string): Promise<void> {
  await owner.query(sql`update svc_meta.config set state = 'refused', reason = ${reason.slice(0, 4_000)}
    where id = ${id}::bigint and state = 'proposed'`);
}

export async function assertBase(db: Queryable, base: string | null, text: string): Promise<void> {
  const current = await readApplied(db);
  if ((current?.id ?? null) === base || current === undefined) return;
  throw configConflict(current, base, text);
}

/** Longer differences are cut: the message is for a person. */
const MAX_LINES = 60;

export function configConflict(current: ConfigRow, base: string | null, text: string): Problem {
  const lines = diffLines(current.text, text).map(({ sign, text: line }) => `${sign} ${line}`);
  const more = lines.length - MAX_LINES;
  return new Problem(
    'config_conflict',
    409,
    `This change was made from ${base ?? 'nothing'}, but ${current.id} is served by now (by ${current.author})`,
    {
      details: [...lines.slice(0, MAX_LINES), ...(more > 0 ? [`… and ${more} more lines`] : [])].join('\n'),
      hint:
        `Nothing was changed. The lines show what it would do to ${current.id}: make your change there, ` +
        'and try again.',
    },
  );
}

export function sha256Hex(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
