// Sessions of the dashboard. Only keyed digests of tokens are stored, so that a copy of the database does not allow
// signing in. The API roles have no access.
import type { ProvisionStep } from './step.ts';

export const dashboardSessions: ProvisionStep = {
  id: 'dashboard-1',
  sql: `
create table svc_meta.dashboard_sessions (
  token_hash bytea primary key,
  created_at timestamptz not null,
  last_seen_at timestamptz not null,
  expires_at timestamptz not null
);
create index dashboard_sessions_expires_at on svc_meta.dashboard_sessions (expires_at);

revoke all on svc_meta.dashboard_sessions from public, anon, authenticated, service_role;
`,
};
