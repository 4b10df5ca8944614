// All sockets of this instance: who may open one, how they are watched, how they end together.
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { WebSocketServer } from 'ws';
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
  unknownVersion,
} from '../problem.ts';
import type { Services } from '../services.ts';
import { toCaller } from '../channel/token.ts';
import { CLOSE, Connection, type Admission } from './connection.ts';
import type { Version } from './message.ts';

const LARGEST_FRAME = 5_000_000;
const LOOK_EVERY_MS = 5_000;
const IDLE_MS = 60_000;
/** Bytes that wait for slow readers, of all sockets together. */
const MOST_QUEUED = 512 * 1024 * 1024;
/** Clients that are refused come back at once. */
const REFUSAL_MS = 2_000;
const MOST_WAITING = 1_000;
/** Until what other instances send is heard. */
const OPEN_WITHIN_MS = 5_000;

/** How it is at this moment. */
export type GatewayFigures = {
  readonly sockets: number;
  /** Joined. */
  readonly channels: { readonly public: number; readonly private: number };
  /** Of open sockets. */
  readonly skipped: number;
};

/** What a client says when it closes may be any of 4,000 numbers. */
const KNOWN_CODES: ReadonlySet<number> = new Set([1000, 1001, 1003, 1005, 1006, 1009, 1012, 1013]);

export class Gateway {
  readonly #services: Services;
  readonly #processes: number;
  readonly #server = new WebSocketServer({
    noServer: true,
    maxPayload: LARGEST_FRAME,
    perMessageDeflate: false,
    clientTracking: false,
  });
  readonly #connections = new Set<Connection>();
  readonly #watch: NodeJS.Timeout;
  readonly #opened: Promise<boolean>;
  #open!: (isOpen: boolean) => void;
  #waiting = 0;
  #isDraining = false;

  /** `processes` share the limit of connections. */
  constructor(services: Services, processes: number) {
    this.#services = services;
    this.#processes = processes;
    this.#opened = new Promise((resolve) => {
      this.#open = resolve;
    });
    this.#watch = setInterval(() => this.#look(), LOOK_EVERY_MS).unref();
  }

  get connections(): Iterable<Connection> {
    return this.#connections;
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

  /** Whoever came earlier is let in now. */
  open(): void {
    this.#open(true);
  }

  /** `refuse` answers instead of 101. */
  async upgrade(
    request: IncomingMessage,
    socket: Duplex,
    head: Buffer,
    refuse: (problem: Problem) => void,
  ): Promise<void> {
    const isOpen = await Promise.race([this.#opened, later(OPEN_WITHIN_MS)]);
    if (isOpen !== true) {
      this.#refuse(refuse, starting());
      return;
    }
    const admission = await this.#admit(request);
    if (!('version' in admission)) {
      await this.#hold();
      this.#refuse(refuse, admission);
      return;
    }
    // The client left while its key was looked at.
    if (socket.destroyed) return;
    this.#server.handleUpgrade(request, socket, head, (ws) => {
      const connection = new Connection(this.#services, ws, socket, admission);
      this.#connections.add(connection);
      ws.on('close', (seen) => {
        const { tally } = this.#services;
        const code = connection.closedWith ?? seen;
        tally.closed.add(KNOWN_CODES.has(code) ? String(code) : 'other');
        tally.skipped += connection.writer.skipped;
        this.#connections.delete(connection);
        connection.ended();
      });
    });
  }

  #refuse(answer: (problem: Problem) => void, problem: Problem): void {
    this.#services.tally.refusedSockets.add(problem.code);
    answer(problem);
  }

  async #admit(request: IncomingMessage): Promise<Admission | Problem> {
    const { settings, context } = this.#services;
    if (!settings().enabled) return switchedOff();
    const most = Math.ceil(settings().limits.connections / this.#processes);
    if (this.#isDraining || this.#connections.size >= most) return tooManyConnections();
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
      return { version, caller: toCaller(apikey), headers: policyHeaders(request) };
    } catch (error) {
      if (error instanceof JoinRefused) return badKey();
      throw error;
    }
  }

  async #hold(): Promise<void> {
    if (this.#waiting >= MOST_WAITING || this.#isDraining) return;
    this.#waiting += 1;
    await later(REFUSAL_MS);
    this.#waiting -= 1;
  }

  #look(): void {
    const idleSince = performance.now() - IDLE_MS;
    let queued = 0;
    for (const connection of this.#connections) {
      if (connection.heardAt < idleSince) connection.close(CLOSE.normal, 'Nothing was heard for a minute');
      queued += connection.writer.queued;
    }
    if (queued <= MOST_QUEUED) return;
    const fullest = [...this.#connections].sort((a, b) => b.writer.queued - a.writer.queued);
    for (const connection of fullest) {
      if (queued <= MOST_QUEUED) return;
      queued -= connection.writer.queued;
      connection.close(CLOSE.overload, 'The server has no memory for slow connections');
    }
  }

  /** Tells all, then closes them one by one in random order within that time, in milliseconds. */
  async drain(withinMs: number): Promise<void> {
    this.#isDraining = true;
    const all = shuffled([...this.#connections]);
    for (const connection of all) connection.tellDraining();
    const pause = withinMs / Math.max(all.length, 1);
    const startedAt = performance.now();
    for (const [at, connection] of all.entries()) {
      const due = startedAt + pause * at - performance.now();
      if (due > 1) await later(due);
      connection.close(CLOSE.restart, 'The server restarts');
    }
  }

  closeAll(code: number, reason: string): void {
    for (const connection of this.#connections) connection.close(code, reason);
  }

  close(): void {
    clearInterval(this.#watch);
    for (const connection of this.#connections) connection.terminate();
  }
}

const VERSIONS: Readonly<Record<string, Version>> = { '1.0.0': 1, '2.0.0': 2 };

/** What policies see of the request that opened the socket. */
function policyHeaders({ headers }: IncomingMessage): Record<string, string> {
  const found = Object.entries(headers).filter(([name]) => name.startsWith('x-') && name !== 'x-api-key');
  return Object.fromEntries(found.map(([name, value]) => [name, [value].flat().join(', ')]));
}

function shuffled<T>(values: T[]): T[] {
  for (let at = values.length - 1; at > 0; at--) {
    const other = Math.floor(Math.random() * (at + 1));
    [values[at], values[other]] = [values[other] as T, values[at] as T];
  }
  return values;
}

async function later(milliseconds: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, milliseconds).unref());
}
