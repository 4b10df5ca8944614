// One connection attempt to one endpoint: opens the stream, then `pg` authenticates on it.
import type { Duplex } from 'node:stream';
import type { Socket } from 'node:net';
import pg from 'pg';
import type { DatabaseAddress, SslMode } from '../address/database-address.ts';
import { isDatabaseError } from '../pg-error.ts';
import { clientInternals } from '../pg-internals.ts';
import { LoginRefused } from './host-failure.ts';
import { openStream, TlsFailure, type Encryption } from './open-stream.ts';
import type { Endpoint } from './endpoint.ts';

export type LoginSettings = {
  readonly address: DatabaseAddress;
  readonly applicationName: string;
  /** The start-up parameter. */
  readonly options: string;
  readonly connectTimeoutMs: number;
  /** Opens a replication session: it accepts replication commands, and statements without parameters. */
  readonly replication?: boolean | undefined;
  /** Creates the socket of a connection without TLS. */
  readonly socket?: (() => Socket) | undefined;
  readonly signal?: AbortSignal | undefined;
};

export type LoggedIn = {
  readonly client: pg.Client;
  readonly place: Endpoint;
  readonly stream: Duplex;
  readonly isEncrypted: boolean;
  /** Parameters that the server (or a pooler) has reported. */
  readonly parameters: ReadonlyMap<string, string>;
  /** The error that ended the session while no statement was running to report it. */
  readonly lost: () => Error | undefined;
};

/** Encryption attempts in order, as in libpq's table. A socket in a folder is never encrypted. */
const ENCRYPTIONS: Readonly<Record<SslMode, readonly Encryption[]>> = {
  disable: ['none'],
  allow: ['none', 'required'],
  prefer: ['if-offered', 'none'],
  require: ['required'],
  'verify-ca': ['required'],
  'verify-full': ['required'],
};

export async function logIn(place: Endpoint, settings: LoginSettings): Promise<LoggedIn> {
  const encryptions: readonly Encryption[] =
    place.ip === undefined ? ['none'] : ENCRYPTIONS[settings.address.tls.sslmode];
  for (const [index, encryption] of encryptions.entries()) {
    try {
      return await attempt(place, encryption, settings);
    } catch (error) {
      if (index === encryptions.length - 1 || !isAboutEncryption(error)) throw error;
    }
  }
  throw new Error('no way to connect was left');
}

/** The server may admit the same login with TLS, or without. */
function isAboutEncryption(error: unknown): boolean {
  return error instanceof TlsFailure || isDatabaseError(error, 'invalid_authorization_specification');
}

async function attempt(place: Endpoint, encryption: Encryption, settings: LoginSettings): Promise<LoggedIn> {
  const { address, connectTimeoutMs, socket } = settings;
  const clock = new AbortController();
  const timer = setTimeout(() => clock.abort(timedOut(connectTimeoutMs)), connectTimeoutMs);
  const signal = settings.signal ? AbortSignal.any([settings.signal, clock.signal]) : clock.signal;
  try {
    const { tls, keepAliveMs } = address;
    const opened = await openStream(place, { tls, encryption, keepAliveMs, signal, socket });
    return await authenticate(place, opened.socket, opened.isEncrypted, settings, signal);
  } finally {
    clearTimeout(timer);
  }
}

async function authenticate(
  place: Endpoint,
  stream: Duplex,
  isEncrypted: boolean,
  { address, applicationName, options, replication }: LoginSettings,
  signal: AbortSignal,
): Promise<LoggedIn> {
  const { channelBinding } = address.tls;
  const binding = { isOffered: false, isRequired: channelBinding === 'require' };
  const config: pg.ClientConfig & { sslnegotiation: 'postgres'; replication?: 'database' } = {
    user: address.user,
    database: address.database,
    password: () => passwordFor(address, binding),
    host: place.target.host,
    port: place.target.port,
    // TLS is already part of the stream.
    ssl: false,
    stream: () => connectedStream(stream),
    enableChannelBinding: isEncrypted && channelBinding !== 'disable',
    application_name: named(address, applicationName),
    // Or `pg` reads PGSSLNEGOTIATION.
    sslnegotiation: 'postgres',
    ...(replication === true && { replication: 'database' }),
  };
  const client = new pg.Client(config);
  // `pg` would replace an empty value by PGOPTIONS.
  clientInternals(client).connectionParameters.options = options === '' ? undefined : options;
  let lost: Error | undefined;
  client.on('error', (error) => (lost ??= error));
  const parameters = new Map<string, string>();
  const { connection } = clientInternals(client);
  connection.on('parameterStatus', ({ parameterName, parameterValue }: ParameterStatus) =>
    parameters.set(parameterName, parameterValue),
  );
  connection.on('authenticationSASL', ({ mechanisms }: { readonly mechanisms: readonly string[] }) => {
    binding.isOffered = isEncrypted && mechanisms.includes('SCRAM-SHA-256-PLUS');
  });
  const giveUp = (): void => void stream.destroy(signal.reason as Error);
  signal.addEventListener('abort', giveUp);
  try {
    await client.connect();
  } catch (error) {
    stream.destroy();
    if (signal.aborted) throw signal.reason;
    throw error;
  } finally {
    signal.removeEventListener('abort', giveUp);
  }
  if (binding.isRequired && !binding.isOffered) {
    stream.destroy();
    throw unbound();
  }
  return { client, place, stream, isEncrypted, parameters, lost: () => lost };
}

type ParameterStatus = { readonly parameterName: string; readonly parameterValue: string };

/** Called before any part of the password is sent. */
function passwordFor(
  { password, user }: DatabaseAddress,
  binding: { readonly isOffered: boolean; readonly isRequired: boolean },
): Promise<string> {
  if (binding.isRequired && !binding.isOffered) return Promise.reject(unbound());
  if (password !== undefined) return Promise.resolve(password);
  return Promise.reject(new LoginRefused(`the server asks for the password of "${user}", and none is given`));
}

const unbound = (): LoginRefused =>
  new LoginRefused('channel_binding=require, but the server does not offer SCRAM-SHA-256-PLUS over TLS');

/** Prevents `pg` from connecting the stream again. */
function connectedStream(stream: Duplex): Duplex {
  return Object.assign(stream, {
    connect(): void {
      process.nextTick(() => stream.emit('connect'));
    },
  });
}

const MAX_NAME_BYTES = 63;

/** Truncates the prefix and never the product's name, because instances are counted by it. */
function named({ applicationName: prefix }: DatabaseAddress, own: string): string {
  if (prefix === undefined) return own;
  const room = MAX_NAME_BYTES - 1 - Buffer.byteLength(own);
  const cut = Buffer.from(prefix)
    .subarray(0, Math.max(0, room))
    .toString()
    .replace(/\uFFFD+$/u, '');
  return cut === '' ? own : `${cut} ${own}`;
}

function timedOut(ms: number): Error {
  return Object.assign(new Error(`no answer within ${ms / 1000} s`), {
    code: 'ETIMEDOUT',
    syscall: 'connect',
  });
}
