// Probes. `/live`: the process answers. `/health`: it is initialised and serves. `/ready`: the database answers
// requests and takes writes, the workers of code functions come up, and no shutdown has begun; this is the one for
// load balancers.
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Problem } from '../../problem/problem.ts';
import type { Phase, Readiness } from './readiness.ts';

export type HealthState = {
  readonly phase: () => Phase;
  /** What every request is refused with while there is a reason not to serve. */
  readonly refusal?: () => Problem | undefined;
  /** Without it: ready while it serves. */
  readonly readiness?: () => Readiness;
  /** Told of every question for `/ready`. */
  readonly asked?: () => void;
  /** The database follows a newer file than this instance: it serves, and says so. */
  readonly superseded?: () => boolean;
  /** How changes of tables reach sockets. They do not decide whether requests are served. */
  readonly realtime?: () => string;
  /** Whether reasons and names may be shown: they tell of the inside of a network. */
  readonly isInsider?: (request: FastifyRequest) => boolean;
  /** What only insiders see beside the reasons. */
  readonly details?: () => Readonly<Record<string, unknown>>;
};

export function registerHealth(app: FastifyInstance, state: HealthState): void {
  app.get('/live', async (_request, reply) => await reply.send({ status: 'alive' }));

  app.get('/health', async (_request, reply) => {
    const phase = state.phase();
    return await reply.code(phase === 'starting' ? 503 : 200).send({ status: phase });
  });

  app.get('/ready', async (request, reply) => {
    state.asked?.();
    const readiness = state.readiness?.();
    const isReady = readiness?.isReady ?? state.phase() === 'serving';
    if (!isReady) reply.code(503).header('retry-after', '1');
    if (!readiness) return await reply.send({ status: isReady ? 'ready' : state.phase() });
    const { status, since, checks, reasons, degraded } = readiness;
    return await reply.header('cache-control', 'no-store').send({
      status,
      since,
      checks,
      ...(state.superseded?.() === true && { schema: 'superseded' }),
      ...(state.realtime && { realtime: state.realtime() }),
      ...(state.isInsider?.(request) === true && { reasons, degraded, ...state.details?.() }),
    });
  });
}
