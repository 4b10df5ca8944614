// A TCP server for a test on a free port of this machine, and URLs that go through it.
import { once } from 'node:events';
import type { Server, Socket } from 'node:net';

export type LoopbackServer = {
  readonly port: number;
  /** The address with its host and port replaced by the server's. */
  readonly through: (url: string) => string;
  /** Ends `sockets` and the server. */
  close(sockets: Iterable<Socket>): Promise<void>;
};

export async function listenOnLoopback(server: Server): Promise<LoopbackServer> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  const { port } = address;
  return {
    port,
    through(url) {
      const changed = new URL(url);
      changed.host = `127.0.0.1:${port}`;
      return changed.href;
    },
    async close(sockets) {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
