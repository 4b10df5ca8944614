// Requests that leave HTTP: the switch to the protocol of sockets. Only one path has it; any other request that asks for
// it is an ordinary request, and is answered like one.
import { STATUS_CODES, type IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import type { ClientReader } from '../http/client.ts';
import type { RefusalFormat } from '../http/refusal-format.ts';
import type { Log } from '../log/log.ts';
import { Problem } from '../problem/problem.ts';
import { loggedUrl } from './logged-url.ts';
import { refusalFields } from './request-path/request-line.ts';

export type UpgradeOptions = {
  /** Of the only URL, without its query. */
  readonly path: string;
  readonly accept: (
    request: IncomingMessage,
    socket: Duplex,
    head: Buffer,
    refuse: (problem: Problem) => void,
  ) => Promise<void>;
  /** What is answered whatever was asked: it starts, or an import is not finished. */
  readonly refusal: () => Problem | undefined;
  readonly format: RefusalFormat;
  readonly clients: ClientReader;
  readonly nextId: () => string;
  readonly log: Log;
};

/** Node's `shouldUpgradeCallback`. */
export function asksForSocket(request: IncomingMessage, path: string): boolean {
  const { upgrade = '' } = request.headers;
  return upgrade.toLowerCase() === 'websocket' && (request.url ?? '').split('?', 1)[0] === path;
}

/** Node's `upgrade` event. */
export function onUpgrade(
  options: UpgradeOptions,
): (request: IncomingMessage, socket: Duplex, head: Buffer) => void {
  const { log, clients } = options;
  return (request, socket, head) => {
    const requestId = options.nextId();
    const client = clients.read(request).address;
    const line = { requestId, client, url: loggedUrl(request.url ?? '') };
    // Until the protocol is switched nobody else listens, and an error without a listener ends the process.
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
    log.debug(line, 'socket asked for');
    options.accept(request, socket, head, refuse).then(
      () => void socket.off('error', failed),
      (error: unknown) => {
        log.error({ ...line, err: error }, 'fault');
        refuse(
          new Problem('internal_error', 500, 'Internal server error', {
            hint: `The log has more under request id ${requestId}.`,
          }),
        );
      },
    );
  };
}
