// What the routes under /dashboard/api work with.
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

/** What the server provides in addition to the context of every feature. */
export type DashboardSettings = {
  readonly mode: DashboardMode;
  readonly keys: ApiKeys;
  readonly functions: Functions;
  readonly realtime: Realtime;
  readonly recentLines: LineSource;
  /** What statements of requests cost in this process. */
  readonly statementCounts?: StatementCounts | undefined;
  /** Where several processes serve the file: the figures of each. */
  readonly processes?: (() => Promise<readonly ProcessFigures[]>) | undefined;
  /** Folder of the built page; by default the one in this package. */
  readonly pageDirectory?: string | undefined;
  readonly following?: Following | undefined;
  /** Why the database follows another file than this one, if it does. */
  readonly superseded?: (() => SupersededReport | undefined) | undefined;
};

/** How the service reloads svc.yaml, so that a change is checked here as the reload will check it. */
type Following = {
  /** Values of `${VAR}` as the next reload reads them; by default the environment over the files beside svc.yaml. */
  readonly variables?: (() => Variables) | undefined;
  /** `--strict`. */
  readonly strict?: boolean | undefined;
  /** Policy of a reload's migration. */
  readonly policy?: ((source: Source) => Partial<MigrationPolicy>) | undefined;
  /** Reloads the file; throws if it is refused. Absent under `svc dev`, where a watcher reloads. */
  readonly reload?: (() => Promise<void>) | undefined;
  /** The file is a row that all instances follow; absent where it is a file of this machine. */
  readonly shared?: SharedFile | undefined;
  /** Of several processes with the same files: lets the others load what this one has loaded. Part of `reload`. */
  readonly reloadOthers?: (() => Promise<void>) | undefined;
};

export type DashboardContext = FeatureContext & DashboardSettings;
