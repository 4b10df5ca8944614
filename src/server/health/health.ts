// Probes. `/live`: the process responds. `/health`: it has started and serves. `/ready`: the database answers requests
// and accepts writes, the workers of code functions start, and no shutdown has begun. Load balancers use `/ready`.
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Problem } from '../../problem/problem.ts';
import type { Phase, Readiness } from './readiness.ts';

export type HealthState = {
  readonly phase: () => Phase;
  /** Problem for all requests while the instance must not serve. */
  readonly refusal?: () => Problem | undefined;
  /** Default: ready while it serves. */
  readonly readiness?: () => Readiness;
  /** Called for each request for `/ready`. */
  readonly onProbe?: () => void;
  /** Whether the database follows a newer file than this instance, which keeps serving and reports it. */
  readonly superseded?: () => boolean;
  /** How table changes reach sockets. Does not affect readiness. */
  readonly realtime?: () => string;
  /** Whether the client may see reasons and names, which reveal the internal network. */
  readonly isInsider?: (request: FastifyRequest) => boolean;
  /** Details that only insiders see, in addition to the reasons. */
  readonly details?: () => Readonly<Record<string, unknown>>;
};

export function registerHealth(app: FastifyInstance, state: HealthState): void {
  app.get('/live', async (_request, reply) => await reply.send({ status: 'alive' }));

  app.get('/health', async (_request, reply) => {
    const phase = state.phase();
    return await reply.code(phase === 'starting' ? 503 : 200).send({ status: phase });
  });

  app.get('/ready', async (request, reply) => {
    state.onProbe?.();
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
