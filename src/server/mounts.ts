// Where each API is mounted.
import { auth } from '../auth/auth.ts';
import { createDashboard } from '../dashboard-api/dashboard.ts';
import type { DashboardSettings } from '../dashboard-api/dashboard-context.ts';
import type { Functions } from '../functions/functions.ts';
import type { ApiKeys } from '../identity/api-key.ts';
import { rest } from '../rest/rest.ts';
import { createStorage } from '../storage/storage.ts';
import { deriveUrlKey } from '../storage/url-token.ts';
import type { Mount } from './app.ts';

/** Undefined serves none: its paths are then as unknown as any other. */
export type DashboardOptions = Omit<DashboardSettings, 'keys' | 'functions'>;

export function createMounts(
  keys: ApiKeys,
  functions: Functions,
  dashboard: DashboardOptions | undefined,
): readonly Mount[] {
  const storage = createStorage({
    urlKey: deriveUrlKey(keys.secret),
    publishableKey: keys.publishable,
  });
  return [
    { prefix: '/rest/v1', feature: rest },
    { prefix: '/auth/v1', feature: auth },
    { prefix: '/storage/v1', feature: storage.feature },
    { prefix: '/functions/v1', feature: functions.feature },
    ...(dashboard
      ? [{ prefix: '/dashboard', feature: createDashboard({ ...dashboard, keys, functions }) }]
      : []),
  ];
}
