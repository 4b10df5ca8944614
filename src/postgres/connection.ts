// Opens connections with the common properties of all connections of the product.
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type pg from 'pg';
import { describeTarget, type DatabaseAddress } from './address/database-address.ts';
import { writeOptions } from './address/session-options.ts';
import { sendCancel } from './connect/cancel.ts';
import { chooseHost, type Chosen } from './connect/choose-host.ts';
import { choosingClient } from './connect/choosing-client.ts';
import type { LoginSettings } from './connect/login.ts';
import type { DatabaseLink } from './link/database-link.ts';
import type { LinkState } from './link/measure-link.ts';
import {
  sessionParameters,
  startupOptions,
  type Deadlines,
  type SessionParameters,
} from './link/session-parameters.ts';
import { clientInternals } from './pg-internals.ts';
import { plainStream, reusingSocket, type ByteStream } from './wire/byte-stream.ts';
import { Wire } from './wire/wire.ts';

export type ConnectionSettings = Deadlines & {
  readonly address: DatabaseAddress;
  readonly applicationName: string;
  /** Measures each new connection for a pooler. Without a link, the connection counts as direct. */
  readonly link?: DatabaseLink | undefined;
  /** Checks each new connection. If it throws, the connection is closed. */
  readonly check?: ((session: Session) => Promise<void>) | undefined;
  /** Timeout for one IP address of a host, in milliseconds. */
  readonly connectTimeoutMs?: number | undefined;
};

export type Session = Chosen & {
  /** The measured link state; undefined if the link was not measured. */
  readonly state: LinkState | undefined;
};

/** Opens a connection that its user closes. */
export async function openClient(settings: ConnectionSettings): Promise<pg.Client> {
  const { client } = await openSession(settings);
  return client;
}

type OpenOptions = Pick<LoginSettings, 'signal' | 'socket' | 'replication'>;

export async function openSession(settings: ConnectionSettings, options: OpenOptions = {}): Promise<Session> {
  return await connecting(settings, async () => {
    const chosen = await choose(settings, options);
    const session = { ...chosen, state: await measured(chosen.client, settings) };
    try {
      await settings.check?.(session);
    } catch (error) {
      cutOff(session.client);
      throw error;
    }
    return session;
  });
}

/** Opens a session for the replication stream, which poolers do not support. `take` detaches the stream from `pg`. */
export async function openReplicationSession(
  settings: ConnectionSettings,
  { signal }: Pick<OpenOptions, 'signal'>,
): Promise<{ readonly client: pg.Client; readonly take: () => ByteStream }> {
  const { socket, detach } = takenSocket();
  const { client, stream } = await choose(settings, { signal, replication: true, socket });
  return { client, take: () => detach(stream) };
}

/** Creates a socket that `pg` authenticates and another reader takes over afterwards. */
function takenSocket(): {
  readonly socket: () => Socket;
  readonly detach: (stream: Duplex) => ByteStream;
} {
  let unencrypted: ReturnType<typeof reusingSocket> | undefined;
  return {
    socket: () => (unencrypted = reusingSocket()).socket,
    detach: (stream) => {
      stream.removeAllListeners('data');
      return unencrypted?.socket === stream ? unencrypted : plainStream(stream);
    },
  };
}

/** Within this time, the server ends the stream and its slot when the reader is frozen. */
const STREAM_PARAMETERS: SessionParameters = [['wal_sender_timeout', '10s']];

/** Returns the configuration for `pg.Pool`, whose clients choose their host on each connection. */
export function poolConfig(settings: ConnectionSettings): pg.PoolConfig {
  return {
    Client: choosingClient((signal) => choose(settings, { signal })),
    // Over all hosts, and later than the clock of each.
    connectionTimeoutMillis: connectTimeout(settings) * settings.address.targets.length + 1_000,
  };
}

async function choose(settings: ConnectionSettings, options: OpenOptions): Promise<Chosen> {
  const { address, applicationName, link } = settings;
  const more = options.replication === true ? STREAM_PARAMETERS : [];
  return await chooseHost({
    address,
    applicationName,
    connectTimeoutMs: connectTimeout(settings),
    // Part of the start-up message, so it costs no round trip and applies to every statement. Later options take
    // precedence, so the product's come last.
    options:
      link?.takesOptions === false
        ? ''
        : `${writeOptions(address.options)} ${startupOptions([...sessionParameters(settings), ...more])}`.trim(),
    ...options,
  });
}

const connectTimeout = ({ address, connectTimeoutMs }: ConnectionSettings): number =>
  connectTimeoutMs ?? address.connectTimeoutMs;

export type OpenWire = {
  readonly wire: Wire;
  /**
   * Asks the server to cancel the running statement; harmless if there is none. `onSeen` is called when the server
   * has done so or is unreachable: until then the cancel may hit the next statement.
   */
  cancel(onSeen: () => void): void;
  /** The server, for messages and for its exclusion. */
  readonly target: string;
  /** The server rejects writes, and no writable server was found. */
  readonly isStandIn: boolean;
};

/** Opens a connection with `pg`, which authenticates it, and passes its socket to the request path. */
export async function openWire(
  settings: ConnectionSettings,
  onNotice?: (message: string) => void,
): Promise<OpenWire> {
  const { socket, detach } = takenSocket();
  const session = await openSession(settings, { socket });
  const { client, stream, place, isStandIn, state } = session;
  const wire = new Wire(detach(stream), onNotice, state);
  // `pg` received this error before the wire was attached. Without it, a write sent now would fail silently.
  const lost = session.lost();
  if (lost) wire.destroy(lost);
  return {
    wire,
    target: describeTarget(place.target),
    isStandIn,
    cancel: (onSeen) => void sendCancel(settings.address, session, clientInternals(client)).then(onSeen),
  };
}

/** Opens a connection. If its parameters are rejected, tries once more without them. */
export async function connecting<T>(settings: ConnectionSettings, connect: () => Promise<T>): Promise<T> {
  const { link } = settings;
  return link ? await link.connecting(sessionParameters(settings), connect) : await connect();
}

/** Measures the link of a new connection. Returns undefined if no link is configured. */
export async function measured(
  client: pg.ClientBase,
  settings: ConnectionSettings,
): Promise<LinkState | undefined> {
  const { address, link } = settings;
  try {
    const state = await link?.measure(client, sessionParameters(settings), connectTimeout(settings));
    if (state === undefined || state.verdict === 'direct') return state;
    // The options of the address cannot be compared, because the server formats their values differently. They always
    // count as lacking.
    return { ...state, lacking: [...address.options, ...state.lacking] };
  } catch (error) {
    cutOff(client);
    throw error;
  }
}

/** Closes the socket of an unused client without Terminate, for a server that may not respond. */
export function cutOff(client: pg.ClientBase): void {
  clientInternals(client).connection.stream.destroy();
}

export const GOODBYE_MS = 1_000;

/** Closes the client with Terminate, and cuts the socket after a timeout. */
export async function endClient(client: pg.Client): Promise<void> {
  const silent = setTimeout(() => cutOff(client), GOODBYE_MS);
  try {
    await client.end();
  } finally {
    clearTimeout(silent);
  }
}
