// Data of the first page: health, versions, counts, pending migration steps.
import type { FastifyRequest } from 'fastify';
import type { Config } from '../../config/config.ts';
import { packageVersion } from '../../lib/package-files.ts';
import { checkPending } from '../../migrate/commands/plan.ts';
import { sql } from '../../postgres/sql.ts';
import type { Overview, Pending, SecretKey } from '../contract.ts';
import type { DashboardContext } from '../dashboard-context.ts';
import { reloadPolicy } from '../reload-policy.ts';
import { baseUrlFor } from '../request.ts';
import type { DashboardRoutes } from './route.ts';

type Figures = { users: number; bytes: number; version: string };

const VERSIONS = { svc: packageVersion(), node: process.versions.node };

export const overviewRoutes: DashboardRoutes = (context) => [
  ['GET', '/overview', 'read', (request) => describe(context, request)],
  ['GET', '/pending', 'read', () => readPending(context)],
  // POST, so that no link, prefetch or history entry can request it.
  ['POST', '/keys/secret', 'read', (request) => showSecretKey(context, request)],
];

async function describe(context: DashboardContext, request: FastifyRequest): Promise<Overview> {
  const { config } = context.snapshot();
  const { figures, ms } = await readFigures(context);
  const processes = [...((await context.processes?.()) ?? [])];
  return {
    project: {
      name: config.project.name ?? config.source.name,
      description: config.project.description ?? null,
      file: config.source.name,
    },
    url: baseUrlFor(request, context),
    dev: context.dev,
    mode: context.mode,
    publishableKey: context.keys.publishable,
    versions: { ...VERSIONS, postgres: figures?.version ?? '' },
    health: {
      database: figures ? 'ok' : 'unreachable',
      databaseMs: figures ? ms : null,
      uptimeMs: Math.round(process.uptime() * 1000),
      memoryBytes:
        processes.reduce((sum, { memoryBytes }) => sum + memoryBytes, 0) || process.memoryUsage.rss(),
      processes,
    },
    counts: { ...countObjects(config), users: figures?.users ?? 0 },
    databaseBytes: figures?.bytes ?? 0,
    openTables: config.tables
      .filter((table) => table.rls === 'absent')
      .map(({ schema, name }) => (schema === 'public' ? name : `${schema}.${name}`)),
  };
}

async function readPending(context: DashboardContext): Promise<Pending> {
  const { owner, log } = context;
  const { config } = context.snapshot();
  const found = await checkPending({ owner, config, log, policy: reloadPolicy(context, config) });
  if (found.kind !== 'pending') return { kind: found.kind };
  const problems = found.problems.map(({ code, at, place, message, hint }) => {
    return { code, at: place ?? at, message, hint };
  });
  return { kind: 'pending', steps: [...found.words], problems };
}

function showSecretKey({ keys, log }: DashboardContext, { id, ip }: FastifyRequest): SecretKey {
  log.info({ requestId: id, ip }, 'the secret key was shown on the dashboard');
  return { secretKey: keys.secret };
}

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
    log.warn({ err: error }, 'the dashboard could not read the state of the database');
    return { figures: undefined, ms: 0 };
  }
}

function countObjects(config: Config): Omit<Overview['counts'], 'users'> {
  const { tables, expose, storage, rpc, functions } = config;
  return {
    tables: tables.length + expose.relations.length,
    buckets: storage.length,
    sqlFunctions: rpc.length + expose.routines.length,
    codeFunctions: functions.length,
  };
}
