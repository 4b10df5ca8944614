// Every page's routes below /dashboard/api.
import { authSettingsRoutes } from './auth-settings.ts';
import { codeFunctionRoutes } from './code-functions.ts';
import { configRoutes } from './config-change.ts';
import { policiesRoutes } from './explain-policies.ts';
import { logRoutes } from './logs.ts';
import { mailPageRoutes } from './mail-page.ts';
import { mailRoutes } from './mail.ts';
import { overviewRoutes } from './overview.ts';
import type { DashboardRoutes } from './route.ts';
import { sqlFunctionRoutes } from './sql-functions.ts';
import { tablesRoutes } from './tables.ts';
import { userRoutes } from './users.ts';

export const PAGES: readonly DashboardRoutes[] = [
  overviewRoutes,
  tablesRoutes,
  policiesRoutes,
  sqlFunctionRoutes,
  codeFunctionRoutes,
  authSettingsRoutes,
  userRoutes,
  mailRoutes,
  mailPageRoutes,
  logRoutes,
  configRoutes,
];
