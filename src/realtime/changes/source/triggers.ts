// Row triggers on the published tables and on `realtime.messages`. They exist only while an instance reads changes from
// them.
import type { FeatureContext } from '../../../http/feature.ts';
import { IS_PUBLISHED } from '../../../postgres/replication/suppressed-changes.ts';
import { ident, raw, sql } from '../../../postgres/sql.ts';

/** Migrations skip names with this prefix. Triggers fire in the order of their names, so this trigger fires last. */
const TRIGGER = '~svc_realtime';
/** A statement that waits for the lock of a table blocks all later statements on it. */
const LOCK_TIMEOUT_MS = 300;

/** Table of the publication. */
export type Recorded = {
  readonly oid: string;
  readonly schema: string;
  readonly name: string;
  readonly identity: string;
  readonly key: readonly string[];
};

/** `trigger`: oid of the trigger. */
type Member = Recorded & { readonly trigger: string | null };

export type Recording = {
  /** Keyed by oid. */
  readonly tables: ReadonlyMap<string, Recorded>;
  /** Oids of triggers by oid of their table. A new oid means that changes before it were not recorded. */
  readonly triggers: ReadonlyMap<string, string>;
  /** Errors by name of the table whose trigger could not be created. */
  readonly failed: ReadonlyMap<string, unknown>;
};

const MEMBERS = sql`
select c.oid::text as oid, n.nspname as schema, c.relname as name, c.relreplident::text as identity,
  (select coalesce(json_agg(a.attname), '[]') from pg_index i join pg_attribute a
    on a.attrelid = c.oid and a.attnum = any (i.indkey::int2[]) where i.indrelid = c.oid and i.indisprimary) as key,
  (select t.oid::text from pg_trigger t where t.tgrelid = c.oid and t.tgname = ${TRIGGER}) as trigger
from pg_publication p join pg_publication_rel m on m.prpubid = p.oid join pg_class c on c.oid = m.prrelid
  join pg_namespace n on n.oid = c.relnamespace where p.pubname = 'svc_realtime'`;

/** Creates missing triggers. Another instance may do so at the same time. */
export async function recordMembers({ owner }: FeatureContext): Promise<Recording> {
  let members = await owner.query<Member>(MEMBERS);
  const faults = new Map<string, unknown>();
  const missing = members.filter(({ trigger }) => trigger === null);
  for (const { oid, schema, name } of missing) {
    const table = ident(schema, name);
    // Rows with a later date probe rights and are rolled back.
    const clause =
      schema === 'realtime'
        ? raw(`after insert on realtime.messages for each row when (new.inserted_at < '9000-01-01')`)
        : sql`after insert or update or delete on ${table} for each row when (${IS_PUBLISHED})`;
    try {
      await owner.transaction(async (db) => {
        await db.query(raw(`set local lock_timeout = ${LOCK_TIMEOUT_MS}`));
        await db.query(
          sql`create or replace trigger ${ident(TRIGGER)} ${clause} execute function realtime.record_change()`,
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

/** Drops the triggers of tables that are not published, or all triggers. Returns true when none is left. */
export async function stopRecording(
  { owner }: FeatureContext,
  selection: 'nonMembers' | 'all',
): Promise<boolean> {
  const found = await owner.query<{ schema: string; name: string }>(sql`
    select n.nspname as schema, c.relname as name from pg_trigger t join pg_class c on c.oid = t.tgrelid
      join pg_namespace n on n.oid = c.relnamespace
    where t.tgname = ${TRIGGER} and t.tgparentid = 0 and (${selection === 'all'} or not exists (
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
      // The table is in use. The next call tries again.
    }
  }
  return left === 0;
}

/** Returns whether an instance has read recorded changes within that time. */
export async function hasActiveReader({ owner }: FeatureContext, withinMs: number): Promise<boolean> {
  const readers = await owner.query(sql`
    select from realtime.change_reader
    where seen_at > clock_timestamp() - make_interval(secs => ${withinMs}::float8 / 1000)`);
  return readers.length > 0;
}

/** Returns whether the settings and the role allow reading the write-ahead log. */
export async function canReadWal({ owner }: FeatureContext): Promise<boolean> {
  const [row] = await owner.query<{ may: boolean }>(sql`
    select current_setting('wal_level') = 'logical' and exists (select from pg_roles r
      where case r.rolname when current_user then r.rolreplication or r.rolsuper
        when 'rds_replication' then pg_has_role(r.oid, 'usage') end) as may`);
  return row?.may === true;
}
