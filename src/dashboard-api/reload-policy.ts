// How a reload of svc.yaml would migrate, so that what the dashboard shows and checks is what happens then.
import type { Config } from '../config/config.ts';
import { DEV_POLICY, SERVE_POLICY, type MigrationPolicy } from '../migrate/apply/policy.ts';
import { digestConfig } from '../migrate/state/config-digest.ts';
import type { DashboardContext } from './dashboard-context.ts';

export function reloadPolicy(context: DashboardContext, { source }: Config): Partial<MigrationPolicy> {
  const { dev, following, snapshot } = context;
  return {
    ...(following?.policy?.(source) ?? (dev ? DEV_POLICY : SERVE_POLICY)),
    replaces: digestConfig(snapshot().config).hash,
    // A shared file becomes the newest by being saved, and is refused on an older base.
    ...(following?.shared && { allowRollback: true }),
  };
}
