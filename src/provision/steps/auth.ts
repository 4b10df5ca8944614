import type { ProvisionStep } from './step.ts';

// The columns of auth.users, auth.identities and auth.sessions are compatible with Supabase, so that triggers and
// foreign keys of applications keep working.
export const authSchema: ProvisionStep = {
  id: 'auth-1',
  sql: `
create type auth.aal_level as enum ('aal1', 'aal2', 'aal3');
create type auth.factor_type as enum ('totp', 'webauthn', 'phone');
create type auth.factor_status as enum ('unverified', 'verified');
create type auth.one_time_token_type as enum ('confirmation_token', 'reauthentication_token', 'recovery_token',
  'email_change_token_new', 'email_change_token_current', 'phone_change_token');

create table auth.users (
  instance_id uuid default '00000000-0000-0000-0000-000000000000',
  id uuid primary key default gen_random_uuid(),
  aud varchar(255) default 'authenticated',
  role varchar(255) default 'authenticated',
  email varchar(255),
  encrypted_password varchar(255),
  email_confirmed_at timestamptz,
  invited_at timestamptz,
  confirmation_token varchar(255) default '',
  confirmation_sent_at timestamptz,
  recovery_token varchar(255) default '',
  recovery_sent_at timestamptz,
  email_change_token_new varchar(255) default '',
  email_change varchar(255) default '',
  email_change_sent_at timestamptz,
  email_change_token_current varchar(255) default '',
  email_change_confirm_status smallint default 0 check (email_change_confirm_status between 0 and 2),
  last_sign_in_at timestamptz,
  raw_app_meta_data jsonb not null default '{}',
  raw_user_meta_data jsonb not null default '{}',
  is_super_admin boolean,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  phone text unique,
  phone_confirmed_at timestamptz,
  phone_change text default '',
  phone_change_token varchar(255) default '',
  phone_change_sent_at timestamptz,
  confirmed_at timestamptz generated always as (least(email_confirmed_at, phone_confirmed_at)) stored,
  banned_until timestamptz,
  reauthentication_token varchar(255) default '',
  reauthentication_sent_at timestamptz,
  is_sso_user boolean not null default false,
  is_anonymous boolean not null default false,
  deleted_at timestamptz,
  email_proven_at timestamptz,
  password_set_at timestamptz
);
create unique index users_email_key on auth.users (email) where not is_sso_user;
create index users_lower_email_idx on auth.users (lower(email));
create index users_created_at_idx on auth.users (created_at desc, id desc);
create index users_is_anonymous_idx on auth.users (is_anonymous);

create table auth.identities (
  id uuid primary key default gen_random_uuid(),
  provider_id text not null,
  user_id uuid not null references auth.users (id) on delete cascade,
  identity_data jsonb not null,
  provider text not null,
  last_sign_in_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  email text generated always as (lower(identity_data ->> 'email')) stored,
  unique (provider_id, provider)
);
create index identities_user_id_idx on auth.identities (user_id);
create index identities_email_idx on auth.identities (email);

create table auth.sessions (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users (id) on delete cascade,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  factor_id uuid,
  aal auth.aal_level not null default 'aal1',
  not_after timestamptz,
  refreshed_at timestamptz,
  user_agent text,
  ip inet,
  tag text,
  refresh_token_hmac_key bytea,
  refresh_token_counter bigint not null default 0,
  refresh_token_floor bigint not null default 0
);
create index sessions_user_id_idx on auth.sessions (user_id, created_at);

create table auth.mfa_amr_claims (
  id uuid primary key default gen_random_uuid(),
  session_id uuid not null references auth.sessions (id) on delete cascade,
  authentication_method text not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (session_id, authentication_method)
);

-- Only for refresh tokens imported from another product. Refresh tokens of svc are two columns of their session.
create table auth.refresh_tokens (
  instance_id uuid,
  id bigserial primary key,
  token varchar(255) unique,
  user_id varchar(255),
  revoked boolean,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  parent varchar(255),
  session_id uuid references auth.sessions (id) on delete cascade
);
create index refresh_tokens_session_id_idx on auth.refresh_tokens (session_id);

create table auth.mfa_factors (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users (id) on delete cascade,
  friendly_name text,
  factor_type auth.factor_type not null,
  status auth.factor_status not null default 'unverified',
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  secret bytea,
  phone text,
  last_challenged_at timestamptz,
  web_authn_credential jsonb,
  web_authn_aaguid uuid,
  last_webauthn_challenge_data jsonb,
  -- Newest time step of an accepted code. A code is never accepted twice.
  last_used_step bigint not null default 0
);
create index mfa_factors_user_id_idx on auth.mfa_factors (user_id, created_at);
create unique index mfa_factors_name_key on auth.mfa_factors (user_id, friendly_name) where trim(friendly_name) <> '';

create table auth.mfa_challenges (
  id uuid primary key default gen_random_uuid(),
  factor_id uuid not null references auth.mfa_factors (id) on delete cascade,
  created_at timestamptz not null default now(),
  verified_at timestamptz,
  ip_address inet,
  otp_code text,
  web_authn_session_data jsonb
);
create index mfa_challenges_factor_id_idx on auth.mfa_challenges (factor_id);
create index mfa_challenges_created_at_idx on auth.mfa_challenges (created_at);

create table auth.flow_state (
  id uuid primary key default gen_random_uuid(),
  user_id uuid references auth.users (id) on delete cascade,
  provider_type text not null,
  authentication_method text not null,
  code_challenge text,
  code_challenge_method text check (code_challenge_method in ('s256', 'plain')),
  -- SHA-256 of the state parameter and of the authorization code, which are never stored in plain text.
  state_hash text unique,
  auth_code text unique,
  auth_code_issued_at timestamptz,
  failures smallint not null default 0,
  provider_secrets bytea,
  provider_access_token bytea,
  provider_refresh_token bytea,
  referrer text,
  invite_token text,
  linking_target_id uuid references auth.users (id) on delete cascade,
  email_optional boolean not null default false,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create index flow_state_user_id_idx on auth.flow_state (user_id, authentication_method);
create index flow_state_created_at_idx on auth.flow_state (created_at);

create table auth.one_time_tokens (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users (id) on delete cascade,
  token_type auth.one_time_token_type not null,
  token_hash text not null,
  code_hash text not null,
  relates_to text not null default '',
  attempts smallint not null default 0,
  flow_state_id uuid references auth.flow_state (id) on delete set null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  expires_at timestamptz not null,
  unique (user_id, token_type)
);
create index one_time_tokens_token_hash_idx on auth.one_time_tokens using hash (token_hash);
create index one_time_tokens_expires_at_idx on auth.one_time_tokens (expires_at);

create table auth.audit_log_entries (
  instance_id uuid default '00000000-0000-0000-0000-000000000000',
  id uuid primary key default gen_random_uuid(),
  payload json,
  created_at timestamptz not null default now(),
  ip_address varchar(64) not null default ''
);
create index audit_log_entries_created_at_idx on auth.audit_log_entries (created_at desc, id);

-- The key that encrypts all secrets in this schema, encrypted with a key from the environment.
create table auth.keyring (
  id integer primary key,
  state text not null check (state in ('in_use', 'retired')),
  sealed_key bytea not null,
  created_at timestamptz not null default now(),
  resealed_at timestamptz
);
create unique index keyring_in_use on auth.keyring (state) where state = 'in_use';

create table auth.signing_keys (
  kid text primary key,
  alg text not null check (alg in ('ES256', 'RS256', 'HS256')),
  state text not null check (state in ('standby', 'in_use', 'previously_used', 'revoked')),
  -- Null for a shared secret, which has no public key.
  public_jwk jsonb,
  private_jwk bytea,
  imported boolean not null default false,
  created_at timestamptz not null default now(),
  promoted_at timestamptz,
  demoted_at timestamptz,
  revoked_at timestamptz
);
create unique index signing_keys_in_use on auth.signing_keys (state) where state = 'in_use';

-- Time of the last mail to an address, also for addresses without an account.
create table auth.email_throttle (
  email_hash text not null,
  kind text not null,
  sent_at timestamptz not null,
  primary key (email_hash, kind)
);

-- Unlogged: the loss of these rows in a crash only resets the rate limits.
create unlogged table auth.rate_limits (
  bucket text not null,
  key text not null,
  tokens double precision not null,
  updated_at timestamptz not null,
  primary key (bucket, key)
);
create index rate_limits_updated_at_idx on auth.rate_limits (updated_at);

create table auth.mail_outbox (
  id uuid primary key default gen_random_uuid(),
  kind text not null,
  user_id uuid references auth.users (id) on delete cascade,
  recipient text not null,
  subject text not null,
  -- Encrypted, and deleted after delivery, because a mail contains a valid link.
  content bytea,
  state text not null default 'pending'
    check (state in ('pending', 'sending', 'sent', 'failed', 'uncertain', 'caught')),
  attempts smallint not null default 0,
  next_attempt_at timestamptz not null default now(),
  -- In the past after a crash of the process that was sending.
  lease_until timestamptz,
  transport text,
  message_id text,
  last_error text,
  created_at timestamptz not null default now(),
  sent_at timestamptz
);
create index mail_outbox_due_idx on auth.mail_outbox (next_attempt_at) where state in ('pending', 'sending');
create index mail_outbox_created_at_idx on auth.mail_outbox (created_at desc, id);

alter table auth.users enable row level security;
alter table auth.identities enable row level security;
alter table auth.sessions enable row level security;
alter table auth.mfa_amr_claims enable row level security;
alter table auth.refresh_tokens enable row level security;
alter table auth.mfa_factors enable row level security;
alter table auth.mfa_challenges enable row level security;
alter table auth.flow_state enable row level security;
alter table auth.one_time_tokens enable row level security;
alter table auth.audit_log_entries enable row level security;
alter table auth.keyring enable row level security;
alter table auth.signing_keys enable row level security;
alter table auth.email_throttle enable row level security;
alter table auth.rate_limits enable row level security;
alter table auth.mail_outbox enable row level security;

-- nullif: a setting reads '' after an earlier transaction used SET LOCAL on the connection.
create function auth.jwt() returns jsonb language sql stable
as $$ select nullif(current_setting('request.jwt.claims', true), '')::jsonb $$;
create function auth.uid() returns uuid language sql stable
as $$ select nullif(nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'sub', '')::uuid $$;
create function auth.role() returns text language sql stable
as $$ select nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'role' $$;
create function auth.email() returns text language sql stable
as $$ select nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'email' $$;
create function auth.is_authenticated() returns boolean language sql stable
as $$ select auth.uid() is not null $$;
create function auth.is_anonymous() returns boolean language sql stable
as $$ select coalesce((nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'is_anonymous')::boolean, false) $$;
`,
};

// Records what a mailed secret proves, and deletes an open linking flow with the session that started it.
export const authOwnership: ProvisionStep = {
  id: 'auth-2',
  sql: `
-- True if the owner of the mailbox did not create this account: confirming the address then removes the credentials of
-- its creator.
alter table auth.one_time_tokens add column expels boolean not null default false;
-- Earlier versions stored invitations and one-time passwords under the token type of the sign-up confirmation. The
-- confirmation is as old as the account and its password. Later tokens prove only access to the mailbox.
update auth.one_time_tokens t set expels = true from auth.users u
where u.id = t.user_id and t.token_type = 'confirmation_token'
  and (t.created_at is distinct from u.created_at or t.created_at < u.password_set_at);
alter table auth.flow_state add column linking_session_id uuid references auth.sessions (id) on delete cascade;
create index flow_state_linking_session_id_idx on auth.flow_state (linking_session_id) where linking_session_id is not null;
create index flow_state_linking_target_id_idx on auth.flow_state (linking_target_id) where linking_target_id is not null;
`,
};

export const importedKeyRoles: ProvisionStep = {
  id: 'auth-3',
  sql: `
-- Roles that tokens under an imported key may have. Null allows users only. Unused for keys of svc.
alter table auth.signing_keys add column roles text[];
`,
};

export const restrictedSessions: ProvisionStep = {
  id: 'auth-4',
  sql: `
-- True if the address of the account was proven without its verified second factor. Such a session may only verify the
-- factor.
alter table auth.sessions add column restricted boolean not null default false;
-- The code of this flow opens a restricted session.
alter table auth.flow_state add column opens_restricted boolean not null default false;
-- Null if the code is valid as long as the link.
alter table auth.one_time_tokens add column code_expires_at timestamptz;
-- The owner of the mailbox reported that the account is not theirs; an administrator decides.
alter table auth.users add column flagged_at timestamptz;
`,
};

export const codesByNetwork: ProvisionStep = {
  id: 'auth-5',
  sql: `
-- Up to two networks can each have a valid secret of a type, with separate counts of wrong codes. Networks are stored
-- as hashes.
alter table auth.one_time_tokens
  add column slot smallint not null default 0,
  add column requester text,
  add column attempts_elsewhere smallint not null default 0,
  drop constraint one_time_tokens_user_id_token_type_key,
  add constraint one_time_tokens_slot_key unique (user_id, token_type, slot);

-- Networks that redeemed a mail of a mailbox recently.
create table auth.trusted_networks (
  email_hash text not null,
  network_hash text not null,
  seen_at timestamptz not null,
  primary key (email_hash, network_hash)
);
create index trusted_networks_seen_at_idx on auth.trusted_networks (seen_at);
alter table auth.trusted_networks enable row level security;

-- Access tokens of these sessions are rejected until they expire. Without a session, all tokens of the user are
-- rejected.
create table auth.ended_sessions (
  id bigint generated always as identity primary key,
  session_id uuid,
  user_id uuid not null,
  ended_at timestamptz not null default clock_timestamp(),
  until timestamptz not null
);
create index ended_sessions_until_idx on auth.ended_sessions (until);
create index ended_sessions_ended_at_idx on auth.ended_sessions (ended_at);
create index ended_sessions_user_id_idx on auth.ended_sessions (user_id) where session_id is null;
alter table auth.ended_sessions enable row level security;

-- Lifetime of the access tokens of the session. A day for sessions that are older than this column.
alter table auth.sessions add column token_seconds integer not null default 86400;

-- Every deletion of a session ends its tokens, for example by a sign-out, a new password or the deletion of its user.
create function auth.record_ended_sessions() returns trigger language plpgsql security definer
set search_path = pg_catalog, pg_temp as $$
begin
  insert into auth.ended_sessions (session_id, user_id, until)
  select id, user_id, clock_timestamp() + make_interval(secs => token_seconds + 60) from ended;
  if found then
    perform pg_notify('svc_sessions', '');
  end if;
  return null;
end $$;
create trigger "~svc_ended_sessions" after delete on auth.sessions
  referencing old table as ended for each statement execute function auth.record_ended_sessions();
`,
};
