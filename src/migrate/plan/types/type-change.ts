// What the catalog says about a column whose type is to change online: what would be lost with the old column, what the
// new one must be given again, and how far an earlier run got.
import type { Queryable } from '../../../postgres/owner-database.ts';
import { ON_UPDATE } from '../../schema/row-triggers.ts';
import { quoteIdent, quoteLiteral, sql } from '../../../postgres/sql.ts';
import type { Change, TypeChange } from '../../diff/change.ts';
import { type Dropped, droppedBy, releasedBy } from '../../diff/dropped.ts';
import type { LiveTable } from '../../schema/live/live-schema.ts';
import { isTransient, REFERENCE_PREFIX } from '../../schema/label.ts';
import { keyOf, nameOf } from '../../schema/model.ts';
import { isPlainKey } from '../../schema/relation.ts';
import { alterColumn } from '../step-list.ts';

export type ColumnFacts = {
  /** What the new column could not get back; empty when the change can be made online. */
  readonly inTheWay: readonly string[];
  /** Statements that give the new column, under its final name, the old one's comment, grants and statistics. */
  readonly restore: readonly string[];
  readonly identity: Identity | null;
  /** The shadow column and its trigger exist. */
  readonly begun: boolean;
  /** Every row is proven to have its value. */
  readonly proven: boolean;
};

export type Identity = {
  readonly kind: 'always' | 'by default';
  /** `sequence name … increment by …`, as the clause of GENERATED takes it. */
  readonly options: string;
  readonly sequence: string;
  readonly schema: string;
};

/** Sorts after the usual names of triggers: it must see the row as the others leave it. */
export function copyTrigger(shadowColumn: string): string {
  return `~${shadowColumn}`;
}

export async function readColumnFacts(
  session: Queryable,
  change: TypeChange & { readonly live: LiveTable },
  changes: readonly Change[],
  shadow: { readonly column: string; readonly proof: string },
  mayQuiet: boolean,
): Promise<ColumnFacts> {
  const { live, liveColumn } = change;
  const dependants = await session.query<Dependant>(sql`${DEPENDANTS}
    where d.refclassid = 'pg_class'::regclass and d.refobjid = ${live.oid}::oid and d.refobjsubid = ${liveColumn.number}`);
  const [column] = await session.query<ColumnRow>(sql`
    select a.attidentity as identity, col_description(a.attrelid, a.attnum) as comment,
      coalesce((select jsonb_agg(jsonb_build_object('privilege', lower(x.privilege_type),
          'to', case when x.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(x.grantee)) end
            || case when x.is_grantable then ' with grant option' else '' end)) from aclexplode(a.attacl) x), '[]') as grants,
      case when a.attstattarget >= 0 then a.attstattarget::int end as statistics,
      array(select o from unnest(a.attoptions) o) as options,
      exists (select from pg_attribute b where b.attrelid = a.attrelid and b.attname = ${shadow.column} and not b.attisdropped) as begun,
      exists (select from pg_constraint k where k.conrelid = a.attrelid and k.conname = ${shadow.proof} and k.convalidated) as proven
    from pg_attribute a where a.attrelid = ${live.oid}::oid and a.attnum = ${liveColumn.number}`);
  const triggers = await session.query<{ name: string; late: boolean }>(sql`
    select t.tgname as name, not fires as late from (
      select t.tgname, t.tgtype & 16 <> 0 and t.tgenabled = any (${mayQuiet ? ['A', 'R'] : ['A', 'O']}) as fires,
        t.tgtype & 3 = 3 and t.tgtype & 20 <> 0 and t.tgenabled in ('O', 'A') and t.tgname collate "C" > ${copyTrigger(shadow.column)} as late
      from pg_trigger t where t.tgrelid = ${live.oid}::oid and not t.tgisinternal
        and t.tgname <> ${ON_UPDATE} and t.tgname not like 'svc\\_ref\\_%' and t.tgname not like '~svc\\_n\\_%' and t.tgname <> '~svc_realtime') t
    where fires or late order by 1`);
  const [table] = await session.query<{ inherits: boolean; replica: boolean }>(sql`
    select exists (select from pg_inherits i where c.oid in (i.inhrelid, i.inhparent)) as inherits,
      c.relreplident = 'i' as replica from pg_class c where c.oid = ${live.oid}::oid`);
  const inTheWay: string[] = [];
  if (live.partitioning !== null || table?.inherits) inTheWay.push('the table is partitioned or inherits');
  if (table?.replica) inTheWay.push('an index is its replica identity');
  if (liveColumn.generated) inTheWay.push('the column is generated');
  for (const one of triggers) {
    inTheWay.push(
      one.late
        ? `the trigger ${one.name} would run after the copy and could change the row again`
        : `the trigger ${one.name} would fire for each row of the fill${mayQuiet ? '' : ', and svc_owner may not keep it quiet (as superuser: grant set on parameter session_replication_role to svc_owner)'}`,
    );
  }
  for (const one of dependants) if (!isHandled(one, change, changes)) inTheWay.push(`${one.what} uses it`);
  return {
    inTheWay,
    restore: column ? restoreOf(column, change) : [],
    identity:
      column && column.identity !== ''
        ? await readIdentity(session, live.oid, liveColumn.number, column)
        : null,
    begun: column?.begun ?? false,
    proven: column?.proven ?? false,
  };
}

type Dependant = {
  class: string;
  oid: string;
  what: string;
  label: string | null;
  /** `schema.table` the object belongs to. */
  home: string | null;
  kind: string | null;
  own: boolean;
  odd: boolean;
};

const DEPENDANTS = sql`
  select distinct d.classid::regclass::text as class, d.objid::text as oid, pg_describe_object(d.classid, d.objid, d.objsubid) as what,
    coalesce(k.conname, ic.relname, p.polname, t.tgname)::text as label, hn.nspname || '.' || h.relname as home,
    coalesce(k.contype::text, ic.relkind::text) as kind, coalesce(f.adrelid = d.refobjid and f.adnum = d.refobjsubid, false) as own,
    coalesce(ki.indnkeyatts <> ki.indnatts or coalesce((to_jsonb(ki) ->> 'indnullsnotdistinct')::boolean, false), false) as odd
  from pg_depend d
  left join pg_constraint k on d.classid = 'pg_constraint'::regclass and k.oid = d.objid
  left join pg_index ki on ki.indexrelid = k.conindid and k.contype in ('p', 'u')
  left join pg_class ic on d.classid = 'pg_class'::regclass and ic.oid = d.objid
  left join pg_index i on i.indexrelid = ic.oid
  left join pg_policy p on d.classid = 'pg_policy'::regclass and p.oid = d.objid
  left join pg_trigger t on d.classid = 'pg_trigger'::regclass and t.oid = d.objid
  left join pg_attrdef f on d.classid = 'pg_attrdef'::regclass and f.oid = d.objid
  left join pg_class h on h.oid = coalesce(k.conrelid, i.indrelid, p.polrelid, t.tgrelid)
  left join pg_namespace hn on hn.oid = h.relnamespace`;

/** Whether the plan makes it again for the new column, or PostgreSQL moves it along. */
function isHandled(
  one: Dependant,
  { live, liveColumn }: TypeChange & { readonly live: LiveTable },
  changes: readonly Change[],
): boolean {
  const label = one.label ?? '';
  const here = one.home === keyOf(live);
  const isDropped = (kind: Dropped['kind']): boolean =>
    changes
      .map(droppedBy)
      .some((gone) => gone?.kind === kind && gone.table === one.home && gone.label === label);
  switch (one.class) {
    // Views are refused with an error of their own.
    case 'pg_rewrite':
      return true;
    case 'pg_proc':
      return changes.some((change) => releasedBy(change)?.oid === one.oid);
    case 'pg_attrdef':
      return one.own;
    case 'pg_policy':
      return isDropped('policy');
    case 'pg_trigger':
      return (label.startsWith(REFERENCE_PREFIX) && here) || isDropped('trigger');
    case 'pg_class': {
      if (one.kind === 'S') return liveColumn.serial;
      const index = here ? live.indexes.find((found) => found.label === label) : undefined;
      return isTransient(label) || (index !== undefined && isPlain(index)) || isDropped('index');
    }
    case 'pg_constraint':
      if (isTransient(label) || one.kind === 'n') return true;
      if (one.kind === 'c') return isDropped('check');
      if (one.kind === 'f') {
        const isRetired = changes.some(
          (change) => change.kind === 'retire-table' && keyOf(change.live) === one.home,
        );
        return isRetired || isDropped('foreign key');
      }
      if (one.kind === 'x') return isDropped('index');
      return isDropped('key') || live.keys.some((key) => key.label === label && isPlainKey(key) && !one.odd);
    case 'pg_statistic_ext':
      return changes.some(
        (change) => change.kind === 'recreate-statement' && change.live.address === `${one.class}/${one.oid}`,
      );
    default:
      return false;
  }
}

/** An index fully described by its columns. */
export function isPlain(index: LiveTable['indexes'][number]): boolean {
  return index.valid && index.plain && index.predicate === null;
}

type ColumnRow = {
  identity: string;
  comment: string | null;
  grants: { privilege: string; to: string }[];
  statistics: number | null;
  options: string[];
  begun: boolean;
  proven: boolean;
};

function restoreOf(row: ColumnRow, { table, column }: TypeChange): string[] {
  const relation = nameOf(table);
  const name = quoteIdent(column.name);
  const alter = alterColumn(table, column);
  return [
    ...(row.comment === null
      ? []
      : [`comment on column ${relation}.${name} is ${quoteLiteral(row.comment)}`]),
    ...row.grants.map(({ privilege, to }) => `grant ${privilege} (${name}) on ${relation} to ${to}`),
    ...(row.statistics === null ? [] : [`${alter} set statistics ${row.statistics}`]),
    ...(row.options.length === 0 ? [] : [`${alter} set (${row.options.join(', ')})`]),
  ];
}

async function readIdentity(
  session: Queryable,
  oid: string,
  number: number,
  column: ColumnRow,
): Promise<Identity | null> {
  const [row] = await session.query<{ schema: string; sequence: string; options: string }>(sql`
    select n.nspname as schema, c.relname as sequence,
      format('sequence name %I.%I start with %s increment by %s cache %s %s%s', n.nspname, c.relname, s.seqstart, s.seqincrement, s.seqcache,
        case when s.seqcycle then 'cycle' else 'no cycle' end,
        case when s.seqmax in (32767, 2147483647, 9223372036854775807) then '' else ' maxvalue ' || s.seqmax end) as options
    from pg_depend d join pg_class c on c.oid = d.objid and c.relkind = 'S' join pg_namespace n on n.oid = c.relnamespace
    join pg_sequence s on s.seqrelid = c.oid
    where d.classid = 'pg_class'::regclass and d.refclassid = 'pg_class'::regclass and d.refobjid = ${oid}::oid
      and d.refobjsubid = ${number} and d.deptype = 'i'`);
  return row ? { ...row, kind: column.identity === 'a' ? 'always' : 'by default' } : null;
}
