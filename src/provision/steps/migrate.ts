// State of the migration engine: `object` contains owned objects, `run` and `step` the history, and `stamp` the applied
// file, for a fast start without changes. The API roles have no access.
import type { ProvisionStep } from './step.ts';

export const migrationState: ProvisionStep = {
  id: 'migrate-1',
  sql: `
create table svc_meta.run (
  id bigint generated always as identity primary key,
  kind text not null check (kind in ('apply', 'adopt', 'prune', 'down')),
  status text not null check (status in ('running', 'done', 'failed', 'interrupted', 'refused')),
  parent_hash text,
  schema_hash text not null,
  deploy_seq bigint,
  engine_version integer not null,
  model jsonb not null,
  instance text not null,
  backend_pid integer not null,
  started_at timestamptz not null default now(),
  finished_at timestamptz,
  error text
);
create index run_schema_hash on svc_meta.run (schema_hash, id);

create table svc_meta.step (
  run_id bigint not null references svc_meta.run (id) on delete cascade,
  ordinal integer not null,
  lane text not null,
  identity text not null,
  summary text not null,
  sql text not null,
  status text not null check (status in ('pending', 'running', 'done', 'failed', 'skipped')),
  duration_ms integer,
  error text,
  primary key (run_id, ordinal)
);

create table svc_meta.object (
  identity text primary key,
  kind text not null check (kind in ('table', 'column', 'function', 'storage_policies')),
  state text not null check (state in ('managed', 'retired')),
  declared_hash text,
  definition jsonb not null,
  run_id bigint,
  changed_at timestamptz not null default now()
);

create table svc_meta.stamp (
  one boolean primary key default true check (one),
  schema_hash text not null,
  catalog_stamp text not null,
  server_version integer not null,
  engine_version integer not null,
  complete boolean not null,
  applied_at timestamptz not null default now()
);

revoke all on svc_meta.run, svc_meta.step, svc_meta.object, svc_meta.stamp from public, anon, authenticated, service_role;
`,
};

/** Removes the list of object kinds, because the engine defines them and adds more. */
export const openObjectKinds: ProvisionStep = {
  id: 'migrate-3',
  sql: 'alter table svc_meta.object drop constraint object_kind_check',
};

/**
 * Stores the model of a run compressed. As `jsonb` it was the slowest statement of a small change to a large schema.
 */
export const packedRunModel: ProvisionStep = {
  id: 'migrate-2',
  sql: `
alter table svc_meta.run alter column model drop not null, add column model_gzip bytea,
  add constraint run_has_model check (num_nonnulls(model, model_gzip) = 1);
alter table svc_meta.run alter column model_gzip set storage external;
`,
};

/** Data steps that a database has run. Runs that prepare a data step are not targets of a rollback. */
export const dataStepLedger: ProvisionStep = {
  id: 'migrate-4',
  sql: `
create table svc_meta.data_step (
  name text primary key,
  hash text not null,
  state text not null check (state in ('done', 'skipped')),
  finished_at timestamptz not null default now()
);
revoke all on svc_meta.data_step from public, anon, authenticated, service_role;
alter table svc_meta.run drop constraint run_kind_check;
`,
};

/** Progress of data steps in batches. */
export const dataStepProgress: ProvisionStep = {
  id: 'migrate-5',
  sql: `
alter table svc_meta.data_step add column progress text, drop constraint data_step_state_check,
  add constraint data_step_state_check check (state in ('running', 'done', 'skipped'));
`,
};

/** Former names in the applied file. Instances with an older file know only these names. */
export const formerNames: ProvisionStep = {
  id: 'migrate-6',
  sql: `
create table svc_meta.rename (
  kind text not null check (kind in ('relation', 'routine')),
  schema_name text not null,
  of_name text not null,
  from_name text not null,
  to_name text not null
);
revoke all on svc_meta.rename from public, anon, authenticated, service_role;
`,
};

/**
 * `make_partitions` creates the partitions of a table from `first` (null means now) until `ahead` partitions after the
 * current one, and returns their number. Each covers `span` units and starts at a calendar boundary in UTC: `month` on
 * the first day, `week` on a Monday. Ranges that overlap another partition are skipped. `retire_partition` detaches a
 * partition and revokes all access to it.
 */
export const timedPartitions: ProvisionStep = {
  id: 'migrate-7',
  sql: `
create function svc_meta.make_partitions(parent regclass, unit text, span integer, ahead integer, first timestamptz) returns integer
language plpgsql set timezone to utc set datestyle to iso set search_path = '' as $$
declare
  step interval := (span || ' ' || unit)::interval;
  form text := case unit when 'year' then 'YYYY' when 'month' then 'YYYY_MM' when 'hour' then 'YYYY_MM_DD_HH24' else 'YYYY_MM_DD' end;
  schema_name text;
  table_name text;
  month integer;
  months integer := span * case unit when 'year' then 12 else 1 end;
  begin_at timestamptz := coalesce(first, now());
  end_at timestamptz;
  last timestamptz := greatest(now(), first) + ahead * step;
  name text;
  made integer := 0;
begin
  select n.nspname, c.relname into schema_name, table_name
    from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace where c.oid = parent;
  if unit in ('month', 'year') then
    month := extract(year from begin_at)::integer * 12 + extract(month from begin_at)::integer - 1;
    month := month - month % months;
    begin_at := make_timestamptz(month / 12, month % 12 + 1, 1, 0, 0, 0);
  else
    -- A Monday.
    begin_at := date_bin(step, begin_at, timestamptz '2001-01-01 00:00:00+00');
  end if;
  if extract(epoch from last - begin_at) / extract(epoch from step) > 2000 then
    raise invalid_table_definition using message = format('that would be %s partitions of %s', round(extract(epoch from last - begin_at) / extract(epoch from step)), parent),
      hint = 'Let each cover more time, or begin later.';
  end if;
  while begin_at <= last loop
    end_at := begin_at + step;
    if not exists (
      select from pg_catalog.pg_inherits i join pg_catalog.pg_class c on c.oid = i.inhrelid
        cross join lateral regexp_match(pg_get_expr(c.relpartbound, c.oid), '^FOR VALUES FROM [(](.*)[)] TO [(](.*)[)]$') as bound
      where i.inhparent = parent and bound is not null
        and (bound[1] = 'MINVALUE' or trim('''' from bound[1])::timestamptz < end_at)
        and (bound[2] = 'MAXVALUE' or trim('''' from bound[2])::timestamptz > begin_at)
    ) then
      name := table_name || '_' || to_char(begin_at, form);
      begin
        execute format('create table %I.%I partition of %s for values from (%L) to (%L)', schema_name, name, parent, begin_at, end_at);
        made := made + 1;
      exception
        -- Rows of that time are in the default partition, or something else is called so.
        when check_violation or duplicate_table then
          raise warning 'the partition % of % is not made: %', name, parent, sqlerrm;
      end;
    end if;
    begin_at := end_at;
  end loop;
  return made;
end $$;
revoke all on function svc_meta.make_partitions(regclass, text, integer, integer, timestamptz) from public, anon, authenticated, service_role;

create function svc_meta.retire_partition(parent regclass, part regclass) returns void
language plpgsql set search_path = '' as $$
declare
  label name;
begin
  execute format('alter table %s detach partition %s', parent, part);
  -- Rows nobody sees any more would block deletes elsewhere.
  for label in select k.conname from pg_catalog.pg_constraint k where k.conrelid = part and k.contype = 'f' loop
    execute format('alter table %s drop constraint %I', part, label);
  end loop;
  execute format('revoke all on %s from anon, authenticated, service_role, public', part);
end $$;
revoke all on function svc_meta.retire_partition(regclass, regclass) from public, anon, authenticated, service_role;
`,
};
