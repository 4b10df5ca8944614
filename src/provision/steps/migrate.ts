// The state of the migration engine: `object` is what the engine owns, `run` and `step` what it did, `stamp`
// makes an unchanged start cheap. The API roles have no business here.
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

/** The kinds of objects are those that the engine knows, which become more. */
export const openObjectKinds: ProvisionStep = {
  id: 'migrate-3',
  sql: 'alter table svc_meta.object drop constraint object_kind_check',
};

/** A run keeps its model packed: as `jsonb` it was the dearest statement of a small change to a large schema. */
export const packedRunModel: ProvisionStep = {
  id: 'migrate-2',
  sql: `
alter table svc_meta.run alter column model drop not null, add column model_gzip bytea,
  add constraint run_has_model check (num_nonnulls(model, model_gzip) = 1);
alter table svc_meta.run alter column model_gzip set storage external;
`,
};

/** Which data steps a database has seen; runs that prepare one are no file to go back to. */
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

/** How far a data step in batches came. */
export const dataStepProgress: ProvisionStep = {
  id: 'migrate-5',
  sql: `
alter table svc_meta.data_step add column progress text, drop constraint data_step_state_check,
  add constraint data_step_state_check check (state in ('running', 'done', 'skipped'));
`,
};

/** What the applied file says of earlier names: instances with an older file know only those. */
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
