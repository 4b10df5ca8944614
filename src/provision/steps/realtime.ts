// The `realtime` schema. `realtime.messages` contains broadcasts that statements send. The migration engine creates its
// policies from `realtime.rls`. They decide who may use private channels. The table is partitioned by day, so that old
// messages are dropped and not deleted:
//
// - messages_<day>: today and some days ahead, created by `realtime.ensure_partitions`;
// - messages_default: messages of days without a partition;
// - messages_probe: rows for permission checks, always rolled back. Unlogged, so that they are never decoded.
//
// `realtime.overflow` carries broadcasts between instances that are too large for a notification.
import type { ProvisionStep } from './step.ts';

/** `inserted_at` of the rows for permission checks. */
export const PROBE_TIME = '9999-12-31T00:00:00Z';

export const realtimeSchema: ProvisionStep = {
  id: 'realtime-1',
  sql: `
grant usage on schema realtime to anon, authenticated, service_role, authenticator;

create table realtime.messages (
  id uuid not null default gen_random_uuid(),
  topic text not null,
  extension text not null,
  event text,
  payload jsonb,
  binary_payload bytea,
  private boolean not null default false,
  inserted_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  primary key (id, inserted_at)
) partition by range (inserted_at);
create index messages_topic on realtime.messages (topic, inserted_at desc) where private and extension = 'broadcast';
alter table realtime.messages enable row level security;
revoke all on realtime.messages from public;
grant select, insert on realtime.messages to anon, authenticated, service_role;

create table realtime.messages_default partition of realtime.messages default;
create unlogged table realtime.messages_probe partition of realtime.messages
  for values from ('9999-01-01 00:00:00+00') to (maxvalue);

create unlogged table realtime.overflow (
  id uuid primary key,
  at timestamptz not null default now(),
  body text not null
);

create function realtime.ensure_partitions(days integer) returns void
language plpgsql set timezone to utc set search_path = '' as $$
declare
  day date;
  name text;
begin
  for day in select (current_date + n)::date from generate_series(0, days) n loop
    name := 'messages_' || to_char(day, 'YYYY_MM_DD');
    if to_regclass('realtime.' || name) is not null then continue; end if;
    begin
      execute format('create table realtime.%I partition of realtime.messages for values from (%L) to (%L)',
        name, day || ' 00:00:00+00', (day + 1) || ' 00:00:00+00');
    exception
      -- Another instance was faster, or messages of that day are in the default partition already.
      when duplicate_table or check_violation then null;
    end;
  end loop;
end $$;
select realtime.ensure_partitions(7);

create function realtime.topic() returns text
language sql stable set search_path = '' as $$
  select nullif(current_setting('realtime.topic', true), '')
$$;

-- The policies of the caller apply, which may use realtime.topic().
create function realtime.store_message(topic text, event text, private boolean, payload jsonb, binary_payload bytea)
returns void language plpgsql set search_path = '' as $$
declare
  before text := coalesce(current_setting('realtime.topic', true), '');
begin
  perform set_config('realtime.topic', topic, true);
  insert into realtime.messages (topic, extension, event, private, payload, binary_payload)
    values (topic, 'broadcast', event, private, payload, binary_payload);
  perform set_config('realtime.topic', before, true);
end $$;

create function realtime.send(payload jsonb, event text, topic text, private boolean default true) returns void
language plpgsql set search_path = '' as $$
begin
  if jsonb_typeof(payload) = 'object' and not payload ? 'id' then
    payload := payload || jsonb_build_object('id', gen_random_uuid());
  end if;
  perform realtime.store_message(topic, event, private, payload, null);
exception when others then
  -- A statement of the application must not fail because nobody can be told of it.
  raise warning 'the broadcast was not sent: %', sqlerrm;
end $$;

create function realtime.send_binary(payload bytea, event text, topic text, private boolean default true) returns void
language plpgsql set search_path = '' as $$
begin
  perform realtime.store_message(topic, event, private, null, payload);
exception when others then
  raise warning 'the broadcast was not sent: %', sqlerrm;
end $$;

create function realtime.broadcast_changes(
  topic_name text, event_name text, operation text, table_name text, table_schema text,
  new record, old record, level text default 'ROW'
) returns void language plpgsql set search_path = '' as $$
begin
  if level = 'STATEMENT' then
    raise exception 'broadcast_changes is for triggers FOR EACH ROW';
  end if;
  perform realtime.store_message(topic_name, event_name, true, jsonb_build_object(
    'id', gen_random_uuid(), 'schema', table_schema, 'table', table_name, 'operation', operation,
    'record', to_jsonb(new), 'old_record', to_jsonb(old)), null);
end $$;

create function realtime.begin_probe(topic text, broadcast uuid, presence uuid) returns void
language sql security definer set search_path = '' as $$
  insert into realtime.messages (id, topic, extension, event, private, inserted_at)
  values (broadcast, topic, 'broadcast', 'probe', true, '${PROBE_TIME}'),
    (presence, topic, 'presence', 'probe', true, '${PROBE_TIME}')
$$;

revoke execute on all functions in schema realtime from public;
grant execute on function realtime.topic(), realtime.store_message(text, text, boolean, jsonb, bytea),
  realtime.send(jsonb, text, text, boolean), realtime.send_binary(bytea, text, text, boolean),
  realtime.broadcast_changes(text, text, text, text, text, record, record, text)
  to anon, authenticated, service_role;
grant execute on function realtime.begin_probe(text, uuid, uuid) to authenticator;

create publication svc_realtime for table realtime.messages
  with (publish = 'insert, update, delete', publish_via_partition_root = true);
-- Without generated columns, PostgreSQL 18 rejects updates of a published table with full replica identity. Earlier
-- versions do not have this setting.
do $$ begin
  if current_setting('server_version_num')::integer >= 180000 then
    alter publication svc_realtime set (publish_generated_columns = stored);
  end if;
end $$;
`,
};
