// The `storage` schema. Its guarantees:
//
// `storage.buckets` is a projection of the file, written only at start and reload.
// `storage.objects` is written by svc as svc_owner. Callers access it through policies, which the migration engine
// creates from svc.yaml, and only in transactions that roll back: a commit is rejected.
// `storage.blob_gc` is the only queue for deleting bytes: a trigger enqueues each version that lost its object.
// `storage.pending_blobs` lists versions that are being uploaded, so that every stored blob has a row.
//
// Contract for a column with `ref: storage.<bucket>` (the migration engine creates the triggers):
//   create trigger svc_ref_<column> after insert or delete or update of <column>, <key columns> on <table>
//     for each row execute function storage.track_ref('<column>', '<bucket>', 'cascade' | 'keep', '<key column>', …);
//   create trigger svc_ref_<column>_truncate before truncate on <table>
//     for each statement execute function storage.truncate_refs('<column>');
//   select storage.adopt_refs('<table>'::regclass, '<column>', '<bucket>', 'cascade' | 'keep', '{<key columns>}');
//     for rows that existed before the triggers, and again when on_delete or the bucket changes;
//   select storage.forget_refs('<table oid>'::oid, '<column>') when `ref`, the column or the table is removed.
// The column is text (the path of the object in the bucket), uuid (its id), or an array of either. The table needs a
// primary key.

import type { ProvisionStep } from './step.ts';

export const storageSchema: ProvisionStep = {
  id: 'storage-1',
  sql: `
grant usage on schema storage to anon, authenticated, service_role;

create table storage.buckets (
  id text primary key,
  name text not null unique,
  owner uuid,
  owner_id text,
  public boolean not null default false,
  type text not null default 'STANDARD',
  avif_autodetection boolean not null default false,
  file_size_limit bigint,
  allowed_mime_types text[],
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  check (id = name)
);
alter table storage.buckets enable row level security;
revoke all on storage.buckets from public, anon, authenticated, service_role;
grant select on storage.buckets to anon, authenticated, service_role;

create table storage.objects (
  id uuid primary key default gen_random_uuid(),
  bucket_id text not null references storage.buckets (id),
  name text collate "C" not null,
  owner uuid,
  owner_id text,
  version text not null default gen_random_uuid(),
  metadata jsonb,
  user_metadata jsonb,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  last_accessed_at timestamptz not null default now(),
  path_tokens text[] generated always as (string_to_array(name, '/')) stored,
  constraint objects_bucket_name_key unique (bucket_id, name)
);
create index objects_bucket_lower_name on storage.objects (bucket_id, lower(name) collate "C");
create index objects_owner on storage.objects (owner_id);
create index objects_version on storage.objects (version);
alter table storage.objects enable row level security;
revoke all on storage.objects from public;
grant select, insert, update, delete on storage.objects to anon, authenticated, service_role;

create table storage.pending_blobs (
  version text primary key,
  bucket_id text not null,
  name text not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null
);
create index pending_blobs_expiry on storage.pending_blobs (expires_at);

create table storage.blob_gc (
  version text primary key,
  bucket_id text,
  name text,
  reason text not null,
  queued_at timestamptz not null default now(),
  retry_at timestamptz not null default now(),
  attempts integer not null default 0,
  last_error text
);
create index blob_gc_order on storage.blob_gc (retry_at);

-- A row is kept until the URL expires, also after the upload, because a client that missed the last response retries.
create table storage.resumable_uploads (
  version text primary key,
  bucket_id text not null,
  name text not null,
  length bigint,
  received bigint not null default 0,
  parts jsonb not null default '[]',
  raw_metadata text not null,
  file_metadata jsonb not null,
  user_metadata jsonb,
  owner_id text,
  upsert boolean not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  completed_at timestamptz,
  -- The request that may write, on any instance. A lease, because its instance may crash.
  writer text,
  writer_until timestamptz,
  -- The request that waits for the writer to stop.
  wanted_by text
);
create index resumable_uploads_expiry on storage.resumable_uploads (expires_at);

-- Properties of this store, for example the location of its bytes.
create table storage.settings (
  key text primary key,
  value jsonb not null
);

create table storage.object_refs (
  bucket_id text not null,
  object_key text not null,
  rel oid not null,
  col text not null,
  row_key text not null,
  on_delete text not null check (on_delete in ('cascade', 'keep')),
  granted boolean not null,
  writer_sub text,
  primary key (rel, col, row_key, bucket_id, object_key)
);
create index object_refs_object on storage.object_refs (bucket_id, object_key);

create table storage.ref_deletions (
  id bigint generated always as identity primary key,
  bucket_id text not null,
  object_key text not null,
  granted boolean not null,
  writer_sub text,
  rel text,
  queued_at timestamptz not null default now()
);

revoke all on storage.pending_blobs, storage.blob_gc, storage.resumable_uploads, storage.settings,
  storage.object_refs, storage.ref_deletions from public, anon, authenticated, service_role;

-- Helpers for policies.

create function storage.foldername(name text) returns text[]
  language sql immutable parallel safe strict
  as $$ select (string_to_array(name, '/'))[1:array_length(string_to_array(name, '/'), 1) - 1] $$;

create function storage.filename(name text) returns text
  language sql immutable parallel safe strict
  as $$ select (string_to_array(name, '/'))[array_length(string_to_array(name, '/'), 1)] $$;

create function storage.extension(name text) returns text
  language sql immutable parallel safe strict
  as $$ select reverse(split_part(reverse(split_part(reverse(name), '/', 1)), '.', 1 + length(reverse(split_part(reverse(name), '/', 1))) - length(replace(reverse(split_part(reverse(name), '/', 1)), '.', '')))) $$;

create function storage.operation() returns text
  language sql stable parallel safe
  as $$ select nullif(current_setting('storage.operation', true), '') $$;

create function storage.allow_any_operation(expected text[]) returns boolean
  language sql stable parallel safe
  as $$
    select coalesce(
      regexp_replace(storage.operation(), '^storage\\.', '')
        = any (select regexp_replace(one, '^storage\\.', '') from unnest(expected) one),
      false)
  $$;

create function storage.allow_only_operation(expected text) returns boolean
  language sql stable parallel safe
  as $$ select storage.allow_any_operation(array[expected]) $$;

-- Bookkeeping of objects.

create function storage.touch_object() returns trigger
  language plpgsql set search_path = ''
  as $$
begin
  new.updated_at := now();
  return new;
end $$;
create trigger objects_touch before update on storage.objects
  for each row execute function storage.touch_object();

create function storage.queue_lost_version() returns trigger
  language plpgsql security definer set search_path = ''
  as $$
begin
  if tg_op = 'DELETE' or old.version is distinct from new.version then
    insert into storage.blob_gc (version, bucket_id, name, reason)
    values (old.version, old.bucket_id, old.name, case tg_op when 'DELETE' then 'deleted' else 'replaced' end)
    on conflict (version) do nothing;
  end if;
  return null;
end $$;
create trigger objects_queue_lost_version after delete or update of version on storage.objects
  for each row execute function storage.queue_lost_version();

create function storage.queue_all_versions() returns trigger
  language plpgsql security definer set search_path = ''
  as $$
begin
  insert into storage.blob_gc (version, bucket_id, name, reason)
  select version, bucket_id, name, 'truncated' from storage.objects
  on conflict (version) do nothing;
  return null;
end $$;
create trigger objects_queue_all_versions before truncate on storage.objects
  for each statement execute function storage.queue_all_versions();

-- Runs at commit. Permission checks roll back before, so this rejects only direct writes, which have no bytes.
create function storage.refuse_direct_write() returns trigger
  language plpgsql set search_path = ''
  as $$
begin
  if current_user in ('anon', 'authenticated') then
    raise exception 'storage.objects can only be changed through the storage API' using errcode = '42501';
  end if;
  return null;
end $$;
create constraint trigger objects_refuse_direct_write
  after insert or update or delete on storage.objects
  deferrable initially deferred
  for each row execute function storage.refuse_direct_write();

-- References from columns.

create function storage.ref_keys(value jsonb) returns setof text
  language sql immutable
  set search_path = ''
  as $$
    select distinct key from (
      select value #>> '{}' as key where jsonb_typeof(value) = 'string'
      union all
      select item from jsonb_array_elements_text(case jsonb_typeof(value) when 'array' then value else '[]' end) item
    ) keys where key is not null and key <> ''
  $$;

create function storage.ref_row_key(row_value jsonb, key_columns text[]) returns text
  language sql immutable
  set search_path = ''
  as $$ select jsonb_agg(row_value -> col order by ord)::text from unnest(key_columns) with ordinality as k (col, ord) $$;

-- A reference contains the path of an object, or its id if the column is a uuid.
create function storage.ref_object_id(bucket text, key text) returns uuid
  language sql stable security definer
  set search_path = ''
  as $$
    select id from storage.objects where bucket_id = bucket and name = key
    union all
    select id from storage.objects
    where bucket_id = bucket and id = case
      when key ~ '^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$' then key::uuid end
    limit 1
  $$;

create function storage.ref_object_owner(object_id uuid) returns text
  language sql stable security definer
  set search_path = ''
  as $$ select owner_id from storage.objects where id = object_id $$;

create function storage.put_ref(bucket text, key text, relation oid, column_name text, key_of_row text, action text, may_delete boolean, sub text)
  returns void
  language plpgsql security definer set search_path = ''
  as $$
begin
  if pg_trigger_depth() = 0 then
    raise exception 'only a reference trigger records references' using errcode = '42501';
  end if;
  -- Held until commit, so that a cascade cannot decide "no other reference" while this one is being made.
  perform 1 from storage.objects where id = storage.ref_object_id(bucket, key) for key share;
  insert into storage.object_refs (bucket_id, object_key, rel, col, row_key, on_delete, granted, writer_sub)
  values (bucket, key, relation, column_name, key_of_row, action, may_delete, sub)
  on conflict (rel, col, row_key, bucket_id, object_key)
  do update set on_delete = excluded.on_delete, granted = excluded.granted, writer_sub = excluded.writer_sub;
end $$;

create function storage.drop_refs(relation oid, column_name text, key text, cascade boolean)
  returns void
  language plpgsql security definer set search_path = ''
  as $$
begin
  if pg_trigger_depth() = 0 then
    raise exception 'only a reference trigger drops references' using errcode = '42501';
  end if;
  with gone as (
    delete from storage.object_refs r
    where r.rel = relation and r.col = column_name and r.row_key = key
    returning r.*
  )
  insert into storage.ref_deletions (bucket_id, object_key, granted, writer_sub, rel)
  select bucket_id, object_key, granted, writer_sub, relation::regclass::text
  from gone where cascade and gone.on_delete = 'cascade';
end $$;

-- Runs with the rights of the role that writes the row. Its right to delete is checked when it writes the reference.
create function storage.may_delete_object(object_id uuid) returns boolean
  language plpgsql security invoker set search_path = ''
  as $$
declare
  claims jsonb := nullif(current_setting('request.jwt.claims', true), '')::jsonb;
  sub text := claims ->> 'sub';
  found_rows bigint := 0;
begin
  if object_id is null then
    return false;
  end if;
  if sub is not null and storage.ref_object_owner(object_id) = sub then
    return true;
  end if;
  if current_user not in ('anon', 'authenticated') then
    -- Elevated by a SECURITY DEFINER function a caller may still be behind it; the elevation was for the row, not for files.
    return coalesce(claims ->> 'role', 'service_role') not in ('anon', 'authenticated');
  end if;
  begin
    delete from storage.objects where id = object_id;
    get diagnostics found_rows = row_count;
    raise exception using errcode = 'SVC00';
  exception
    when sqlstate 'SVC00' then return found_rows > 0;
    when insufficient_privilege then return false;
  end;
end $$;

create function storage.track_ref() returns trigger
  language plpgsql security invoker set search_path = ''
  as $$
declare
  col text := tg_argv[0];
  bucket text := tg_argv[1];
  on_delete text := tg_argv[2];
  key_columns text[] := tg_argv[3:];
  sub text := nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'sub';
  key text;
begin
  if tg_op <> 'INSERT' then
    perform storage.drop_refs(tg_relid, col, storage.ref_row_key(to_jsonb(old), key_columns), tg_op = 'DELETE');
  end if;
  if tg_op <> 'DELETE' then
    for key in select storage.ref_keys(to_jsonb(new) -> col) loop
      perform storage.put_ref(bucket, key, tg_relid, col, storage.ref_row_key(to_jsonb(new), key_columns), on_delete,
        storage.may_delete_object(storage.ref_object_id(bucket, key)), sub);
    end loop;
  end if;
  return null;
end $$;

create function storage.truncate_refs() returns trigger
  language plpgsql security definer set search_path = ''
  as $$
begin
  with gone as (
    delete from storage.object_refs r where r.rel = tg_relid and r.col = tg_argv[0] returning r.*
  )
  insert into storage.ref_deletions (bucket_id, object_key, granted, writer_sub, rel)
  select bucket_id, object_key, granted, writer_sub, tg_relid::regclass::text from gone where on_delete = 'cascade';
  return null;
end $$;

create function storage.adopt_refs(relation regclass, column_name text, bucket text, on_delete text, key_columns text[])
  returns bigint
  language plpgsql set search_path = ''
  as $$
declare
  adopted bigint;
begin
  delete from storage.object_refs r where r.rel = relation and r.col = column_name and r.bucket_id <> bucket;
  -- Rows known already keep the rights of their writer; rows older than the triggers belong to the project.
  execute format(
    'insert into storage.object_refs (bucket_id, object_key, rel, col, row_key, on_delete, granted)
     select $1, key, $2, $3, storage.ref_row_key(to_jsonb(t), $4), $5, true
     from %s t, lateral storage.ref_keys(to_jsonb(t) -> $3) key
     on conflict (rel, col, row_key, bucket_id, object_key) do update set on_delete = excluded.on_delete', relation)
    using bucket, relation::oid, column_name, key_columns, on_delete;
  get diagnostics adopted = row_count;
  return adopted;
end $$;

create function storage.forget_refs(relation oid, column_name text) returns void
  language sql set search_path = ''
  as $$ delete from storage.object_refs where rel = relation and col = column_name $$;

revoke all on function storage.adopt_refs(regclass, text, text, text, text[]) from public;
revoke all on function storage.forget_refs(oid, text) from public;
`,
};

/**
 * Records the object and its owner with each reference. The right to delete was checked for this object and does not
 * extend to a later object with the same name.
 */
export const referencedObjects: ProvisionStep = {
  id: 'storage-2',
  sql: `
alter table storage.object_refs add column object_id uuid, add column object_owner text;
alter table storage.ref_deletions add column object_id uuid, add column object_owner text;

create or replace function storage.put_ref(bucket text, key text, relation oid, column_name text, key_of_row text, action text, may_delete boolean, sub text)
  returns void
  language plpgsql security definer set search_path = ''
  as $$
declare
  target uuid := storage.ref_object_id(bucket, key);
begin
  if pg_trigger_depth() = 0 then
    raise exception 'only a reference trigger records references' using errcode = '42501';
  end if;
  -- Held until commit, so that a cascade cannot decide "no other reference" while this one is being made.
  perform 1 from storage.objects where id = target for key share;
  insert into storage.object_refs (bucket_id, object_key, rel, col, row_key, on_delete, granted, writer_sub, object_id, object_owner)
  values (bucket, key, relation, column_name, key_of_row, action, may_delete, sub, target, storage.ref_object_owner(target))
  on conflict (rel, col, row_key, bucket_id, object_key)
  do update set on_delete = excluded.on_delete, granted = excluded.granted, writer_sub = excluded.writer_sub,
    object_id = excluded.object_id, object_owner = excluded.object_owner;
end $$;

create or replace function storage.drop_refs(relation oid, column_name text, key text, cascade boolean)
  returns void
  language plpgsql security definer set search_path = ''
  as $$
begin
  if pg_trigger_depth() = 0 then
    raise exception 'only a reference trigger drops references' using errcode = '42501';
  end if;
  with gone as (
    delete from storage.object_refs r
    where r.rel = relation and r.col = column_name and r.row_key = key
    returning r.*
  )
  insert into storage.ref_deletions (bucket_id, object_key, granted, writer_sub, rel, object_id, object_owner)
  select bucket_id, object_key, granted, writer_sub, relation::regclass::text, object_id, object_owner
  from gone where cascade and gone.on_delete = 'cascade';
end $$;

create or replace function storage.truncate_refs() returns trigger
  language plpgsql security definer set search_path = ''
  as $$
begin
  with gone as (
    delete from storage.object_refs r where r.rel = tg_relid and r.col = tg_argv[0] returning r.*
  )
  insert into storage.ref_deletions (bucket_id, object_key, granted, writer_sub, rel, object_id, object_owner)
  select bucket_id, object_key, granted, writer_sub, tg_relid::regclass::text, object_id, object_owner
  from gone where on_delete = 'cascade';
  return null;
end $$;
`,
};

/** Deletion holds. Bytes are not deleted while a hold is valid, because a backup reads them. */
export const deletionHolds: ProvisionStep = {
  id: 'storage-3',
  sql: `
create table storage.deletion_hold (
  id uuid primary key,
  expires_at timestamptz not null
);
revoke all on storage.deletion_hold from public, anon, authenticated, service_role;
`,
};
