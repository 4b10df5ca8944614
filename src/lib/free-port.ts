import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';

/** Range of ports below those that Linux (from 32768) and macOS (from 49152) use for outgoing connections. */
const MIN_PORT = 15_000;
const MAX_PORT = 32_000;
const ATTEMPTS = 20;

/**
 * Returns an unused TCP port of this machine. If possible, it is outside the range of outgoing connections, so that
 * the system does not assign it before the caller listens.
 */
export async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    const port = randomInt(MIN_PORT, MAX_PORT);
    if ((await listenOnce(port)) !== undefined) return port;
  }
  const port = await listenOnce(0);
  if (port === undefined) throw new Error('this machine has no free TCP port');
  return port;
}

/** The port it could listen on, or undefined. */
async function listenOnce(port: number): Promise<number | undefined> {
  const server = createServer();
  try {
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
  } catch {
    return undefined;
  }
  const { port: taken } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return taken;
}
