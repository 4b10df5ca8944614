// Context of the routes under /dashboard/api.
import type { Source } from '../config/read/source.ts';
import type { Variables } from '../config/read/interpolate.ts';
import type { Functions } from '../functions/functions.ts';
import type { FeatureContext } from '../http/feature.ts';
import type { ApiKeys } from '../identity/api-key.ts';
import type { MigrationPolicy } from '../migrate/apply/policy.ts';
import type { SupersededReport } from '../migrate/commands/superseded-watch.ts';
import type { LineSource } from '../log/recent-lines.ts';
import type { StatementCounts } from '../postgres/pool/statement-counts.ts';
import type { Realtime } from '../realtime/realtime.ts';
import type { SharedFile } from './shared-file.ts';
import type { DashboardMode, ProcessFigures } from './contract.ts';

/** Settings of the server, in addition to the context of every feature. */
export type DashboardSettings = {
  readonly mode: DashboardMode;
  readonly keys: ApiKeys;
  readonly functions: Functions;
  readonly realtime: Realtime;
  readonly recentLines: LineSource;
  /** Cost of the statements that requests execute in this process. */
  readonly statementCounts?: StatementCounts | undefined;
  /** Returns the figures of each process, if several serve the file. */
  readonly processes?: (() => Promise<readonly ProcessFigures[]>) | undefined;
  /** Folder of the built page; defaults to the one in this package. */
  readonly pageDirectory?: string | undefined;
  readonly following?: Following | undefined;
  /** Returns why the database follows a different file than this instance, if it does. */
  readonly superseded?: (() => SupersededReport | undefined) | undefined;
};

/** How the service reloads svc.yaml. The dashboard checks a change in the same way. */
type Following = {
  /**
   * Values of `${VAR}` for the next reload. Defaults to the environment, then the env files in the directory of
   * svc.yaml.
   */
  readonly variables?: (() => Variables) | undefined;
  /** `--strict`. */
  readonly strict?: boolean | undefined;
  /** Migration policy of a reload. */
  readonly policy?: ((source: Source) => Partial<MigrationPolicy>) | undefined;
  /** Reloads the file; throws if it is rejected. Absent under `svc dev`, whose watcher reloads it. */
  readonly reload?: (() => Promise<void>) | undefined;
  /** The file is a database row shared by all instances. Absent for a local file. */
  readonly shared?: SharedFile | undefined;
  /** Makes the other processes of the same files load what this process has loaded. `reload` does this too. */
  readonly reloadOthers?: (() => Promise<void>) | undefined;
};

export type DashboardContext = FeatureContext & DashboardSettings;
