// Probes. `/live`: the process answers. `/health`: it is initialised and serves. `/ready`: the database is
// reachable, the workers of code functions come up, and no shutdown has begun; this is the one for load balancers.
import type { FastifyInstance } from 'fastify';
import { sql } from '../postgres/sql.ts';
import type { OwnerDatabase } from '../postgres/owner-database.ts';

/** A probe must answer before the prober gives up, whatever the database does. */
const PROBE_TIMEOUT_MS = 2_000;

export type HealthState = {
  readonly phase: () => 'starting' | 'serving' | 'draining';
  readonly owner: () => OwnerDatabase | undefined;
  /** False when code functions cannot run at all; absent where there are none. */
  readonly functionsWell?: () => boolean;
};

export function registerHealth(app: FastifyInstance, state: HealthState): void {
  app.get('/live', async (_request, reply) => await reply.send({ status: 'alive' }));

  app.get('/health', async (_request, reply) => {
    const phase = state.phase();
    return await reply.code(phase === 'starting' ? 503 : 200).send({ status: phase });
  });

  app.get('/ready', async (_request, reply) => {
    const phase = state.phase();
    if (phase !== 'serving') return await reply.code(503).header('retry-after', '1').send({ status: phase });
    const owner = state.owner();
    const reachable = owner !== undefined && (await answers(owner));
    if (!reachable) {
      return await reply.code(503).header('retry-after', '1').send({ status: 'database unreachable' });
    }
    if (state.functionsWell?.() === false) {
      return await reply
        .code(503)
        .header('retry-after', '1')
        .send({ status: 'function workers do not start' });
    }
    return await reply.send({ status: 'ready' });
  });
}

async function answers(owner: OwnerDatabase): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(false), PROBE_TIMEOUT_MS);
  });
  const probe = owner.query(sql`select 1`).then(
    () => true,
    () => false,
  );
  try {
    return await Promise.race([probe, timeout]);
  } finally {
    clearTimeout(timer);
  }
}
