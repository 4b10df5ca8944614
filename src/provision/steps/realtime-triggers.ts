// Tables for changes on servers whose write-ahead log is not readable. svc creates the triggers on published tables
// when it runs on such a server. `realtime.changes` contains rows before and after a change, as text. It is unlogged,
// because clients reload after a crash of PostgreSQL. `realtime.change_reader` marks an active reader. Without an
// active reader no changes are recorded, so that the table does not grow while svc is stopped.
import type { ProvisionStep } from './step.ts';

export const realtimeTriggers: ProvisionStep = {
  id: 'realtime-2',
  sql: `
create unlogged table realtime.changes (
  id bigint generated always as identity,
  xid xid8 not null default pg_current_xact_id(),
  relation oid not null,
  kind text not null,
  columns text[] not null,
  new text,
  old text,
  at timestamptz not null default clock_timestamp()
);
create index changes_xid on realtime.changes (xid, id);

create unlogged table realtime.change_reader (
  is_one boolean primary key default true check (is_one),
  seen_at timestamptz not null
);

revoke all on realtime.changes, realtime.change_reader from public;

create function realtime.record_change() returns trigger
language plpgsql security definer
set timezone to utc set datestyle to iso set intervalstyle to postgres set bytea_output to hex
set extra_float_digits to 1 set search_path = '' as $$
begin
  if not exists (select from realtime.change_reader r where r.seen_at > clock_timestamp() - interval '10 minutes') then
    return null;
  end if;
  -- Generated columns are named '': some have no value here, so that they are read from the table.
  insert into realtime.changes (relation, kind, columns, new, old) values (
    coalesce(pg_partition_root(tg_relid), tg_relid), lower(tg_op),
    array(select case when a.attgenerated = '' then a.attname::text else '' end from pg_catalog.pg_attribute a
      where a.attrelid = tg_relid and a.attnum > 0 and not a.attisdropped order by a.attnum),
    case when tg_op <> 'DELETE' then new::text end, case when tg_op <> 'INSERT' then old::text end);
  return null;
end $$;
revoke execute on function realtime.record_change() from public;
`,
};
