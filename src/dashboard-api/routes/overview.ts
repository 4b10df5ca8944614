// The first page: is it well, which versions, what is there, what is pending.
import { localBaseUrl } from '../../auth/http/fastify.ts';
import type { Config } from '../../config/config.ts';
import { packageVersion } from '../../lib/package-version.ts';
import { checkPending, DEV_POLICY, SERVE_POLICY } from '../../migrate/migrate.ts';
import { sql } from '../../postgres/sql.ts';
import type { Overview, Pending, SecretKey } from '../contract.ts';
import type { DashboardContext, DashboardRoutes } from '../dashboard-context.ts';

type Figures = { users: number; bytes: number; version: string };

export const overviewRoutes: DashboardRoutes = (app, context) => {
  const versions = { svc: packageVersion(), node: process.versions.node };

  app.get('/overview', async (request, reply) => {
    const { config } = context.snapshot();
    const { figures, ms } = await readFigures(context);
    const overview: Overview = {
      project: {
        name: config.project.name ?? config.source.name,
        description: config.project.description ?? null,
        file: config.source.name,
      },
      url: context.baseUrl() ?? localBaseUrl(request),
      dev: context.dev,
      mode: context.mode,
      publishableKey: context.keys.publishable,
      versions: { ...versions, postgres: figures?.version ?? '' },
      health: {
        database: figures ? 'ok' : 'unreachable',
        databaseMs: figures ? ms : null,
        uptimeMs: Math.round(process.uptime() * 1000),
        memoryBytes: process.memoryUsage.rss(),
      },
      counts: { ...countsOf(config), users: figures?.users ?? 0 },
      databaseBytes: figures?.bytes ?? 0,
      openTables: config.tables
        .filter((table) => table.rls === 'absent')
        .map(({ schema, name }) => (schema === 'public' ? name : `${schema}.${name}`)),
    };
    return await reply.send(overview);
  });

  app.get('/pending', async (_request, reply) => {
    const { config } = context.snapshot();
    const policy = context.dev ? DEV_POLICY : SERVE_POLICY;
    const found = await checkPending({ owner: context.owner, config, log: context.log, policy });
    const pending: Pending =
      found.kind === 'pending'
        ? {
            kind: 'pending',
            steps: [...found.words],
            problems: found.problems.map(({ code, at, place, message, hint }) => ({
              code,
              at: place ?? at,
              message,
              hint,
            })),
          }
        : found;
    return await reply.send(pending);
  });

  // By POST, so that no link, prefetch or history ever asks for it.
  app.post('/keys/secret', async (request, reply) => {
    context.log.info({ requestId: request.id, ip: request.ip }, 'the secret key was shown on the dashboard');
    return await reply.send({ secretKey: context.keys.secret } satisfies SecretKey);
  });
};

async function readFigures({
  owner,
  log,
}: DashboardContext): Promise<{ figures: Figures | undefined; ms: number }> {
  const started = performance.now();
  try {
    const [figures] = await owner.query<Figures>(sql`
      select (select count(*)::float8 from auth.users where deleted_at is null) as users,
        pg_database_size(current_database())::float8 as bytes,
        split_part(current_setting('server_version'), ' ', 1) as version`);
    return { figures, ms: Math.round((performance.now() - started) * 10) / 10 };
  } catch (error) {
    log.warn({ err: error }, 'the dashboard could not ask the database how it is');
    return { figures: undefined, ms: 0 };
  }
}

function countsOf(config: Config): Omit<Overview['counts'], 'users'> {
  const { tables, expose, storage, rpc, functions } = config;
  return {
    tables: tables.length + expose.relations.length,
    buckets: storage.length,
    sqlFunctions: rpc.length + expose.routines.length,
    codeFunctions: functions.length,
  };
}
