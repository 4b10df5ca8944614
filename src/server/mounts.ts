// Mounts the APIs at their paths.
import { auth } from '../auth/auth.ts';
import { authFormat } from '../auth/problem.ts';
import { createDashboard } from '../dashboard-api/dashboard.ts';
import type { Config } from '../config/config.ts';
import type { DashboardSettings } from '../dashboard-api/dashboard-context.ts';
import type { Functions } from '../functions/functions.ts';
import { functionsFormat } from '../functions/problem.ts';
import type { ApiKeys } from '../identity/api-key.ts';
import type { StatementCounts } from '../postgres/pool/statement-counts.ts';
import type { OwnerDatabase } from '../postgres/owner-database.ts';
import { realtimeFormat } from '../realtime/problem.ts';
import type { Realtime } from '../realtime/realtime.ts';
import { restFormat } from '../rest/respond/wire-error.ts';
import { rest } from '../rest/rest.ts';
import { storageFormat } from '../storage/problem.ts';
import { createStorage } from '../storage/storage.ts';
import { deriveUrlKey } from '../storage/objects/url-token.ts';
import type { Mount } from '../http/feature.ts';

/** Options of the dashboard. If they are undefined, there is no dashboard. */
export type DashboardOptions = Omit<DashboardSettings, 'keys' | 'functions' | 'realtime' | 'statementCounts'>;

export type MountOptions = {
  readonly keys: ApiKeys;
  readonly functions: Functions;
  readonly realtime: Realtime;
  readonly dashboard?: DashboardOptions | undefined;
  /** Statement statistics for the dashboard. Set if there is a dashboard. */
  readonly statementCounts?: StatementCounts | undefined;
  /** Owner connections of storage: a lock on the tables of auth must not block public files. */
  readonly storageOwner: OwnerDatabase;
  /** Connections that bypass any pooler, for locks that are held across statements. */
  readonly sessions: OwnerDatabase;
};

export type Mounts = {
  readonly mounts: readonly Mount[];
  /** Throws a Problem if the files of this project are in another place. */
  readonly verifyStorage: (config: Config) => Promise<void>;
};

export function createMounts({
  keys,
  functions,
  realtime,
  dashboard,
  statementCounts,
  storageOwner,
  sessions,
}: MountOptions): Mounts {
  const storage = createStorage({ urlKey: deriveUrlKey(keys.secret), sessions });
  const mounts: readonly Mount[] = [
    { prefix: '/rest/v1', feature: rest, format: restFormat },
    { prefix: '/auth/v1', feature: auth, format: authFormat },
    {
      prefix: '/storage/v1',
      feature: (context) => storage.feature({ ...context, owner: storageOwner }),
      format: storageFormat,
    },
    { prefix: '/functions/v1', feature: functions.feature, format: functionsFormat },
    { prefix: '/realtime/v1', feature: realtime.feature, format: realtimeFormat },
    ...(dashboard
      ? [
          {
            prefix: '/dashboard',
            feature: createDashboard({ ...dashboard, keys, functions, realtime, statementCounts }),
          },
        ]
      : []),
  ];
  return { mounts, verifyStorage: (config) => storage.verify(config) };
}
