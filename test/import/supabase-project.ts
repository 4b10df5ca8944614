// Fixture: a database with the structure of a Supabase project. Contains the tables of its auth and storage servers
// as of August 2026, their owners, and tables, users and files of an application.
import pg from 'pg';
import { hash as argon2 } from '@node-rs/argon2';
import { hash as bcrypt } from '@node-rs/bcrypt';
import { createDatabase, type TestDatabase } from '../support/database.ts';

/** Roles belong to the whole server, so several tests may create them concurrently. */
const ROLES = ['supabase_auth_admin', 'supabase_storage_admin', 'anon', 'authenticated', 'service_role'];
const MAKE_ROLES = ROLES.map(
  (role) =>
    `do $$ begin create role ${role}; exception when duplicate_object or unique_violation then null; end $$;`,
).join('\n');

const AUTH = `
create schema auth authorization supabase_auth_admin;
set role supabase_auth_admin;
create type auth.aal_level as enum ('aal1', 'aal2', 'aal3');
create type auth.factor_status as enum ('unverified', 'verified');
create type auth.factor_type as enum ('totp', 'webauthn', 'phone');
create type auth.one_time_token_type as enum ('confirmation_token', 'reauthentication_token', 'recovery_token',
  'email_change_token_new', 'email_change_token_current', 'phone_change_token');
create table auth.users (
  instance_id uuid, id uuid primary key, aud varchar(255), role varchar(255), email varchar(255),
  encrypted_password varchar(255), email_confirmed_at timestamptz, invited_at timestamptz,
  confirmation_token varchar(255), confirmation_sent_at timestamptz, recovery_token varchar(255),
  recovery_sent_at timestamptz, email_change_token_new varchar(255), email_change varchar(255),
  email_change_sent_at timestamptz, last_sign_in_at timestamptz, raw_app_meta_data jsonb, raw_user_meta_data jsonb,
  is_super_admin boolean, created_at timestamptz, updated_at timestamptz, phone text unique default null,
  phone_confirmed_at timestamptz, phone_change text default '', phone_change_token varchar(255) default '',
  phone_change_sent_at timestamptz,
  confirmed_at timestamptz generated always as (least(email_confirmed_at, phone_confirmed_at)) stored,
  email_change_token_current varchar(255) default '', email_change_confirm_status smallint default 0,
  banned_until timestamptz, reauthentication_token varchar(255) default '', reauthentication_sent_at timestamptz,
  is_sso_user boolean not null default false, deleted_at timestamptz, is_anonymous boolean not null default false);
create unique index users_email_partial_key on auth.users (email) where not is_sso_user;
create table auth.identities (
  provider_id text not null, user_id uuid not null references auth.users on delete cascade,
  identity_data jsonb not null, provider text not null, last_sign_in_at timestamptz, created_at timestamptz,
  updated_at timestamptz, email text generated always as (lower(identity_data ->> 'email')) stored,
  id uuid primary key default gen_random_uuid(), unique (provider_id, provider));
create table auth.sessions (
  id uuid primary key, user_id uuid not null references auth.users on delete cascade, created_at timestamptz,
  updated_at timestamptz, factor_id uuid, aal auth.aal_level, not_after timestamptz, refreshed_at timestamp,
  user_agent text, ip inet, tag text, oauth_client_id uuid, refresh_token_hmac_key text,
  refresh_token_counter bigint, scopes text);
create table auth.refresh_tokens (
  instance_id uuid, id bigserial primary key, token varchar(255) unique, user_id varchar(255), revoked boolean,
  created_at timestamptz, updated_at timestamptz, parent varchar(255),
  session_id uuid references auth.sessions on delete cascade);
create table auth.mfa_amr_claims (
  session_id uuid not null references auth.sessions on delete cascade, created_at timestamptz not null,
  updated_at timestamptz not null, authentication_method text not null, id uuid primary key,
  unique (session_id, authentication_method));
create table auth.mfa_factors (
  id uuid primary key, user_id uuid not null references auth.users on delete cascade, friendly_name text,
  factor_type auth.factor_type not null, status auth.factor_status not null, created_at timestamptz not null,
  updated_at timestamptz not null, secret text, phone text, last_challenged_at timestamptz unique,
  web_authn_credential jsonb, web_authn_aaguid uuid, last_webauthn_challenge_data jsonb);
create table auth.one_time_tokens (
  id uuid primary key, user_id uuid not null references auth.users on delete cascade,
  token_type auth.one_time_token_type not null, token_hash text not null, relates_to text not null,
  created_at timestamp not null default now(), updated_at timestamp not null default now());
create table auth.audit_log_entries (
  instance_id uuid, id uuid primary key, payload json, created_at timestamptz,
  ip_address varchar(64) not null default '');
create table auth.sso_providers (
  id uuid primary key, resource_id text, created_at timestamptz, updated_at timestamptz, disabled boolean);
create function auth.uid() returns uuid language sql stable
  as $$ select (nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'sub')::uuid $$;
reset role;`;

const STORAGE = `
create schema storage authorization supabase_storage_admin;
set role supabase_storage_admin;
create type storage.buckettype as enum ('STANDARD', 'ANALYTICS', 'VECTOR');
create table storage.buckets (
  id text primary key, name text not null unique, owner uuid, created_at timestamptz default now(),
  updated_at timestamptz default now(), public boolean default false, avif_autodetection boolean default false,
  file_size_limit bigint, allowed_mime_types text[], owner_id text,
  type storage.buckettype not null default 'STANDARD');
create table storage.objects (
  id uuid primary key default gen_random_uuid(), bucket_id text references storage.buckets, name text, owner uuid,
  created_at timestamptz default now(), updated_at timestamptz default now(),
  last_accessed_at timestamptz default now(), metadata jsonb,
  path_tokens text[] generated always as (string_to_array(name, '/')) stored, version text, owner_id text,
  user_metadata jsonb, archived_at timestamptz, is_delete_marker boolean not null default false,
  is_versioned boolean not null default false);
create unique index bucketid_objname on storage.objects (bucket_id, name);
alter table storage.objects enable row level security;
create policy "own folder" on storage.objects for select to authenticated using (bucket_id = 'pictures');
reset role;`;

const APPLICATION = `
create type public.mood as enum ('glad', 'sad');
create table public.lists (
  id bigint generated always as identity primary key, owner uuid not null references auth.users on delete cascade,
  title text not null unique, parent bigint references public.lists, favourite uuid);
create table public.items (
  id uuid primary key, list_id bigint not null references public.lists, title text not null, price numeric(10,2),
  tags text[], extra jsonb, title_length integer generated always as (length(title)) stored);
alter table public.lists add foreign key (favourite) references public.items (id) not valid;
create table public.visits (page text, at timestamptz);
create table public.forgotten (id int primary key);
`;

export const IDS = {
  ann: '00000000-0000-4000-8000-00000000000a',
  ben: '00000000-0000-4000-8000-00000000000b',
  cat: '00000000-0000-4000-8000-00000000000c',
} as const;

/** Test secret of RFC 6238. */
export const TOTP_SECRET = 'GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ';

export type SupabaseProject = TestDatabase & {
  query(text: string, values?: unknown[]): Promise<pg.QueryResult>;
};

export type User = {
  readonly id: string;
  readonly email?: string | null;
  readonly password?: string | null;
  readonly more?: Readonly<Record<string, unknown>>;
};

/** Creates an empty project. `server`: see `createDatabase`. */
export async function createProject(server?: string): Promise<SupabaseProject> {
  const database = await createDatabase({ server });
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  for (const statements of [MAKE_ROLES, AUTH, STORAGE, APPLICATION]) await client.query(statements);
  return {
    ...database,
    query: (text, values) => client.query(text, values),
    async drop() {
      await client.end();
      await database.drop();
    },
  };
}

/** Inserts a user like the auth server: most empty values are '' or null. */
export async function addUser(
  project: SupabaseProject,
  { id, email, password, more = {} }: User,
): Promise<void> {
  const row = {
    instance_id: '00000000-0000-0000-0000-000000000000',
    id,
    aud: 'authenticated',
    role: 'authenticated',
    email: email ?? null,
    encrypted_password: password ?? '',
    email_confirmed_at: email ? '2026-01-02T03:04:05.678901+00:00' : null,
    confirmation_token: '',
    raw_app_meta_data: { provider: 'email', providers: ['email'] },
    raw_user_meta_data: null,
    created_at: '2026-01-02T03:04:05+00:00',
    updated_at: '2026-01-02T03:04:05+00:00',
    phone: null,
    is_sso_user: false,
    is_anonymous: false,
    ...more,
  };
  const columns = Object.keys(row).join(', ');
  await project.query(
    `insert into auth.users (${columns}) select ${columns} from jsonb_populate_record(null::auth.users, $1)`,
    [JSON.stringify(row)],
  );
  if (!email) return;
  await project.query(
    `insert into auth.identities (provider_id, user_id, identity_data, provider, created_at, updated_at)
     values ($1::text, $1::uuid, $2, 'email', now(), now())`,
    [id, JSON.stringify({ sub: id, email, email_verified: true })],
  );
}

/** Creates a project with three users, rows that reference them, and two buckets. */
export async function createTypicalProject(): Promise<SupabaseProject> {
  const project = await createProject();
  await addUser(project, {
    id: IDS.ann,
    email: 'ann@example.com',
    password: await bcrypt('ann-password', 4),
  });
  await addUser(project, { id: IDS.ben, email: 'ben@example.com', password: await argon2('ben-password') });
  await addUser(project, { id: IDS.cat, more: { is_anonymous: true, raw_app_meta_data: {} } });
  await project.query(`
    insert into public.lists (owner, title) values ('${IDS.ann}', 'Shopping'), ('${IDS.ben}', 'Tools');
    update public.lists set parent = 1 where id = 2;
    insert into public.items values (gen_random_uuid(), 1, 'Milk', 1.10, '{food,cold}', '{"b": [1, null], "a": "x"}'),
      (gen_random_uuid(), 2, E'Tab\\there, "quote" \\\\ and\\nline', null, '{}', null);
    update public.lists set favourite = (select id from public.items where title = 'Milk') where id = 1;
    insert into public.visits select 'page ' || n % 3, '2026-01-01'::timestamptz + n * interval '1 microsecond'
      from generate_series(1, 1000) n;
    insert into storage.buckets (id, name, public)
      values ('pictures', 'pictures', true), ('papers', 'papers', false);`);
  return project;
}
