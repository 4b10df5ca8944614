// Row triggers on the tables that tell of their changes, and on `realtime.messages`: there while changes are read by them,
// and at no other time.
import type { FeatureContext } from '../../http/feature.ts';
import { IS_TOLD } from '../../postgres/replication/untold.ts';
import { ident, raw, sql } from '../../postgres/sql.ts';

/** Names that begin so are svc's: no migration touches them. It is the last to fire. */
const TRIGGER = '~svc_realtime';
/** Whoever waits for the lock of a table has all others wait behind. */
const LOCK_TIMEOUT_MS = 300;

/** A member of the publication. */
export type Recorded = {
  readonly oid: string;
  readonly schema: string;
  readonly name: string;
  readonly identity: string;
  readonly key: readonly string[];
};

/** `trigger`: its oid. */
type Member = Recorded & { readonly trigger: string | null };

export type Recording = {
  /** By oid. */
  readonly tables: ReadonlyMap<string, Recorded>;
  /** By oid of the table, that of its trigger. Another one than before: in between nothing was told. */
  readonly triggers: ReadonlyMap<string, string>;
  /** Tables that could not get theirs, and why. */
  readonly failed: ReadonlyMap<string, unknown>;
};

const MEMBERS = sql`
select c.oid::text as oid, n.nspname as schema, c.relname as name, c.relreplident::text as identity,
  (select coalesce(json_agg(a.attname), '[]') from pg_index i join pg_attribute a
    on a.attrelid = c.oid and a.attnum = any (i.indkey::int2[]) where i.indrelid = c.oid and i.indisprimary) as key,
  (select t.oid::text from pg_trigger t where t.tgrelid = c.oid and t.tgname = ${TRIGGER}) as trigger
from pg_publication p join pg_publication_rel m on m.prpubid = p.oid join pg_class c on c.oid = m.prrelid
  join pg_namespace n on n.oid = c.relnamespace where p.pubname = 'svc_realtime'`;

/** Makes what is missing, unless another instance does. */
export async function recordMembers({ owner }: FeatureContext): Promise<Recording> {
  let members = await owner.query<Member>(MEMBERS);
  const faults = new Map<string, unknown>();
  const missing = members.filter(({ trigger }) => trigger === null);
  for (const { oid, schema, name } of missing) {
    const table = ident(schema, name);
    // Rows by which rights are found out are never kept.
    const which =
      schema === 'realtime'
        ? raw(`after insert on realtime.messages for each row when (new.inserted_at < '9000-01-01')`)
        : sql`after insert or update or delete on ${table} for each row when (${IS_TOLD})`;
    try {
      await owner.transaction(async (db) => {
        await db.query(raw(`set local lock_timeout = ${LOCK_TIMEOUT_MS}`));
        await db.query(
          sql`create or replace trigger ${ident(TRIGGER)} ${which} execute function realtime.record_change()`,
        );
      });
    } catch (error) {
      faults.set(oid, error);
    }
  }
  if (missing.length > 0) members = await owner.query<Member>(MEMBERS);
  return {
    tables: new Map(members.map((member) => [member.oid, member])),
    triggers: new Map(members.flatMap(({ oid, trigger }) => (trigger === null ? [] : [[oid, trigger]]))),
    failed: new Map(
      members.flatMap(({ oid, schema, name, trigger }) =>
        trigger === null && faults.has(oid) ? [[`${schema}.${name}`, faults.get(oid)]] : [],
      ),
    ),
  };
}

/** Removes those of tables that are no members any more, or all of them. Returns whether none is left. */
export async function stopRecording({ owner }: FeatureContext, which: 'strangers' | 'all'): Promise<boolean> {
  const found = await owner.query<{ schema: string; name: string }>(sql`
    select n.nspname as schema, c.relname as name from pg_trigger t join pg_class c on c.oid = t.tgrelid
      join pg_namespace n on n.oid = c.relnamespace
    where t.tgname = ${TRIGGER} and t.tgparentid = 0 and (${which === 'all'} or not exists (
      select from pg_publication p join pg_publication_rel m on m.prpubid = p.oid
      where p.pubname = 'svc_realtime' and m.prrelid = c.oid))`);
  let left = found.length;
  for (const { schema, name } of found) {
    try {
      await owner.transaction(async (db) => {
        await db.query(raw(`set local lock_timeout = ${LOCK_TIMEOUT_MS}`));
        await db.query(sql`drop trigger if exists ${ident(TRIGGER)} on ${ident(schema, name)}`);
      });
      left -= 1;
    } catch {
      // In use: tried again later.
    }
  }
  return left === 0;
}

/** Whether some instance has read by triggers lately. */
export async function isReadLately({ owner }: FeatureContext, withinMs: number): Promise<boolean> {
  const readers = await owner.query(sql`
    select from realtime.change_reader
    where seen_at > clock_timestamp() - make_interval(secs => ${withinMs}::float8 / 1000)`);
  return readers.length > 0;
}

/** Whether the write-ahead log could be read, as far as that can be known without trying. */
export async function mayReadLog({ owner }: FeatureContext): Promise<boolean> {
  const [row] = await owner.query<{ may: boolean }>(sql`
    select current_setting('wal_level') = 'logical' and exists (select from pg_roles r
      where case r.rolname when current_user then r.rolreplication or r.rolsuper
        when 'rds_replication' then pg_has_role(r.oid, 'usage') end) as may`);
  return row?.may === true;
}
