// Opening a connection: what every connection of the product has in common.
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
import { internalsOf } from './pg-internals.ts';
import { plainStream, reusingSocket, type ByteStream } from './wire/byte-stream.ts';
import { Wire } from './wire/wire.ts';

export type ConnectionSettings = Deadlines & {
  readonly address: DatabaseAddress;
  readonly applicationName: string;
  /** Where a pooler may stand between: each connection is measured. Without it the way counts as direct. */
  readonly link?: DatabaseLink | undefined;
  /** Looks at each new connection; one that it throws about is closed. */
  readonly check?: ((session: Session) => Promise<void>) | undefined;
  /** How long connecting to one address of a host may take, in milliseconds. */
  readonly connectTimeoutMs?: number | undefined;
};

export type Session = Chosen & {
  /** What stands between; undefined where nobody asks. */
  readonly state: LinkState | undefined;
};

/** A connection for one user, which closes it. */
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

/** A session for the stream of changes, which no pooler understands. `take` ends what `pg` reads of it. */
export async function openReplicationSession(
  settings: ConnectionSettings,
  { signal }: Pick<OpenOptions, 'signal'>,
): Promise<{ readonly client: pg.Client; readonly take: () => ByteStream }> {
  const { socket, take } = takenSocket();
  const { client, stream } = await choose(settings, { signal, replication: true, socket });
  return { client, take: () => take(stream) };
}

/** A socket that `pg` opens and authenticates, and whose bytes are read by somebody else from then on. */
function takenSocket(): {
  readonly socket: () => Socket;
  readonly take: (stream: Duplex) => ByteStream;
} {
  let unencrypted: ReturnType<typeof reusingSocket> | undefined;
  return {
    socket: () => (unencrypted = reusingSocket()).socket,
    take: (stream) => {
      stream.removeAllListeners('data');
      return unencrypted?.socket === stream ? unencrypted : plainStream(stream);
    },
  };
}

/** The server ends a stream whose reader is frozen within that time, and its slot with it. */
const STREAM_PARAMETERS: SessionParameters = [['wal_sender_timeout', '10s']];

/** For `pg.Pool`: its clients choose their host at each connection. */
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
    // Sent with the start-up message, so it costs no round trip and holds for every statement. Ours come last and win.
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
   * Asks the server to cancel what this connection is running; harmless when it runs nothing. `onSeen` is called when
   * the server has done so or could not be asked: until then the cancel may still hit whatever comes next.
   */
  cancel(onSeen: () => void): void;
  /** The server, for messages and to avoid it. */
  readonly target: string;
  /** Its server takes no writes, and none that does was there. */
  readonly isStandIn: boolean;
};

/** `pg` authenticates; then the socket is handed to the request path. */
export async function openWire(
  settings: ConnectionSettings,
  onNotice?: (message: string) => void,
): Promise<OpenWire> {
  const { socket, take } = takenSocket();
  const session = await openSession(settings, { socket });
  const { client, stream, place, isStandIn, state } = session;
  const wire = new Wire(take(stream), onNotice, state);
  // Said to `pg` before the wire could hear it: a write that was sent now would end without a word.
  const lost = session.lost();
  if (lost) wire.destroy(lost);
  return {
    wire,
    target: describeTarget(place.target),
    isStandIn,
    cancel: (onSeen) => void sendCancel(settings.address, session, internalsOf(client)).then(onSeen),
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
  const { address, link } = settings;
  try {
    const state = await link?.measure(client, sessionParameters(settings), connectTimeout(settings));
    if (state === undefined || state.verdict === 'direct') return state;
    // Whether a pooler let these through cannot be read back: the server writes their values in its own way.
    return { ...state, lacking: [...address.options, ...state.lacking] };
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
