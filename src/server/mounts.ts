// Where each API is mounted.
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

/** Undefined serves none: its paths are then as unknown as any other. */
export type DashboardOptions = Omit<DashboardSettings, 'keys' | 'functions' | 'realtime' | 'statementCounts'>;

export type MountOptions = {
  readonly keys: ApiKeys;
  readonly functions: Functions;
  readonly realtime: Realtime;
  readonly dashboard?: DashboardOptions | undefined;
  /** What the dashboard shows of statements; there is one where there is a dashboard. */
  readonly statementCounts?: StatementCounts | undefined;
  /** Storage keeps its books on connections of its own: a lock on the tables of auth must not stop public files. */
  readonly storageOwner: OwnerDatabase;
  /** Connections past any pooler, for locks that are held over many statements. */
  readonly sessions: OwnerDatabase;
};

export type Mounts = {
  readonly mounts: readonly Mount[];
  /** Throws a Problem when the files of this project are elsewhere. */
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
