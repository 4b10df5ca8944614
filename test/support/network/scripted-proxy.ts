// A proxy to PostgreSQL that parses the frames it passes on and can answer instead of the server, byte for byte. It
// imitates answers that a server, or a pooler in front of it, gives only while it fails.
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { listenOnLoopback } from './loopback-server.ts';

/** Script for one batch. Nothing is sent to the server unless it calls `pass`. */
export type Turn = {
  /** Writes to the client. */
  readonly send: (...messages: readonly Buffer[]) => void;
  /** Closes the connection of the client after the sent bytes. */
  readonly hangUp: () => void;
  /** Sends the batch to the server. `atEnd` receives ReadyForQuery instead of the client. */
  readonly pass: (atEnd?: (ready: Buffer) => void) => void;
};

/** Answers a login instead of the server. */
export type Opening = (turn: Pick<Turn, 'send' | 'hangUp'>) => void;

export type ScriptedProxy = {
  through(url: string): string;
  /**
   * Sets scripts for batches that contain `marker`, in order; the last one stays. Returns the number of
   * such batches.
   */
  script(marker: string, ...scripts: ReadonlyArray<(turn: Turn) => void>): { readonly sent: number };
  /** Called for each connection of the request pool. Without an opening the login goes to the server. */
  onOpening(choose: () => Opening | undefined): void;
  /** Closes the connections of the request pool. Resolves when the pool has closed its side. */
  reset(): Promise<void>;
  close(): Promise<void>;
};

const STARTUP_VERSION = 196_608;
/** Application name of the scripted connections. */
const REQUESTS = 'user\0authenticator\0';

export async function startScriptedProxy(target: string): Promise<ScriptedProxy> {
  const { hostname, port } = new URL(target);
  const sockets = new Set<Socket>();
  const requests = new Set<Socket>();
  const scripts = new Map<string, { sent: number; run: ReadonlyArray<(turn: Turn) => void> }>();
  let chooseOpening: () => Opening | undefined = () => undefined;

  const keep = (socket: Socket): Socket => {
    sockets.add(socket);
    return socket.on('error', () => {}).on('close', () => sockets.delete(socket));
  };

  const server = createServer((client) => {
    keep(client);
    const upstream = keep(connect(Number(port || '5432'), hostname));
    client.on('close', () => upstream.destroy());
    upstream.on('close', () => client.destroySoon());
    let atEnd: ((ready: Buffer) => void) | undefined;
    let isStarting = true;
    const send = (...messages: readonly Buffer[]): void => {
      if (client.writable) client.write(Buffer.concat(messages));
    };
    const hangUp = (): void => client.destroySoon();

    const fromServer = frames(
      () => isStarting,
      (frame) => {
        if (frame[0] === 0x5a && atEnd) {
          const end = atEnd;
          atEnd = undefined;
          end(frame);
        } else send(frame);
      },
    );
    upstream.on('data', fromServer);

    let batch: Buffer[] = [];
    const fromClient = frames(
      () => isStarting,
      (frame, isUntyped) => {
        if (isUntyped) {
          const isStartup = frame.readInt32BE(4) === STARTUP_VERSION;
          if (isStartup) isStarting = false;
          if (isStartup && frame.includes(REQUESTS)) {
            requests.add(client);
            client.on('close', () => requests.delete(client));
            const opening = chooseOpening();
            if (opening) {
              opening({ send, hangUp });
              return;
            }
          }
          if (upstream.writable) upstream.write(frame);
          return;
        }
        batch.push(frame);
        // Sync, a simple query, a password and Terminate complete a batch, which is then passed on.
        if (!'SQpX'.includes(String.fromCharCode(frame[0] ?? 0))) return;
        const bytes = Buffer.concat(batch);
        batch = [];
        const found = [...scripts].find(([marker]) => bytes.includes(marker))?.[1];
        if (!found) {
          upstream.write(bytes);
          return;
        }
        const run = found.run[Math.min(found.sent, found.run.length - 1)];
        found.sent += 1;
        run?.({
          send,
          hangUp,
          pass(then) {
            atEnd = then;
            upstream.write(bytes);
          },
        });
      },
    );
    client.on('data', fromClient);
  });
  const listening = await listenOnLoopback(server);
  return {
    through: listening.through,
    script(marker, ...run) {
      const entry = { sent: 0, run };
      scripts.set(marker, entry);
      return entry;
    },
    onOpening(choose) {
      chooseOpening = choose;
    },
    async reset() {
      await Promise.all(
        Array.from(requests, async (socket) => {
          const closed = once(socket, 'close');
          socket.end();
          await closed;
        }),
      );
    },
    close: () => listening.close(sockets),
  };
}

/**
 * Splits a stream into messages. Those before the start of the session have no type; the server's answer to
 * SSLRequest has no length.
 */
function frames(
  isStarting: () => boolean,
  onFrame: (frame: Buffer, isUntyped: boolean) => void,
): (chunk: Buffer) => void {
  let rest = Buffer.alloc(0);
  return (chunk) => {
    rest = Buffer.concat([rest, chunk]);
    for (;;) {
      const isUntyped = isStarting();
      if (isUntyped && rest.length === 1) {
        onFrame(rest, false);
        rest = Buffer.alloc(0);
        return;
      }
      const head = isUntyped ? 0 : 1;
      if (rest.length < head + 4) return;
      const end = head + rest.readInt32BE(head);
      if (rest.length < end) return;
      const frame = rest.subarray(0, end);
      rest = rest.subarray(end);
      onFrame(frame, isUntyped);
    }
  };
}

function message(type: string, body: Buffer): Buffer {
  const head = Buffer.alloc(5, type);
  head.writeInt32BE(4 + body.length, 1);
  return Buffer.concat([head, body]);
}

/** The fields of an error or a notice; one without `R` is not PostgreSQL's own. */
export type Fields = {
  readonly S: 'FATAL' | 'ERROR' | 'WARNING';
  readonly C: string;
  readonly M: string;
  readonly R?: string;
};

function report(type: 'E' | 'N', fields: Fields): Buffer {
  const texts = Object.entries({ V: fields.S, ...fields }).map(([key, text]) => `${key}${text}\0`);
  return message(type, Buffer.from(`${texts.join('')}\0`));
}

export const errorResponse = (fields: Fields): Buffer => report('E', fields);
export const notice = (fields: Fields): Buffer => report('N', fields);
export const READY: Buffer = message('Z', Buffer.from('I'));
export const PARSED: Buffer = message('1', Buffer.alloc(0));
export const BOUND: Buffer = message('2', Buffer.alloc(0));
export const completed = (tag: string): Buffer => message('C', Buffer.from(`${tag}\0`));
