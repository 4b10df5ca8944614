// When this database was saved, and that it was restored. The API roles have no business here.
import type { ProvisionStep } from './step.ts';

export const backupLedger: ProvisionStep = {
  id: 'backup-1',
  sql: `
-- The last whole backup of each target, for metrics.
create table svc_meta.backup (
  target text primary key,
  id text not null,
  taken_at timestamptz not null,
  bytes bigint not null,
  verified_at timestamptz
);

-- A database that came out of a backup. Files that are newer than it look like nobody's.
create table svc_meta.restore (
  one boolean primary key default true check (one),
  taken_at timestamptz not null,
  restored_at timestamptz not null default now(),
  -- Until then no file is deleted for not being named by a row.
  sweep_from timestamptz not null
);

revoke all on svc_meta.backup, svc_meta.restore from public, anon, authenticated, service_role;
`,
};
