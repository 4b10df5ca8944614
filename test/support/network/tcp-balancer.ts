// A balancer of TCP connections. Each new connection goes to the next instance that accepts it, and ends with it.
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';

export type TcpBalancer = {
  readonly url: string;
  /** Sends no new connections to an instance. Open connections remain. */
  remove(url: string): void;
  stop(): Promise<void>;
};

export async function startTcpBalancer(urls: readonly string[]): Promise<TcpBalancer> {
  const targets = new Set(urls);
  const sockets = new Set<Socket>();
  let next = 0;
  const server = createServer((client) => {
    sockets.add(client);
    client.on('error', () => {});
    const tried = [...targets];
    const from = next++;
    const attempt = (at: number): void => {
      const url = tried[(from + at) % Math.max(tried.length, 1)];
      if (at >= tried.length || url === undefined) {
        client.destroy();
        return;
      }
      const onward = connect(Number(new URL(url).port), '127.0.0.1');
      let isOpen = false;
      onward.on('connect', () => {
        isOpen = true;
        sockets.add(onward);
        client.pipe(onward).pipe(client);
      });
      onward.on('error', () => {
        if (isOpen) client.destroy();
        else attempt(at + 1);
      });
      onward.on('close', () => {
        if (isOpen) client.destroy();
      });
      client.on('close', () => onward.destroy());
    };
    attempt(0);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    remove: (url) => void targets.delete(url),
    async stop() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
