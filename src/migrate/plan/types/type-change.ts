// Catalog facts about a column whose type changes online: properties that would be lost with the old column,
// statements that restore properties, and the progress of an earlier run.
import type { Queryable } from '../../../postgres/owner-database.ts';
import { ON_UPDATE } from '../../schema/row-triggers.ts';
import { quoteIdent, quoteLiteral, sql } from '../../../postgres/sql.ts';
import { removedKey, type RemovedObject } from '../../change/trait-types.ts';
import { removedKeys } from '../../change/traits.ts';
import type { Change, TypeChange } from '../../diff/change.ts';
import { ofKind } from '../../diff/change-kinds.ts';
import type { LiveTable } from '../../schema/live/live-schema.ts';
import { isTransient, REFERENCE_PREFIX } from '../../schema/label.ts';
import { objectKey, quoteName } from '../../schema/model.ts';
import { isPlainKey } from '../../schema/relation.ts';
import { alterColumn } from '../step-list.ts';

export type ColumnFacts = {
  /** Reasons why the change cannot run online. Empty if it can. */
  readonly inTheWay: readonly string[];
  /** Statements that restore comment, grants and statistics after the new column has its final name. */
  readonly restore: readonly string[];
  readonly identity: Identity | null;
  /** The shadow column and its trigger exist. */
  readonly begun: boolean;
  /** The check on the shadow column is valid. */
  readonly proven: boolean;
};

export type Identity = {
  readonly kind: 'always' | 'by default';
  /** `sequence name … increment by …`, as in the GENERATED clause. */
  readonly options: string;
  readonly sequence: string;
  readonly schema: string;
};

/** Sorts after the usual trigger names, so that the trigger sees the changes of other triggers. */
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
      array(select o from unnest(a.attoptions) o where o ~ '^n_distinct(_inherited)?=') as options,
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
  const plan = { changes, removed: removedKeys(changes) };
  const unhandled = dependants.filter((dependant) => !isHandled(dependant, change, plan));
  inTheWay.push(...unhandled.map(({ what }) => `${what} uses it`));
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
  /** `schema.table` of the object. */
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

/**
 * Returns whether the plan recreates the object for the new column, or PostgreSQL moves it. `removed`: `removedKeys`.
 */
function isHandled(
  dependant: Dependant,
  { live, liveColumn }: TypeChange & { readonly live: LiveTable },
  { changes, removed }: { readonly changes: readonly Change[]; readonly removed: ReadonlySet<string> },
): boolean {
  const { class: catalog, kind, oid } = dependant;
  const label = dependant.label ?? '';
  const home = dependant.home ?? '';
  const isHere = home === objectKey(live);
  const isRemoved = (what: RemovedObject['kind']): boolean =>
    removed.has(removedKey({ kind: what, table: home, label }));
  switch (catalog) {
    // Views are rejected with a separate error.
    case 'pg_rewrite':
      return true;
    case 'pg_proc':
      return removed.has(removedKey({ kind: 'body', table: '', label: oid }));
    case 'pg_attrdef':
      return dependant.own;
    case 'pg_policy':
      return isRemoved('policy');
    case 'pg_trigger':
      return (label.startsWith(REFERENCE_PREFIX) && isHere) || isRemoved('trigger');
    case 'pg_class': {
      if (kind === 'S') return liveColumn.serial;
      const index = isHere ? live.indexes.find((found) => found.label === label) : undefined;
      return isTransient(label) || (index !== undefined && isPlain(index)) || isRemoved('index');
    }
    case 'pg_constraint':
      if (isTransient(label) || kind === 'n') return true;
      if (kind === 'c') return isRemoved('check');
      if (kind === 'f') {
        const isRetired = ofKind(changes, 'retire-table').some((change) => objectKey(change.live) === home);
        return isRetired || isRemoved('foreign key');
      }
      if (kind === 'x') return isRemoved('exclusion');
      return (
        isRemoved('key') || live.keys.some((key) => key.label === label && isPlainKey(key) && !dependant.odd)
      );
    case 'pg_statistic_ext':
      return ofKind(changes, 'recreate-statement').some(
        (change) => change.live.address === `${catalog}/${oid}`,
      );
    default:
      return false;
  }
}

/** Returns whether the columns describe the index completely. */
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
  const relation = quoteName(table);
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
