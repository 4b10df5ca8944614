// The file as instances share it under `--config database`, with its history, and what each instance makes of it. Texts
// hold `${VAR}` as written, never values. The API roles have no business here.
import type { ProvisionStep } from './step.ts';

export const sharedConfig: ProvisionStep = {
  id: 'config-1',
  sql: `
create table svc_meta.config (
  id bigint generated always as identity primary key,
  -- Orders deployments, like a build stamp: milliseconds since 1970, or one more than the largest so far.
  sequence bigint not null,
  hash text not null,
  text text not null check (octet_length(text) <= 4194304),
  base bigint,
  author text not null,
  note text,
  state text not null check (state in ('proposed', 'applied', 'refused', 'replaced')),
  reason text,
  created_at timestamptz not null default now(),
  applied_at timestamptz
);
-- The one that is served.
create unique index config_applied on svc_meta.config (state) where state = 'applied';

create table svc_meta.instance_state (
  instance text primary key,
  serves bigint,
  -- Why it does not serve the applied one.
  reason text,
  seen_at timestamptz not null default now()
);

revoke all on svc_meta.config, svc_meta.instance_state from public, anon, authenticated, service_role;
`,
};
