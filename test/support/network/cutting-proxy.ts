// A proxy to PostgreSQL that cuts each connection after a random number of bytes, anywhere in a message.
import { connect, createServer, type Socket } from 'node:net';
import { listenOnLoopback } from './loopback-server.ts';

export type CuttingProxy = {
  /** The address with its host and port replaced by the proxy's. */
  through(url: string): string;
  /** How many connections were cut. */
  readonly cuts: number;
  close(): Promise<void>;
};

/** Bytes are counted in both directions together. */
export async function startCuttingProxy(
  target: string,
  { leastBytes, mostBytes }: { readonly leastBytes: number; readonly mostBytes: number },
): Promise<CuttingProxy> {
  const { hostname, port } = new URL(target);
  const sockets = new Set<Socket>();
  let cuts = 0;
  const keep = (socket: Socket): Socket => {
    sockets.add(socket);
    return socket.on('error', () => {}).on('close', () => sockets.delete(socket));
  };
  const server = createServer((client) => {
    keep(client);
    const upstream = keep(connect(Number(port || '5432'), hostname));
    let left = leastBytes + Math.floor(Math.random() * (mostBytes - leastBytes));
    const passOn = (from: Socket, to: Socket): void => {
      from.on('data', (bytes: Buffer) => {
        if (left <= 0) return;
        to.write(bytes.subarray(0, left));
        left -= bytes.length;
        if (left > 0) return;
        cuts += 1;
        // Data that was passed on still arrives.
        client.destroySoon();
        upstream.destroySoon();
      });
      from.on('close', () => to.destroySoon());
    };
    passOn(client, upstream);
    passOn(upstream, client);
  });
  const listening = await listenOnLoopback(server);
  return {
    through: listening.through,
    get cuts() {
      return cuts;
    },
    close: () => listening.close(sockets),
  };
}
