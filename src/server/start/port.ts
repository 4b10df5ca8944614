// Opens the port of a backend, builds its URL and counts its connections.
import type { AddressInfo, Server } from 'node:net';
import type { App } from '../app.ts';
import { portProblem } from '../port.ts';

export async function openPort(app: App, host: string, port: number): Promise<void> {
  try {
    await app.server.listen({ host, port });
  } catch (cause) {
    throw portProblem(cause, port) ?? cause;
  }
}

export function listenUrl(app: App, host: string): string {
  const address = app.server.server.address() as AddressInfo;
  const shown = host === '0.0.0.0' || host === '::' ? 'localhost' : host;
  return `http://${shown.includes(':') ? `[${shown}]` : shown}:${address.port}`;
}

/** Returns the URL at which processes of this machine reach the server. */
export function loopbackUrl(app: App, port: number): string {
  const address = app.server.server.address() as AddressInfo | null;
  return `http://localhost:${address?.port ?? port}`;
}

export function countConnections(server: Server): Promise<number> {
  return new Promise((resolve, reject) => {
    server.getConnections((error, count) => (error ? reject(error) : resolve(count)));
  });
}
