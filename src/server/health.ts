// Probes. `/live`: the process answers. `/health`: it is initialised and serves. `/ready`: the database answers
// requests and takes writes, the workers of code functions come up, and no shutdown has begun; this is the one for
// load balancers.
import type { FastifyInstance } from 'fastify';
import type { DatabaseState } from './database-readiness.ts';

export type HealthState = {
  readonly phase: () => 'starting' | 'serving' | 'draining';
  readonly database: () => Promise<DatabaseState>;
  /** Told of every question for `/ready`. */
  readonly asked?: () => void;
  /** False when code functions cannot run at all; absent where there are none. */
  readonly functionsHealthy?: () => boolean;
  /** The database follows a newer file than this instance: it serves, and says so. */
  readonly superseded?: () => boolean;
};

export function registerHealth(app: FastifyInstance, state: HealthState): void {
  app.get('/live', async (_request, reply) => await reply.send({ status: 'alive' }));

  app.get('/health', async (_request, reply) => {
    const phase = state.phase();
    return await reply.code(phase === 'starting' ? 503 : 200).send({ status: phase });
  });

  app.get('/ready', async (_request, reply) => {
    state.asked?.();
    const obstacle = await obstacleTo(state);
    if (obstacle === undefined)
      return await reply.send({
        status: 'ready',
        ...(state.superseded?.() === true && { schema: 'superseded' }),
      });
    return await reply.code(503).header('retry-after', '1').send({ status: obstacle });
  });
}

async function obstacleTo({ phase, database, functionsHealthy }: HealthState): Promise<string | undefined> {
  if (phase() !== 'serving') return phase();
  const answer = await database();
  if (answer !== 'ready') return answer;
  return functionsHealthy?.() === false ? 'function workers do not start' : undefined;
}
