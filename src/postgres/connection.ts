// Opening a connection: what every connection of the product has in common.
import { connect, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import pg from 'pg';
import type { DatabaseAddress } from './address/database-address.ts';
import { tlsOptions } from './address/tls.ts';
import { plainStream, reusingSocket } from './wire/byte-stream.ts';
import { Wire } from './wire/wire.ts';

export type ConnectionSettings = {
  readonly address: DatabaseAddress;
  readonly applicationName: string;
  /** `statement_timeout` of the session, in milliseconds; 0 is none. */
  readonly statementTimeoutMs?: number | undefined;
  /** `lock_timeout` of the session, in milliseconds; 0 is none. */
  readonly lockTimeoutMs?: number | undefined;
  /** How long connecting may take, in milliseconds. */
  readonly connectTimeoutMs?: number | undefined;
};

export function clientConfig(settings: ConnectionSettings): pg.ClientConfig {
  const { address } = settings;
  const [{ host, port }] = address.targets;
  return {
    host,
    port,
    user: address.user,
    password: address.password,
    database: address.database,
    ssl: tlsOptions(address),
    application_name: settings.applicationName,
    connectionTimeoutMillis: settings.connectTimeoutMs ?? address.connectTimeoutMs ?? 5_000,
    // A host that vanishes while a connection is idle is noticed by the kernel, after some twenty seconds.
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    // Sent with the start-up message, so it costs no round trip and holds for every statement.
    options: sessionOptions(settings),
  };
}

function sessionOptions({ statementTimeoutMs, lockTimeoutMs }: ConnectionSettings): string {
  const options = ['-c timezone=UTC', '-c datestyle=ISO,MDY', '-c intervalstyle=postgres'];
  if (statementTimeoutMs) options.push(`-c statement_timeout=${statementTimeoutMs}`);
  if (lockTimeoutMs) options.push(`-c lock_timeout=${lockTimeoutMs}`);
  return options.join(' ');
}

export type OpenWire = {
  readonly wire: Wire;
  /**
   * Asks the server to cancel what this connection is running; harmless when it runs nothing. `onSeen` is called when
   * the server has done so or could not be asked: until then the cancel may still hit whatever comes next.
   */
  cancel(onSeen: () => void): void;
};

/** `pg` connects and authenticates (TLS, SCRAM); then the socket is handed to the request path. */
export async function openWire(
  settings: ConnectionSettings,
  onNotice?: (message: string) => void,
): Promise<OpenWire> {
  const unencrypted = reusingSocket();
  const client = new pg.Client({
    ...clientConfig(settings),
    // `pg` passes the settings it found; TLS would read past the buffer that is used again.
    stream: (found?: { readonly ssl?: unknown }) => (found?.ssl ? new Socket() : unencrypted.socket),
  });
  // The wire reports a lost connection itself; without a listener the client's event would be fatal.
  client.on('error', () => {});
  await client.connect();
  const { connection, processID, secretKey } = takeOver(client);
  connection.stream.removeAllListeners('data');
  const stream = connection.stream === unencrypted.socket ? unencrypted : plainStream(connection.stream);
  return {
    wire: new Wire(stream, onNotice),
    cancel: (onSeen) => sendCancel(client, processID, secretKey, onSeen),
  };
}

type TakenOver = {
  readonly connection: { readonly stream: Duplex };
  readonly processID: number;
  readonly secretKey: number | Buffer;
};

// These members are stable parts of `pg` but not of its type declarations; this is the one place that reaches in.
function takeOver(client: pg.ClientBase): TakenOver {
  return client as unknown as TakenOver;
}

/** Closes the connection of a client that waits for nothing, without a word to a server that would not answer. */
export function cutOff(client: pg.ClientBase): void {
  takeOver(client).connection.stream.destroy();
}

export const GOODBYE_MS = 1_000;

/** Says goodbye, and goes when nobody answers. */
export async function endClient(client: pg.Client): Promise<void> {
  const silent = setTimeout(() => cutOff(client), GOODBYE_MS);
  try {
    await client.end();
  } finally {
    clearTimeout(silent);
  }
}

const CANCEL_REQUEST_CODE = 80_877_102;
const CANCEL_TIMEOUT_MS = 2_000;

/**
 * CancelRequest travels on a connection of its own (protocol, "Canceling Requests in Progress"). It is read
 * before any authentication, so it needs no TLS: the key in it is only good for this one cancel.
 */
function sendCancel(
  client: pg.Client,
  processID: number,
  secretKey: number | Buffer,
  onSeen: () => void,
): void {
  const key = typeof secretKey === 'number' ? Buffer.alloc(4) : secretKey;
  if (typeof secretKey === 'number') key.writeInt32BE(secretKey);
  const head = Buffer.alloc(12);
  head.writeInt32BE(head.length + key.length, 0);
  head.writeInt32BE(CANCEL_REQUEST_CODE, 4);
  head.writeInt32BE(processID, 8);
  const socket = client.host.startsWith('/')
    ? connect(`${client.host}/.s.PGSQL.${client.port}`)
    : connect(client.port, client.host);
  // A cancel that cannot be delivered changes nothing: statement_timeout still ends the statement.
  socket.on('error', () => {});
  socket.setTimeout(CANCEL_TIMEOUT_MS, () => socket.destroy());
  // The server closes once it has signalled the backend.
  socket.on('close', onSeen);
  socket.resume();
  socket.end(Buffer.concat([head, key]));
}
