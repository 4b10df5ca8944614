// What the routes under /dashboard/api are given.
import type { FastifyInstance } from 'fastify';
import type { Functions } from '../functions/functions.ts';
import type { FeatureContext } from '../http/feature.ts';
import type { ApiKeys } from '../identity/api-key.ts';
import type { DashboardMode } from './contract.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** What a route of the dashboard's API asks for; `read` when absent. */
    dashboard?: 'public' | 'read' | 'write';
  }
}

export type DashboardContext = FeatureContext & {
  readonly mode: DashboardMode;
  readonly keys: ApiKeys;
  readonly functions: Functions;
};

/** One file a page: adds its routes below `/dashboard/api`. */
export type DashboardRoutes = (app: FastifyInstance, context: DashboardContext) => void;
