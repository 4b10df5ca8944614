// Pulls databases of many kinds. The pulled file has an empty plan, and builds the same in an empty database.
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { ownershipTaker } from '../../../src/migrate/apply/transfer-ownership.ts';
import { migrationPolicy } from '../../../src/migrate/apply/policy.ts';
import { renderPulled } from '../../../src/migrate/commands/pull.ts';
import { readUndeclaredObjects } from '../../../src/migrate/commands/undeclared-objects.ts';
import { readLive } from '../../../src/migrate/schema/live/read-live.ts';
import { OwnerDatabase } from '../../../src/postgres/owner-database.ts';
import { parseAddress } from '../../../src/postgres/address/parse-address.ts';
import { aWorld, type World } from '../world.ts';
import { MORE_PROFILES } from './more-profiles.ts';
import { PROFILES, type Profile } from './profiles.ts';
import { scaled } from '../../support/run/scaled.ts';

vi.setConfig({ testTimeout: scaled(120_000) });

/** Grants of new tables in a Supabase project. */
const OPEN = `grant all on all tables in schema public to anon, authenticated, service_role;
  grant all on all sequences in schema public to anon, authenticated, service_role`;

const APP = `svc_test_profile_${process.pid}`;

/** Describes all objects that a file can declare, without labels and positions. $1: schemas. */
const CATALOG = `
  with c as (select c.oid::regclass::text as name, c.* from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = any ($1) and c.relkind in ('r', 'v', 'm', 'p')
      and not exists (select from pg_depend d
        where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e'))
  select 'column ' || name || ' ' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || ' '
    || a.attnotnull || a.attidentity::text || a.attgenerated::text
    || coalesce(' ' || nullif(a.attcollation, t.typcollation)::regcollation, '')
      || coalesce(' ' || regexp_replace(pg_get_expr(d.adbin, d.adrelid), '^nextval.*', 'nextval'), '')
        || coalesce(' -- ' || col_description(c.oid, a.attnum), '') as line
    from c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
      join pg_type t on t.oid = a.atttypid left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
  union all select 'constraint ' || name || ' '
    || replace(pg_get_constraintdef(k.oid), ' ON DELETE RESTRICT', '')
    from c join pg_constraint k on k.conrelid = c.oid and k.contype in ('c', 'f', 'p')
  union all select 'index ' || name || ' '
    || regexp_replace(pg_get_indexdef(i.indexrelid), 'INDEX .* ON', 'INDEX ON') || i.indimmediate
    from c join pg_index i on i.indrelid = c.oid
  union all select 'policy ' || name || ' ' || p.polcmd::text || p.polpermissive
    || coalesce(pg_get_expr(p.polqual, p.polrelid), '')
      || coalesce(nullif(pg_get_expr(p.polwithcheck, p.polrelid), pg_get_expr(p.polqual, p.polrelid)), '')
    from c join pg_policy p on p.polrelid = c.oid
  union all select 'trigger ' || name || ' '
    || regexp_replace(pg_get_triggerdef(t.oid), 'TRIGGER \\S+ ', '') || t.tgenabled::text
    from c join pg_trigger t on t.tgrelid = c.oid and not t.tgisinternal
  union all select 'view ' || name || ' ' || pg_get_viewdef(c.oid)
    || coalesce(
      replace(array_to_string(array_remove(c.reloptions, 'security_invoker=false'), ','), '=on', '=true'), '')
    from c where relkind = 'v'
  union all select 'relation ' || name || ' ' || relrowsecurity
    || case when relkind = 'r' then relpersistence::text || coalesce(reloptions::text, '') else '' end
    || coalesce(obj_description(c.oid, 'pg_class'), '') from c
  union all select 'partitions ' || name || coalesce(pg_get_partkeydef(oid), '')
    || coalesce(pg_get_expr(relpartbound, oid), '') from c where relkind in ('r', 'p')
  union all select 'function '
    || regexp_replace(pg_get_functiondef(p.oid), '\\s+(\\$(function|procedure)\\$\\s*)$', '\\1')
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where n.nspname = any ($1) and p.prokind in ('f', 'p')
    and not exists (select from pg_depend d
      where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype in ('e', 'i'))
  union all select 'rule ' || pg_get_ruledef(r.oid) || r.ev_enabled::text
    || coalesce(obj_description(r.oid, 'pg_rewrite'), '')
    from c join pg_rewrite r on r.ev_class = c.oid and r.rulename <> '_RETURN'
  union all select 'statistics ' || pg_get_statisticsobjdef(s.oid)
    || coalesce(nullif(to_jsonb(s) ->> 'stxstattarget', '-1'), '')
    from c join pg_statistic_ext s on s.stxrelid = c.oid
  union all select 'aggregate ' || p.oid::regprocedure
    || (to_jsonb(a) - 'aggfnoid' - 'aggtranstype' - 'aggmtranstype' - 'aggsortop')::text
    || a.aggsortop::regoperator || a.aggtranstype::regtype || p.proparallel::text || p.provariadic::regtype
    || coalesce(obj_description(p.oid, 'pg_proc'), '')
    from pg_proc p join pg_aggregate a on a.aggfnoid = p.oid join pg_namespace n on n.oid = p.pronamespace
      where n.nspname = any ($1)
  union all select 'range ' || r.rngtypid::regtype || r.rngsubtype::regtype || r.rngmultitypid::regtype
    || r.rngsubdiff || r.rngcollation::regcollation || coalesce(obj_description(t.oid, 'pg_type'), '')
    from pg_range r join pg_type t on t.oid = r.rngtypid join pg_namespace n on n.oid = t.typnamespace
    where n.nspname = any ($1)
  union all select 'operator ' || o.oid::regoperator || o.oprcode || o.oprcom::regoperator
    || o.oprnegate::regoperator || o.oprrest || o.oprjoin
    from pg_operator o join pg_namespace n on n.oid = o.oprnamespace where n.nspname = any ($1)
  union all select 'cast ' || castsource::regtype || ' ' || casttarget::regtype || castfunc::regprocedure
    || castcontext::text || castmethod::text from pg_cast where oid >= 16384
  union all select 'collation ' || (to_jsonb(k) - 'oid' - 'collnamespace' - 'collowner')::text
    from pg_collation k join pg_namespace n on n.oid = k.collnamespace where n.nspname = any ($1)
  union all select 'dictionary ' || d.oid::regdictionary || d.dictinitoption
    from pg_ts_dict d join pg_namespace n on n.oid = d.dictnamespace where n.nspname = any ($1)
  union all select 'configuration ' || f.oid::regconfig || m.maptokentype || ' ' || m.mapseqno
    || m.mapdict::regdictionary from pg_ts_config f join pg_ts_config_map m on m.mapcfg = f.oid
    join pg_namespace n on n.oid = f.cfgnamespace where n.nspname = any ($1)
  union all select 'sequence ' || s.seqrelid::regclass || ' ' || (to_jsonb(s) - 'seqrelid')::text
    || coalesce(obj_description(s.seqrelid, 'pg_class'), '')
    from pg_sequence s join pg_class q on q.oid = s.seqrelid join pg_namespace n on n.oid = q.relnamespace
    where n.nspname = any ($1)
    and not exists (select from pg_depend d
      where d.classid = 'pg_class'::regclass and d.objid = q.oid and d.deptype in ('a', 'i'))
  union all select 'type ' || t.oid::regtype || ' '
    || coalesce((select string_agg(e.enumlabel, ',' order by e.enumsortorder) from pg_enum e
    where e.enumtypid = t.oid), '')
      || coalesce((select string_agg(pg_get_constraintdef(k.oid), ',' order by pg_get_constraintdef(k.oid))
        from pg_constraint k where k.contypid = t.oid and k.contype = 'c'), '')
      || coalesce((select string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), ','
        order by a.attnum) from pg_attribute a where a.attrelid = t.typrelid), '')
    from pg_type t join pg_namespace n on n.oid = t.typnamespace left join pg_class r on r.oid = t.typrelid
    where n.nspname = any ($1) and t.typtype in ('e', 'd', 'c') and coalesce(r.relkind, 'c') = 'c'
  order by 1`;

/** Rights of the API roles. */
const RIGHTS = `select c.oid::regclass::text || ' ' || r || ' ' || p as line
  from pg_class c join pg_namespace n on n.oid = c.relnamespace,
    unnest(array['anon', 'authenticated', 'service_role']) r, unnest(array['select', 'insert', 'update', 'delete']) p
  where n.nspname = any ($1) and c.relkind in ('r', 'v', 'm', 'p') and not c.relispartition
    and has_table_privilege(r, c.oid, p) and (c.relkind <> 'm' or p = 'select')
    and has_schema_privilege(r, n.oid, 'usage')
  union all select c.oid::regclass::text || ' ' || r || ' usage'
    from pg_class c join pg_namespace n on n.oid = c.relnamespace,
    unnest(array['anon', 'authenticated', 'service_role']) r
  where n.nspname = any ($1) and c.relkind = 'S' and has_sequence_privilege(r, c.oid, 'usage')
    and not exists (select from pg_depend d
      where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype in ('a', 'i'))
  union all select p.oid::regprocedure || ' ' || r || ' execute' from pg_proc p
    join pg_namespace n on n.oid = p.pronamespace, unnest(array['anon', 'authenticated', 'service_role']) r
  where n.nspname = any ($1) and p.prokind = 'a' and has_function_privilege(r, p.oid, 'execute')
  union all select c.oid::regclass::text || '.' || a.attname || ' ' || r || ' update'
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    join pg_attribute a on a.attrelid = c.oid and a.attacl is not null, unnest(array['anon', 'authenticated']) r
  where n.nspname = any ($1) and has_column_privilege(r, c.oid, a.attnum, 'update') order by 1`;

let world: World;
let empty: World;
beforeAll(async () => {
  world = await aWorld();
  empty = await aWorld();
  await world.sql(`create role ${APP}`);
});
afterAll(async () => {
  await world.sql(`drop owned by ${APP} cascade; drop role ${APP}`);
  await world.close();
  await empty.close();
});

async function begin(where: World, { prepare, schemas = [] }: Profile): Promise<void> {
  await where.empty();
  for (const schema of schemas) await where.sql(`drop schema if exists ${schema} cascade`);
  await where.sql('create schema if not exists extensions');
  await where.sql('grant usage on schema extensions to public');
  if (prepare !== undefined) await where.sql(prepare);
}

async function pull({ schemas = [] }: Profile): Promise<string> {
  const all = ['public', ...schemas];
  const [live, left] = await world.owner.session(
    async (session) => [await readLive(session, all), await readUndeclaredObjects(session, all)] as const,
  );
  return renderPulled(live, () => true, { storage: {}, realtime: {}, omitted: left }).replace(
    'version: 1\n',
    '',
  );
}

/** Returns the lines of comments that list omitted objects. */
function leftIn(text: string): string[] {
  return text
    .split('\n')
    .filter((line) => /^ *#    ?\S/.test(line))
    .map((line) => line.replace(/^ *# */, ''));
}

const lines = async (where: World, query: string, profile: Profile): Promise<string[]> =>
  (await where.sql(query, [['public', ...(profile.schemas ?? [])]]))
    .map((row) => String(row['line']).replaceAll(/\( SELECT (auth\.(?:uid|role)\(\)) AS \w+\)/g, '$1'))
    .filter((line) => !profile.left.some((pattern) => pattern.test(line)));

describe.each([...PROFILES, ...MORE_PROFILES])('$name', (profile) => {
  test('is pulled with an empty plan, and built again from the file', async () => {
    await begin(world, profile);
    await world.sql(`grant create on database ${new URL(world.url).pathname.slice(1)} to ${APP};
      grant create, usage on schema public, extensions to ${APP};
      grant ${APP} to svc_owner; grant usage on schema auth to ${APP}; grant references on auth.users to ${APP}`);
    await world.sql(`begin; set local role ${APP}; ${profile.sql}; ${profile.grants ?? OPEN}; commit`);
    const before = [await lines(world, CATALOG, profile), await lines(world, RIGHTS, profile)];
    const text = await pull(profile);
    const left = leftIn(text);
    expect.soft(left.length, left.join('\n')).toBe(profile.left.length);
    for (const what of profile.left)
      expect
        .soft(
          left.some((line) => what.test(line)),
          `${what} in ${left.join(' | ')}`,
        )
        .toBe(true);
    const administrator = new OwnerDatabase({
      address: parseAddress(world.url),
      applicationName: 'svc-test',
      max: 1,
      idleTimeoutMs: 5_000,
    });
    try {
      const outcome = await world.apply(
        text,
        {},
        { ownership: ownershipTaker(administrator, migrationPolicy()) },
      );
      const problems = outcome.kind === 'refused' ? outcome.problems.map(({ message }) => message) : [];
      expect(problems, text).toEqual([]);
      const changes = outcome.kind === 'applied' ? outcome.plan.steps.map(({ sql }) => sql) : [];
      expect
        .soft(changes.filter((change) => !/^(grant|revoke) .* (function|procedure|schema)/i.test(change)))
        .toEqual([]);
    } finally {
      await administrator.close();
    }
    expect((await world.plan(text)).steps.map(({ sql }) => sql)).toEqual([]);
    const after = [await lines(world, CATALOG, profile), await lines(world, RIGHTS, profile)];
    expect.soft(after).toEqual(before);
    await begin(empty, { ...profile, prepare: undefined });
    await empty.settle(text);
    expect.soft([await lines(empty, CATALOG, profile), await lines(empty, RIGHTS, profile)]).toEqual(after);
  });
});
