// Records of backups and of a restore. The API roles have no access.
import type { ProvisionStep } from './step.ts';

export const backupLedger: ProvisionStep = {
  id: 'backup-1',
  sql: `
-- Last complete backup of each target, for metrics.
create table svc_meta.backup (
  target text primary key,
  id text not null,
  taken_at timestamptz not null,
  bytes bigint not null,
  verified_at timestamptz
);

-- Set in a database that was restored from a backup. Files that are newer than the backup have no row.
create table svc_meta.restore (
  one boolean primary key default true check (one),
  taken_at timestamptz not null,
  restored_at timestamptz not null default now(),
  -- Files without a row are not deleted before this time.
  sweep_from timestamptz not null
);

revoke all on svc_meta.backup, svc_meta.restore from public, anon, authenticated, service_role;
`,
};
