// What an import from another product has brought here. The API roles have no business here.
import type { ProvisionStep } from './step.ts';

export const imports: ProvisionStep = {
  id: 'import-1',
  sql: `
create table svc_meta.import (
  one boolean primary key default true check (one),
  -- Which database is imported; no other may be mixed with it.
  source text not null,
  state text not null check (state in ('copied', 'ready', 'cut over')),
  changed_at timestamptz not null default now()
);

-- Each thing as it was last read at the source. What has changed here since is not written over while the source's has
-- not changed too, and what is gone there is deleted here.
create table svc_meta.import_row (
  kind text not null,
  id text not null,
  digest bytea not null,
  primary key (kind, id)
);

revoke all on svc_meta.import, svc_meta.import_row from public, anon, authenticated, service_role;
`,
};

export const keyAliases: ProvisionStep = {
  id: 'import-2',
  sql: `
-- Publishable keys of a former product that are still accepted; SHA-256 of each.
create table svc_meta.key_alias (
  digest bytea primary key,
  accept_until timestamptz not null,
  last_used_on date
);

revoke all on svc_meta.key_alias from public, anon, authenticated, service_role;
`,
};
