// Parses the address of the admin port.
import { Problem } from '../../problem/problem.ts';

export type AdminAddress = { readonly host: string; readonly port: number };

const LOOPBACK = '127.0.0.1';
const MAX_PORT = 65_535;
const SHAPE = /^(?:(?<host>[^:[\]]+|\[[\d.:a-f]+\]):)?(?<port>\d{1,5})$/i;

/** Parses `[host:]port`. Without a host, only programs on this machine reach the port. */
export function parseAdminAddress(text: string): AdminAddress {
  const { host = LOOPBACK, port } = SHAPE.exec(text)?.groups ?? {};
  if (port !== undefined && Number(port) <= MAX_PORT)
    return { host: host.replace(/^\[(.*)\]$/, '$1'), port: Number(port) };
  throw new Problem('bad_admin_address', 500, `${JSON.stringify(text)} is not an address for --admin`, {
    hint: 'Use a port (9464), or an address and a port (0.0.0.0:9464). SVC_ADMIN_LISTEN has the same format.',
  });
}
