// What the routes under /dashboard/api work with.
import type { Variables } from '../config/read/interpolate.ts';
import type { Functions } from '../functions/functions.ts';
import type { FeatureContext } from '../http/feature.ts';
import type { ApiKeys } from '../identity/api-key.ts';
import type { MigrationPolicy } from '../migrate/apply/policy.ts';
import type { RecentLines } from '../log/recent-lines.ts';
import type { DashboardMode } from './contract.ts';

/** What the server provides in addition to the context of every feature. */
export type DashboardSettings = {
  readonly mode: DashboardMode;
  readonly keys: ApiKeys;
  readonly functions: Functions;
  readonly recentLines: RecentLines;
  /** Where the built page is; undefined takes this package's own. */
  readonly pageDirectory?: string | undefined;
  readonly following?: Following | undefined;
};

/** How the service reloads svc.yaml, so that a change is checked here as the reload will check it. */
type Following = {
  /** Values of `${VAR}` as the next reload reads them; by default the environment over the files beside svc.yaml. */
  readonly variables?: (() => Variables) | undefined;
  /** `--strict`. */
  readonly strict?: boolean | undefined;
  /** What a reload's migration may do. */
  readonly policy?: Partial<MigrationPolicy> | undefined;
  /** Takes the file as it is now, and throws when it is refused; absent where a watcher does it (`svc dev`). */
  readonly reload?: (() => Promise<void>) | undefined;
};

export type DashboardContext = FeatureContext & DashboardSettings;
