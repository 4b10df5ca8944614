// A second port for the operator, with metrics and probes only. It needs no key, so it is meant for this machine or a
// closed network. It checks the Host header, so that a web page cannot reach it through its own DNS name.
import { isIP, type AddressInfo } from 'node:net';
import fastify, { type FastifyInstance } from 'fastify';
import { toBody } from '../../http/refusal-format.ts';
import { errorCode } from '../../lib/error-code.ts';
import { Problem } from '../../problem/problem.ts';
import type { AdminAddress } from './admin-address.ts';
import { registerHealth, type HealthState } from './health.ts';
import type { ServerMetrics } from './metrics.ts';

export type AdminOptions = {
  readonly address: AdminAddress;
  /** Host names that are accepted, in addition to addresses and localhost. */
  readonly hosts: ReadonlySet<string>;
  readonly health: HealthState;
  readonly metrics: ServerMetrics;
};

/** Reads SVC_ADMIN_HOSTS: host names, separated by commas. */
export function adminHosts(env: Readonly<Record<string, string | undefined>>): ReadonlySet<string> {
  const names = (env['SVC_ADMIN_HOSTS'] ?? '').split(',').map((name) => name.trim().toLowerCase());
  return new Set(names.filter((name) => name !== ''));
}

/** Opens the port. Returns its number and a function that closes it. */
export async function openAdmin({
  address,
  hosts,
  health,
  metrics,
}: AdminOptions): Promise<{ readonly port: number; close(): Promise<void> }> {
  const app = fastify({ forceCloseConnections: true });
  app.addHook('onRequest', (request, reply, done) => {
    const host = parseHost(request.headers.host);
    if (host === 'localhost' || isIP(host) !== 0 || hosts.has(host)) done();
    else void reply.code(421).send(toBody(unknownHost(host)));
  });
  registerHealth(app, health);
  metrics.register(app);
  await listen(app, address);
  const { port } = app.server.address() as AddressInfo;
  return { port, close: async () => await app.close() };
}

/** Returns the host without the port, and without the brackets of an IPv6 address. */
function parseHost(header = ''): string {
  const [, inBrackets, plain = ''] = /^(?:\[([^\]]*)\]|([^:]*))(?::\d*)?$/.exec(header) ?? [];
  return (inBrackets ?? plain).toLowerCase();
}

function unknownHost(host: string): Problem {
  return new Problem('unknown_host', 421, `${JSON.stringify(host)} is not a host name of the admin port`, {
    hint: 'Use the IP address, or add the name to SVC_ADMIN_HOSTS.',
  });
}

async function listen(app: FastifyInstance, { host, port }: AdminAddress): Promise<void> {
  try {
    await app.listen({ host, port });
  } catch (cause) {
    throw new Problem('admin_port_unusable', 500, `The admin port ${host}:${port} cannot be opened`, {
      details: errorCode(cause) ?? String(cause),
      hint: 'Stop the program that uses it, or choose another port with --admin or SVC_ADMIN_LISTEN.',
      cause,
    });
  }
}
