// Reverse proxies that name the client in X-Forwarded-For: a small one that always runs, and HAProxy (a
// Debian package).
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, request as httpRequest } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../../../src/lib/free-port.ts';

export type ForwardingProxy = { readonly url: string; stop(): Promise<void> };

const HAPROXY = ['/usr/sbin/haproxy', '/usr/local/sbin/haproxy', '/opt/homebrew/bin/haproxy'].find(
  (path) => spawnSync(path, ['-v']).status === 0,
);

/** Why HAProxy cannot be used here. */
export const withoutHaproxy: string | undefined =
  HAPROXY === undefined ? 'HAProxy is not installed (apt-get install haproxy)' : undefined;

export async function startSmallProxy(target: string): Promise<ForwardingProxy> {
  const { hostname, port } = new URL(target);
  const server = createServer((request, response) => {
    const { method, url: path, headers } = request;
    const before = headers['x-forwarded-for'];
    const peer = request.socket.remoteAddress ?? '';
    const forwarded = before === undefined ? peer : `${String(before)}, ${peer}`;
    const onward = httpRequest(
      { host: hostname, port, method, path, headers: { ...headers, 'x-forwarded-for': forwarded } },
      (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(response);
      },
    );
    onward.on('error', () => response.destroy());
    request.pipe(onward);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port: own } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${own}`,
    async stop() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

export async function startHaproxy(target: string): Promise<ForwardingProxy> {
  if (HAPROXY === undefined) throw new Error(withoutHaproxy);
  const { host } = new URL(target);
  const folder = mkdtempSync(join(tmpdir(), 'svc-haproxy-'));
  const port = await freePort();
  const file = join(folder, 'haproxy.cfg');
  writeFileSync(
    file,
    `defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  option forwardfor
frontend front
  bind 127.0.0.1:${port}
  default_backend svc
backend svc
  server one ${host}
`,
  );
  const child = spawn(HAPROXY, ['-db', '-f', file], { stdio: 'ignore' });
  while (!(await accepts(port))) {
    if (child.exitCode !== null) throw new Error(`HAProxy ended with ${child.exitCode}`);
  }
  return {
    url: `http://127.0.0.1:${port}`,
    async stop() {
      child.kill('SIGTERM');
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function accepts(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  const isOpen = await new Promise<boolean>((resolve) => {
    socket.once('connect', () => resolve(true)).once('error', () => setTimeout(() => resolve(false), 20));
  });
  socket.destroy();
  return isOpen;
}
