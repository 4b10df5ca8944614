// Upgrades requests to WebSockets. Only one path supports it. Any other request with an `Upgrade` header is answered
// like an ordinary request.
import { STATUS_CODES, type IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import type { BrowserKeyWatch } from '../http/browser-key.ts';
import type { Client, ClientReader } from '../http/client.ts';
import { originForm } from '../http/request-target.ts';
import type { RefusalFormat } from '../http/refusal-format.ts';
import type { Log } from '../log/log.ts';
import { Problem } from '../problem/problem.ts';
import { loggedUrl } from './logged-url.ts';
import { refusalFields } from './request-path/request-line.ts';

export type UpgradeOptions = {
  /** The only path with sockets. */
  readonly path: string;
  readonly accept: (upgrade: {
    readonly request: IncomingMessage;
    readonly socket: Duplex;
    readonly head: Buffer;
    readonly client: Client;
    readonly refuse: (problem: Problem) => void;
  }) => Promise<void>;
  /** Problem for all requests, during a start or an unfinished import. */
  readonly refusal: () => Problem | undefined;
  readonly format: RefusalFormat;
  readonly clients: ClientReader;
  readonly nextId: () => string;
  readonly log: Log;
  readonly browserKeys: BrowserKeyWatch;
};

/** Implements Node's `shouldUpgradeCallback`. */
export function requestsSocket(request: IncomingMessage, path: string): boolean {
  const { upgrade = '' } = request.headers;
  return upgrade.toLowerCase() === 'websocket' && originForm(request.url ?? '').split('?', 1)[0] === path;
}

/** Returns the handler of Node's `upgrade` event. */
export function onUpgrade(
  options: UpgradeOptions,
): (request: IncomingMessage, socket: Duplex, head: Buffer) => void {
  const { log, clients } = options;
  return (request, socket, head) => {
    const requestId = options.nextId();
    const client = clients.read(request);
    const line = { requestId, client: client.address, url: loggedUrl(request.url ?? '') };
    // There is no other listener before the upgrade, and an error event without a listener ends the process.
    const failed = (): void => void socket.destroy();
    socket.on('error', failed);
    const refuse = (problem: Problem): void => {
      const { status, headers, body } = options.format(problem, requestId);
      const head = {
        'Content-Type': 'application/json; charset=utf-8',
        ...headers,
        'Content-Length': String(Buffer.byteLength(body)),
        Connection: 'close',
        'X-Request-Id': requestId,
      };
      const lines = Object.entries(head).map(([name, value]) => `${name}: ${value}\r\n`);
      socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n${lines.join('')}\r\n${body}`);
      log.info({ ...line, status, ...refusalFields(problem) }, 'socket refused');
    };
    const refusal = options.refusal();
    if (refusal) {
      refuse(refusal);
      return;
    }
    options.browserKeys.check(request.headers, (request.url ?? '').split('?', 2)[1] ?? '');
    log.debug(line, 'socket asked for');
    options.accept({ request, socket, head, client, refuse }).then(
      () => void socket.off('error', failed),
      (error: unknown) => {
        log.error({ ...line, err: error }, 'fault');
        refuse(
          new Problem('internal_error', 500, 'Internal server error', {
            hint: `Search the log for request id ${requestId}.`,
          }),
        );
      },
    );
  };
}
