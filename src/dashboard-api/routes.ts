// Every page's routes below /dashboard/api.
import { codeFunctionRoutes } from './code-functions.ts';
import type { DashboardRoutes } from './dashboard-context.ts';
import { logRoutes } from './logs.ts';
import { overviewRoutes } from './overview.ts';

export const ROUTES: readonly DashboardRoutes[] = [overviewRoutes, codeFunctionRoutes, logRoutes];
