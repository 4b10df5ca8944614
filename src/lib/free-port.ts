import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';

/** Below the ports that Linux (from 32768) and macOS (from 49152) give to outgoing connections. */
const LOWEST = 15_000;
const HIGHEST = 32_000;
const ATTEMPTS = 20;

/**
 * A TCP port of this machine that nothing listens on at the moment. Where it can be had it is not one that the system
 * might hand to an outgoing connection before the caller listens on it.
 */
export async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    const port = randomInt(LOWEST, HIGHEST);
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
