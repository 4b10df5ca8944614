// Where the port for metrics and probes is.
import { Problem } from '../../problem/problem.ts';

export type AdminAddress = { readonly host: string; readonly port: number };

const LOOPBACK = '127.0.0.1';
const HIGHEST_PORT = 65_535;
const SHAPE = /^(?:(?<host>[^:[\]]+|\[[\d.:a-f]+\]):)?(?<port>\d{1,5})$/i;

/** `[host:]port`. Without a host only programs of this machine reach it. */
export function parseAdminAddress(text: string): AdminAddress {
  const { host = LOOPBACK, port } = SHAPE.exec(text)?.groups ?? {};
  if (port !== undefined && Number(port) <= HIGHEST_PORT)
    return { host: host.replace(/^\[(.*)\]$/, '$1'), port: Number(port) };
  throw new Problem('bad_admin_address', 500, `${JSON.stringify(text)} is no address for --admin`, {
    hint: 'It is a port (9464), or an address and a port (0.0.0.0:9464); SVC_ADMIN_LISTEN takes the same.',
  });
}
