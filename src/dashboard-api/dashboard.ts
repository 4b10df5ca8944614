// Mounts the page and its API under `/dashboard`. One hook checks every request against the access that its route
// declares.
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Feature } from '../http/feature.ts';
import { actAsRoutes } from './routes/act-as.ts';
import type { DashboardContext, DashboardSettings } from './dashboard-context.ts';
import { isForeignFetch, ownOrigin } from './session/own-origin.ts';
import { pageRoutes, securityHeaders } from './page.ts';
import { foreignOrigin, noCsrfToken, notFound, readOnly, signedOut } from './problem.ts';
import { authSettingsRoutes } from './routes/auth-settings.ts';
import { codeFunctionRoutes } from './routes/code-functions.ts';
import { configRoutes } from './routes/config-change.ts';
import { policiesRoutes } from './routes/explain-policies.ts';
import { logRoutes } from './routes/logs.ts';
import { mailPageRoutes } from './routes/mail-page.ts';
import { mailRoutes } from './routes/mail.ts';
import { overviewRoutes } from './routes/overview.ts';
import { realtimeRoutes } from './routes/realtime.ts';
import { addRoutes, type DashboardRoutes } from './routes/route.ts';
import { sqlFunctionRoutes } from './routes/sql-functions.ts';
import { statementsRoutes } from './routes/statements.ts';
import { tablesRoutes } from './routes/tables.ts';
import { userRoutes } from './routes/users.ts';
import { sessionRoutes } from './routes/session.ts';
import { DashboardSessions, isCsrfToken, readCookie, type DashboardSession } from './session/session.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Dashboard session of the request; null on public routes and outside the dashboard. */
    dashboardSession: DashboardSession | null;
  }
}

const PAGES: readonly DashboardRoutes[] = [
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
  statementsRoutes,
  configRoutes,
];

export function createDashboard(settings: DashboardSettings): Feature {
  return (feature) => async (app) => {
    const context: DashboardContext = { ...feature, ...settings };
    const sessions = new DashboardSessions(context);
    app.decorateRequest('dashboardSession', null);
    app.addHook('onRoute', (route) => {
      // Disable CORS: only the dashboard page may read these responses, whatever CORS the file allows for the APIs.
      const routine = route.method === 'GET' || route.method === 'HEAD';
      route.config = { routine, ...route.config, cors: false };
    });
    app.addHook('onRequest', async (request, reply) => {
      reply.headers(securityHeaders());
      request.dashboardSession = await authorize(request, context, sessions);
    });
    pageRoutes(app, settings.pageDirectory);
    await app.register(async (api) => addApi(api, context, sessions), { prefix: '/api' });
  };
}

function addApi(api: FastifyInstance, context: DashboardContext, sessions: DashboardSessions): void {
  addRoutes(api, sessionRoutes(context, sessions));
  actAsRoutes(api, context);
  addRoutes(api, realtimeRoutes(sessions)(context, api));
  for (const routes of PAGES) addRoutes(api, routes(context, api));
  const rejectUnknownPath = (): never => {
    throw notFound('The dashboard has no such path');
  };
  api.all('/', rejectUnknownPath);
  api.all('/*', rejectUnknownPath);
}

/** Throws unless the request is allowed. */
async function authorize(
  request: FastifyRequest,
  context: DashboardContext,
  sessions: DashboardSessions,
): Promise<DashboardSession | null> {
  const access = request.routeOptions.config.dashboard ?? 'read';
  const changes = request.method !== 'GET' && request.method !== 'HEAD';
  let session: DashboardSession | null = null;
  if (access !== 'public') {
    session = (await sessions.find(readCookie(request.headers.cookie))) ?? null;
    if (!session) throw signedOut();
    if (isForeignFetch(request)) throw foreignOrigin();
  }
  // Sign-in is checked too: otherwise an attacker's page could sign the visitor in to another project (login CSRF).
  if (changes && (isForeignFetch(request) || !ownOrigin(request, context.baseUrl()))) throw foreignOrigin();
  if (changes && session && !isCsrfToken(request.headers['x-svc-csrf'], session)) throw noCsrfToken();
  if (access === 'write' && context.mode !== 'readwrite') throw readOnly();
  return session;
}
