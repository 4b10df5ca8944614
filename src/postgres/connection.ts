// Opening a connection: what every connection of the product has in common.
import { connect, Socket } from 'node:net';
import pg from 'pg';
import type { DatabaseAddress } from './address/database-address.ts';
import { tlsOptions } from './address/tls.ts';
import type { DatabaseLink } from './link/database-link.ts';
import type { LinkState } from './link/measure-link.ts';
import { sessionParameters, startupOptions, type Deadlines } from './link/session-parameters.ts';
import { internalsOf } from './pg-internals.ts';
import { plainStream, reusingSocket } from './wire/byte-stream.ts';
import { Wire } from './wire/wire.ts';

export type ConnectionSettings = Deadlines & {
  readonly address: DatabaseAddress;
  readonly applicationName: string;
  /** Where a pooler may stand between: each connection is measured. Without it the way counts as direct. */
  readonly link?: DatabaseLink | undefined;
  /** How long connecting may take, in milliseconds. */
  readonly connectTimeoutMs?: number | undefined;
};

const DEFAULT_CONNECT_MS = 5_000;

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
    connectionTimeoutMillis: settings.connectTimeoutMs ?? address.connectTimeoutMs ?? DEFAULT_CONNECT_MS,
    // A host that vanishes while a connection is idle is noticed by the kernel, after some twenty seconds.
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    // Sent with the start-up message, so it costs no round trip and holds for every statement.
    options: settings.link?.takesOptions === false ? undefined : startupOptions(sessionParameters(settings)),
  };
}

export type OpenWire = {
  readonly wire: Wire;
  /** The server it leads to, as it was addressed. */
  readonly target: string;
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
  return await connecting(settings, () => open(settings, onNotice));
}

async function open(
  settings: ConnectionSettings,
  onNotice: ((message: string) => void) | undefined,
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
  const state = await measured(client, settings);
  const { connection, processID, secretKey } = internalsOf(client);
  connection.stream.removeAllListeners('data');
  const stream = connection.stream === unencrypted.socket ? unencrypted : plainStream(connection.stream);
  return {
    wire: new Wire(stream, onNotice, state),
    target: `${client.host}:${client.port}`,
    cancel: (onSeen) => sendCancel(client, processID, secretKey, onSeen),
  };
}

/** Opens a connection. One that is refused for the parameters it asks for is tried once more without. */
export async function connecting<T>(settings: ConnectionSettings, connect: () => Promise<T>): Promise<T> {
  const { link } = settings;
  return link ? await link.connecting(sessionParameters(settings), connect) : await connect();
}

/** What stands between a new connection and the server; undefined where nobody asks. */
export async function measured(
  client: pg.ClientBase,
  settings: ConnectionSettings,
): Promise<LinkState | undefined> {
  const { connectionTimeoutMillis = DEFAULT_CONNECT_MS } = clientConfig(settings);
  try {
    return await settings.link?.measure(client, sessionParameters(settings), connectionTimeoutMillis);
  } catch (error) {
    cutOff(client);
    throw error;
  }
}

/** Closes the connection of a client that waits for nothing, without a word to a server that would not answer. */
export function cutOff(client: pg.ClientBase): void {
  internalsOf(client).connection.stream.destroy();
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
