// Records of an import from another product. The API roles have no access.
import type { ProvisionStep } from './step.ts';

export const imports: ProvisionStep = {
  id: 'import-1',
  sql: `
create table svc_meta.import (
  one boolean primary key default true check (one),
  -- Source database. An import from another source is rejected.
  source text not null,
  state text not null check (state in ('copied', 'ready', 'cut over')),
  changed_at timestamptz not null default now()
);

-- Digest of each object at the last read of the source. If only the target has changed since, it is not overwritten.
-- Objects that the source has deleted are deleted here.
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
-- Publishable keys of a former product that are still accepted, as SHA-256.
create table svc_meta.key_alias (
  digest bytea primary key,
  accept_until timestamptz not null,
  last_used_on date
);

revoke all on svc_meta.key_alias from public, anon, authenticated, service_role;
`,
};
