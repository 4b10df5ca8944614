// The file that instances share with `--config database`, its history, and the state of each instance. Texts contain
// `${VAR}` as written, never values. The API roles have no access.
import type { ProvisionStep } from './step.ts';

export const sharedConfig: ProvisionStep = {
  id: 'config-1',
  sql: `
create table svc_meta.config (
  id bigint generated always as identity primary key,
  -- Orders deployments like a build stamp: milliseconds since 1970, or the largest value so far plus one.
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
-- The file that is served.
create unique index config_applied on svc_meta.config (state) where state = 'applied';

create table svc_meta.instance_state (
  instance text primary key,
  serves bigint,
  -- Reason for not serving the applied file.
  reason text,
  seen_at timestamptz not null default now()
);

revoke all on svc_meta.config, svc_meta.instance_state from public, anon, authenticated, service_role;
`,
};
