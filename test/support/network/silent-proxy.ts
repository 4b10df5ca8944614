// A proxy to PostgreSQL that can go silent like a host that loses power: nothing is closed, nothing is answered.
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { listenOnLoopback } from './loopback-server.ts';

export type SilentProxy = {
  /** The address with its host and port replaced by the proxy's. */
  through(url: string): string;
  /** Open connections go silent for ever, new ones until `recover`. */
  vanish(): void;
  /** Closes open connections. */
  reset(): void;
  /** Closes open connections. New connections get the error that the server is starting up. */
  restart(): void;
  /** Number of connections that got this error. */
  readonly refusals: number;
  /** Like a new host at the same address: new connections work. */
  recover(): void;
  close(): Promise<void>;
  /** After `close`: at the same address again. */
  reopen(): Promise<void>;
};

/** The message of PostgreSQL, byte by byte. */
const STARTING = errorResponse({
  S: 'FATAL',
  V: 'FATAL',
  C: '57P03',
  M: 'the database system is starting up',
  F: 'postmaster.c',
  L: '2359',
  R: 'ProcessStartupPacket',
});

function errorResponse(fields: Readonly<Record<string, string>>): Buffer {
  const text = Object.entries(fields)
    .map(([name, value]) => `${name}${value}\0`)
    .join('');
  const body = Buffer.from(`${text}\0`);
  const head = Buffer.from('E\0\0\0\0');
  head.writeInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
}

export async function startSilentProxy(target: string): Promise<SilentProxy> {
  const { hostname, port } = new URL(target);
  const pairs = new Set<readonly [Socket, Socket]>();
  const sockets = new Set<Socket>();
  let isAway = false;
  let isStarting = false;
  let refusals = 0;
  const keep = (socket: Socket): void => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
  };
  const server = createServer((client) => {
    keep(client);
    // Not read, so its bytes stay in the socket.
    if (isAway) return;
    if (isStarting) {
      client.once('data', () => {
        refusals += 1;
        client.end(STARTING);
      });
      return;
    }
    const upstream = connect(Number(port || '5432'), hostname);
    keep(upstream);
    const pair = [client, upstream] as const;
    pairs.add(pair);
    client.pipe(upstream).pipe(client);
    const end = (): void => {
      if (pairs.delete(pair)) for (const socket of pair) socket.destroy();
    };
    client.on('close', end);
    upstream.on('close', end);
  });
  const listening = await listenOnLoopback(server);
  return {
    through: listening.through,
    vanish() {
      isAway = true;
      for (const pair of pairs) {
        for (const socket of pair) {
          socket.unpipe();
          socket.pause();
        }
      }
      pairs.clear();
    },
    reset() {
      for (const pair of pairs) for (const socket of pair) socket.destroy();
    },
    restart() {
      isStarting = true;
      for (const pair of pairs) for (const socket of pair) socket.destroy();
    },
    get refusals() {
      return refusals;
    },
    recover() {
      isAway = false;
      isStarting = false;
    },
    close: () => listening.close(sockets),
    async reopen() {
      server.listen(listening.port, '127.0.0.1');
      await once(server, 'listening');
    },
  };
}
