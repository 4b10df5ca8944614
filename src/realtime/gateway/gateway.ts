// All sockets of this instance: admission, idle and memory checks, and draining.
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { WebSocketServer } from 'ws';
import type { Client } from '../../http/client.ts';
import { allowedOrigin } from '../../http/cors.ts';
import type { Problem } from '../../problem/problem.ts';
import {
  badKey,
  badOrigin,
  JoinRefused,
  noKey,
  starting,
  switchedOff,
  tooManyConnections,
  tooManyOfNetwork,
  unknownVersion,
} from '../problem.ts';
import type { Services } from '../channel/services.ts';
import { toCaller } from '../channel/token.ts';
import { CLOSE, Connection, type Admission } from './connection.ts';
import type { Version } from '../protocol/message.ts';
import { SocketShares } from './socket-shares.ts';

const MAX_FRAME_BYTES = 5_000_000;
const CHECK_INTERVAL_MS = 5_000;
const MAX_IDLE_MS = 60_000;
/** Bytes that all sockets together queue for slow readers. */
const MAX_QUEUED_BYTES = 512 * 1024 * 1024;
/** Delay of a refusal, because refused clients connect again at once. */
const REFUSAL_DELAY_MS = 2_000;
const MAX_DELAYED_REFUSALS = 1_000;
/** Maximum time that a socket waits while the bus starts. */
const OPEN_TIMEOUT_MS = 5_000;

export type UpgradeRequest = {
  readonly request: IncomingMessage;
  readonly socket: Duplex;
  readonly head: Buffer;
  readonly client: Client;
  /** Sends a response instead of the upgrade to a WebSocket. */
  readonly refuse: (problem: Problem) => void;
};

/** Current figures for metrics and reports. */
export type GatewayFigures = {
  readonly sockets: number;
  /** Joined channels. */
  readonly channels: { readonly public: number; readonly private: number };
  /** Frames that open sockets have skipped. */
  readonly skipped: number;
};

/** Codes with a separate count. A client can send any of 4,000 codes. */
const KNOWN_CODES: ReadonlySet<number> = new Set([1000, 1001, 1003, 1005, 1006, 1009, 1012, 1013]);

export class Gateway {
  readonly #services: Services;
  readonly #processes: number;
  readonly #server = new WebSocketServer({
    noServer: true,
    maxPayload: MAX_FRAME_BYTES,
    perMessageDeflate: false,
    clientTracking: false,
  });
  readonly #connections = new Set<Connection>();
  readonly #sockets = new SocketShares();
  readonly #checkTimer: NodeJS.Timeout;
  readonly #opened: Promise<boolean>;
  #open!: (isOpen: boolean) => void;
  #delayedRefusals = 0;
  #isDraining = false;

  /** `processes` share the limit of connections. */
  constructor(services: Services, processes: number) {
    this.#services = services;
    this.#processes = processes;
    this.#opened = new Promise((resolve) => {
      this.#open = resolve;
    });
    this.#checkTimer = setInterval(() => this.#checkConnections(), CHECK_INTERVAL_MS).unref();
  }

  get connections(): Iterable<Connection> {
    return this.#connections;
  }

  get hasConnections(): boolean {
    return this.#connections.size > 0;
  }

  get figures(): GatewayFigures {
    const channels = { public: 0, private: 0 };
    let skipped = 0;
    for (const connection of this.#connections) {
      skipped += connection.writer.skipped;
      for (const { name, isJoined } of connection.channels) {
        if (isJoined) channels[name.isPrivate ? 'private' : 'public'] += 1;
      }
    }
    return { sockets: this.#connections.size, channels, skipped };
  }

  /** Admits sockets, also those that wait. */
  open(): void {
    this.#open(true);
  }

  /** Upgrades the request, or calls `refuse`. */
  async upgrade({ request, socket, head, client, refuse }: UpgradeRequest): Promise<void> {
    const isOpen = await Promise.race([this.#opened, sleep(OPEN_TIMEOUT_MS)]);
    if (isOpen !== true) {
      this.#refuse(refuse, starting());
      return;
    }
    const admission = await this.#admit(request, client);
    if (!('version' in admission)) {
      await this.#delayRefusal();
      this.#refuse(refuse, admission);
      return;
    }
    // The client may have disconnected while its key was checked.
    if (socket.destroyed) return;
    // Other sockets may have been opened in the meantime.
    const full = this.#fullProblem(client);
    if (full) {
      this.#refuse(refuse, full);
      return;
    }
    const leave = this.#sockets.enter(client);
    this.#server.handleUpgrade(request, socket, head, (ws) => {
      const connection = new Connection(this.#services, ws, socket, admission);
      this.#connections.add(connection);
      ws.on('close', (seen) => {
        const { counters } = this.#services;
        const code = connection.closedWith ?? seen;
        counters.closed.add(KNOWN_CODES.has(code) ? String(code) : 'other');
        counters.skipped += connection.writer.skipped;
        this.#connections.delete(connection);
        leave();
        connection.ended();
      });
    });
  }

  #refuse(answer: (problem: Problem) => void, problem: Problem): void {
    this.#services.counters.refusedSockets.add(problem.code);
    answer(problem);
  }

  async #admit(request: IncomingMessage, client: Client): Promise<Admission | Problem> {
    const { settings, context } = this.#services;
    if (!settings().enabled) return switchedOff();
    const full = this.#fullProblem(client);
    if (full) return full;
    const query = new URL(request.url ?? '/', 'http://localhost').searchParams;
    const version = VERSIONS[query.get('vsn') ?? '1.0.0'];
    if (version === undefined) return unknownVersion();
    const { origins } = context.snapshot().config.server.cors;
    const { origin } = request.headers;
    if (origin !== undefined && origins.length > 0) {
      const policy = { origins, allowLoopback: context.dev };
      if (allowedOrigin(origin, policy) === undefined) return badOrigin();
    }
    const given = request.headers['x-api-key'] ?? request.headers['apikey'];
    const key = query.get('apikey') ?? (Array.isArray(given) ? given[0] : given);
    if (key === undefined || key === null || key === '') return noKey();
    try {
      const { apikey } = await context.credentials.read({ apikey: key });
      return { version, caller: toCaller(apikey), address: client.address, headers: policyHeaders(request) };
    } catch (error) {
      if (error instanceof JoinRefused) return badKey();
      throw error;
    }
  }

  #fullProblem(client: Client): Problem | undefined {
    const max = Math.ceil(this.#services.settings().limits.connections / this.#processes);
    if (this.#isDraining || this.#connections.size >= max) return tooManyConnections();
    return this.#sockets.hasRoom(client, max) ? undefined : tooManyOfNetwork();
  }

  async #delayRefusal(): Promise<void> {
    if (this.#delayedRefusals >= MAX_DELAYED_REFUSALS || this.#isDraining) return;
    this.#delayedRefusals += 1;
    await sleep(REFUSAL_DELAY_MS);
    this.#delayedRefusals -= 1;
  }

  #checkConnections(): void {
    const idleSince = performance.now() - MAX_IDLE_MS;
    let queued = 0;
    for (const connection of this.#connections) {
      if (connection.lastSeenAt < idleSince)
        connection.close(CLOSE.normal, 'No message was received for a minute');
      queued += connection.writer.queued;
    }
    if (queued <= MAX_QUEUED_BYTES) return;
    const fullest = [...this.#connections].sort((a, b) => b.writer.queued - a.writer.queued);
    for (const connection of fullest) {
      if (queued <= MAX_QUEUED_BYTES) return;
      queued -= connection.writer.queued;
      connection.close(CLOSE.overload, 'The server has no memory for slow connections');
    }
  }

  /** Notifies all channels, then closes the sockets in random order, spread over that time in milliseconds. */
  async drain(withinMs: number): Promise<void> {
    this.#isDraining = true;
    const all = shuffled([...this.#connections]);
    for (const connection of all) connection.notifyDraining();
    const pause = withinMs / Math.max(all.length, 1);
    const startedAt = performance.now();
    for (const [at, connection] of all.entries()) {
      const due = startedAt + pause * at - performance.now();
      if (due > 1) await sleep(due);
      connection.close(CLOSE.restart, 'The server restarts');
    }
  }

  closeAll(code: number, reason: string): void {
    for (const connection of this.#connections) connection.close(code, reason);
  }

  close(): void {
    clearInterval(this.#checkTimer);
    for (const connection of this.#connections) connection.terminate();
  }
}

const VERSIONS: Readonly<Record<string, Version>> = { '1.0.0': 1, '2.0.0': 2 };

/** Returns the headers of the upgrade request that policies can read. */
function policyHeaders({ headers }: IncomingMessage): Record<string, string> {
  const found = Object.entries(headers).filter(([name]) => name.startsWith('x-') && name !== 'x-api-key');
  return Object.fromEntries(found.map(([name, value]) => [name, [value].flat().join(', ')]));
}

function shuffled<T>(values: T[]): T[] {
  for (let at = values.length - 1; at > 0; at--) {
    const swapIndex = Math.floor(Math.random() * (at + 1));
    [values[at], values[swapIndex]] = [values[swapIndex] as T, values[at] as T];
  }
  return values;
}

async function sleep(milliseconds: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, milliseconds).unref());
}
