// Migration policy of a reload of svc.yaml. The dashboard shows and checks a change with the same policy.
import type { Config } from '../config/config.ts';
import { DEV_POLICY, SERVE_POLICY, type MigrationPolicy } from '../migrate/apply/policy.ts';
import { digestConfig } from '../migrate/state/config-digest.ts';
import type { DashboardContext } from './dashboard-context.ts';

export function reloadPolicy(context: DashboardContext, { source }: Config): Partial<MigrationPolicy> {
  const { dev, following, snapshot } = context;
  return {
    ...(following?.policy?.(source) ?? (dev ? DEV_POLICY : SERVE_POLICY)),
    replaces: digestConfig(snapshot().config).hash,
    // Saving a shared file makes it the newest. A save against an older base is rejected.
    ...(following?.shared && { allowRollback: true }),
  };
}
