// A second port for whoever operates the service: metrics and probes, and nothing else. It asks for no key, so it is meant
// for this machine or a closed network, and a page in a browser cannot reach it by a name of its own.
import { isIP, type AddressInfo } from 'node:net';
import fastify, { type FastifyInstance } from 'fastify';
import { toBody } from '../../http/refusal-format.ts';
import { codeOf } from '../../lib/error-code.ts';
import { Problem } from '../../problem/problem.ts';
import type { AdminAddress } from './admin-address.ts';
import { registerHealth, type HealthState } from './health.ts';
import type { ServerMetrics } from './metrics.ts';

export type AdminOptions = {
  readonly address: AdminAddress;
  /** Names it may be asked by, besides addresses and localhost. */
  readonly hosts: ReadonlySet<string>;
  readonly health: HealthState;
  readonly metrics: ServerMetrics;
};

/** SVC_ADMIN_HOSTS: names with commas between. */
export function adminHosts(env: Readonly<Record<string, string | undefined>>): ReadonlySet<string> {
  const names = (env['SVC_ADMIN_HOSTS'] ?? '').split(',').map((name) => name.trim().toLowerCase());
  return new Set(names.filter((name) => name !== ''));
}

/** Answers what closes it, and its port. */
export async function openAdmin({
  address,
  hosts,
  health,
  metrics,
}: AdminOptions): Promise<{ readonly port: number; close(): Promise<void> }> {
  const app = fastify({ forceCloseConnections: true });
  app.addHook('onRequest', (request, reply, done) => {
    const host = hostOf(request.headers.host);
    if (host === 'localhost' || isIP(host) !== 0 || hosts.has(host)) done();
    else void reply.code(421).send(toBody(unknownHost(host)));
  });
  registerHealth(app, health);
  metrics.register(app);
  await listen(app, address);
  const { port } = app.server.address() as AddressInfo;
  return { port, close: async () => await app.close() };
}

/** Without the port, and without the brackets of an IPv6 address. */
function hostOf(header = ''): string {
  const [, inBrackets, plain = ''] = /^(?:\[([^\]]*)\]|([^:]*))(?::\d*)?$/.exec(header) ?? [];
  return (inBrackets ?? plain).toLowerCase();
}

function unknownHost(host: string): Problem {
  return new Problem('unknown_host', 421, `${JSON.stringify(host)} is no name of the admin port`, {
    hint: 'Ask by address, or list the name in SVC_ADMIN_HOSTS.',
  });
}

async function listen(app: FastifyInstance, { host, port }: AdminAddress): Promise<void> {
  try {
    await app.listen({ host, port });
  } catch (cause) {
    throw new Problem('admin_port_unusable', 500, `The admin port ${host}:${port} cannot be opened`, {
      details: codeOf(cause) ?? String(cause),
      hint: 'Stop what listens there, or choose another with --admin or SVC_ADMIN_LISTEN.',
      cause,
    });
  }
}
