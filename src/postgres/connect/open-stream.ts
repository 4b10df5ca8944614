// Opens the byte stream of a connection: TCP or a socket in a folder, with TLS as server and address require it.
import { once } from 'node:events';
import { isIP, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import tls from 'node:tls';
import type { TlsFields } from '../address/database-address.ts';
import { tlsOptions } from '../address/tls.ts';
import type { Endpoint } from './endpoint.ts';

export type OpenStream = {
  readonly socket: Duplex;
  readonly isEncrypted: boolean;
};

/** `if-offered` continues without TLS if the server does not offer it. */
export type Encryption = 'none' | 'if-offered' | 'required';

export type StreamSettings = {
  readonly tls: TlsFields;
  readonly encryption: Encryption;
  readonly keepAliveMs: number;
  /** Aborts the attempt. */
  readonly signal: AbortSignal;
  /** Creates the socket of a connection without TLS. Default: an ordinary socket. */
  readonly socket?: (() => Socket) | undefined;
};

/** TLS could not be negotiated, or its certificate is not trusted. */
export class TlsFailure extends Error {
  override name = 'TlsFailure';
}

const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]);

/** Servers that offered TLS. A socket that cannot carry TLS is not tried on them. */
const offering = new Set<string>();

export async function openStream(place: Endpoint, settings: StreamSettings): Promise<OpenStream> {
  const { encryption } = settings;
  if (encryption === 'none' || place.ip === undefined) {
    return { socket: await openSocket(place, settings, settings.socket), isEncrypted: false };
  }
  const server = `${place.ip} ${place.target.port}`;
  const special = encryption === 'if-offered' && !offering.has(server) ? settings.socket : undefined;
  const socket = await openSocket(place, settings, special);
  try {
    if (settings.tls.sslnegotiation !== 'direct' && !(await offersTls(socket, settings.signal))) {
      offering.delete(server);
      if (encryption === 'if-offered') return { socket, isEncrypted: false };
      throw new TlsFailure(`the server has no TLS, and sslmode=${settings.tls.sslmode} asks for it`);
    }
    offering.add(server);
    if (special === undefined) return { socket: await encrypt(socket, place, settings), isEncrypted: true };
    socket.destroy();
    return await openStream(place, settings);
  } catch (error) {
    socket.destroy();
    throw error;
  }
}

async function openSocket(
  { target, ip }: Endpoint,
  { keepAliveMs, signal }: StreamSettings,
  make: () => Socket = () => new Socket(),
): Promise<Socket> {
  signal.throwIfAborted();
  const socket = make();
  // Handles errors while no other listener is attached.
  socket.on('error', () => {});
  socket.setNoDelay(true);
  if (ip === undefined) {
    const path = `${target.host}/.s.PGSQL.${target.port}`;
    socket.connect(path.startsWith('@') ? `\0${path.slice(1)}` : path);
  } else socket.connect(target.port, ip);
  await settled(socket, 'connect', signal);
  // A host that vanishes while a connection is idle is noticed by the kernel, some ten seconds later.
  socket.setKeepAlive(true, keepAliveMs);
  return socket;
}

/** The response is one byte. Further bytes could only come from an attacker in between, so they are rejected. */
async function offersTls(socket: Socket, signal: AbortSignal): Promise<boolean> {
  socket.write(SSL_REQUEST);
  const [answer] = (await settled(socket, 'data', signal)) as [Buffer];
  if (answer.length === 1 && answer[0] === 0x53) return true;
  if (answer.length === 1 && answer[0] === 0x4e) return false;
  throw new TlsFailure('the server answers the request for TLS with something else');
}

async function encrypt(socket: Socket, { target, ip }: Endpoint, settings: StreamSettings): Promise<Duplex> {
  const { host } = target;
  const encrypted = tls.connect({
    ...tlsOptions(settings.tls),
    socket,
    host,
    // An IP address is not a valid server name (RFC 6066, section 3).
    ...(isIP(host) === 0 ? { servername: host } : { host: ip }),
  });
  encrypted.on('error', () => {});
  try {
    await settled(encrypted, 'secureConnect', settings.signal);
  } catch (cause) {
    settings.signal.throwIfAborted();
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new TlsFailure(`TLS with the server failed: ${reason}`, { cause });
  }
  return encrypted;
}

/** Waits for the event. Destroys a socket that ends or times out. */
async function settled(socket: Duplex, event: string, signal: AbortSignal): Promise<unknown[]> {
  const ended = new AbortController();
  const onClose = (): void => ended.abort();
  socket.once('close', onClose);
  try {
    return (await once(socket, event, { signal: AbortSignal.any([signal, ended.signal]) })) as unknown[];
  } catch (error) {
    socket.destroy();
    if (signal.aborted) throw signal.reason;
    if (!ended.signal.aborted) throw error;
    throw Object.assign(new Error('the connection was closed while it was being opened'), {
      code: 'ECONNRESET',
      syscall: 'connect',
    });
  } finally {
    socket.off('close', onClose);
  }
}
