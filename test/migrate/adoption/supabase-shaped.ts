// A database like that of a Supabase project: `auth` and `storage` belong to separate roles, and `public` contains
// tables.
const ROLES = ['anon', 'authenticated', 'service_role', 'supabase_auth_admin', 'supabase_storage_admin'];

/** Creates missing roles. Roles belong to the cluster, and other tests create some of them. */
const MAKE_ROLES = `do $$ declare name text; begin
  foreach name in array array[${ROLES.map((role) => `'${role}'`).join(', ')}] loop
    if not exists (select from pg_roles where rolname = name) then
      begin execute format('create role %I', name); exception when duplicate_object or unique_violation then null; end;
    end if;
  end loop; end $$;`;

export const SUPABASE_SHAPED = `${MAKE_ROLES}
  create schema auth authorization supabase_auth_admin;
  create schema storage authorization supabase_storage_admin;
  create schema extensions;
  grant usage on schema auth, storage, public to anon, authenticated, service_role;
  set role supabase_auth_admin;
  create type auth.aal_level as enum ('aal1', 'aal2', 'aal3');
  create table auth.users (instance_id uuid, id uuid primary key, aud varchar(255), email varchar(255),
    encrypted_password varchar(255),
    raw_user_meta_data jsonb, created_at timestamptz, is_sso_user boolean not null default false);
  create table auth.sessions (id uuid primary key,
    user_id uuid not null references auth.users on delete cascade, aal auth.aal_level);
  create function auth.uid() returns uuid language sql stable
    as $$ select nullif(current_setting('request.jwt.claim.sub', true), '')::uuid $$;
  grant references on auth.users to current_user;
  reset role;
  set role supabase_storage_admin;
  create table storage.buckets (id text primary key, name text not null, public boolean default false);
  create table storage.objects (id uuid primary key default gen_random_uuid(),
    bucket_id text references storage.buckets, name text, owner uuid);
  alter table storage.objects enable row level security;
  reset role;
  create table public.profiles (id uuid primary key references auth.users on delete cascade,
    username text unique, credits integer not null default 0);
  alter table public.profiles enable row level security;
  create policy "Own profile" on public.profiles for all to authenticated using (auth.uid() = id);
  create policy "Everybody reads" on public.profiles for select using (true);
  create function public.handle_new_user() returns trigger language plpgsql security definer set search_path = ''
    as $$ begin insert into public.profiles (id) values (new.id); return new; end $$;
  create trigger on_auth_user_created after insert on auth.users for each row execute function public.handle_new_user();
  create view public.names with (security_invoker = true) as select username from public.profiles;
  create policy "Own folder" on storage.objects for select to authenticated
    using (bucket_id = 'avatars' and owner = auth.uid());
  grant all on all tables in schema public to anon, authenticated, service_role`;
