// What the routes under /dashboard/api are given.
import type { FastifyInstance } from 'fastify';
import type { Variables } from '../config/read/interpolate.ts';
import type { Functions } from '../functions/functions.ts';
import type { FeatureContext } from '../http/feature.ts';
import type { ApiKeys } from '../identity/api-key.ts';
import type { MigrationPolicy } from '../migrate/migrate.ts';
import type { RecentLines } from '../log/recent-lines.ts';
import type { DashboardMode } from './contract.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** What a route of the dashboard's API asks for; `read` when absent. */
    dashboard?: 'public' | 'read' | 'write';
  }
}

/** What the server hands over beside what every feature gets. */
export type DashboardSettings = {
  readonly mode: DashboardMode;
  readonly keys: ApiKeys;
  readonly functions: Functions;
  readonly recentLines: RecentLines;
  /** Where the built page is; undefined takes this package's own. */
  readonly pageDirectory?: string | undefined;
  readonly following?: Following | undefined;
};

/** How the service follows svc.yaml, so that a change made here is judged as its reload will judge it. */
export type Following = {
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

/** One file a page: adds its routes below `/dashboard/api`. */
export type DashboardRoutes = (app: FastifyInstance, context: DashboardContext) => void;
