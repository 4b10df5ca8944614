// Applied seeds of svc.yaml. The API roles have no access.
import type { ProvisionStep } from './step.ts';

export const seeds: ProvisionStep = {
  id: 'seed-1',
  sql: `
create table svc_meta.seed (
  name text primary key,
  hash text not null,
  applied_at timestamptz not null default now()
);

revoke all on svc_meta.seed from public, anon, authenticated, service_role;
`,
};
