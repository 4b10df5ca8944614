// One greedy caller: slow statements over REST, sockets that join again and again, and many filters that take long.
// Other callers keep their connections and their changes.
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { RawSocket } from '../../realtime/raw-socket.ts';
import { startBackendWorld, type BackendWorld } from '../../support/backend-world.ts';

/** Advisory lock. While the test holds it, no slow statement finishes. */
const GATE = 4711;
const YAML = `
version: 1
database: { pool: { max: 20 } }
tables:
  board:
    realtime: true
    rls: false
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: text, type: text }
rpc:
  wait:
    language: sql
    returns: { type: void }
    body: select pg_sleep(0.3); select pg_advisory_xact_lock_shared(${GATE})
`;
const SLOW_STATEMENTS = 60;
const SOCKETS = 8;
const FILTERS = 90;
/** Three quarters of `database.pool.max`. */
const MAX_CONNECTIONS = 15;
const CHANGES = 12;
const READS = 40;
const TIMEOUT_MS = 180_000;
/** Slow on a row of 1,500 characters, but always finite. */
const filterNumber = (at: number): string => String.raw`text=match.^row(.+)(.+)\2\1${at}$`;

let world: BackendWorld;
let admin: pg.Client;
let token = '';
const user = '00000000-0000-4000-8000-00000000000a';
const sockets: RawSocket[] = [];

beforeAll(async () => {
  world = await startBackendWorld(YAML);
  admin = new pg.Client(world.databaseUrl);
  await admin.connect();
  await admin.query(`insert into board values (0, 'first')`);
  token = await world.token({ role: 'authenticated', sub: user });
});
afterAll(async () => {
  for (const socket of sockets) socket.close();
  await admin.end();
  await world.close();
});

async function open(): Promise<RawSocket> {
  const socket = await RawSocket.open(world.url, world.keys.publishable);
  sockets.push(socket);
  return socket;
}

async function send(path: string, init: RequestInit = {}): Promise<number> {
  const response = await fetch(world.url + path, init);
  await response.arrayBuffer();
  return response.status;
}

const binding = (filter?: string): Record<string, string> => ({
  event: 'INSERT',
  schema: 'public',
  table: 'board',
  ...(filter === undefined ? {} : { filter }),
});

async function subscriber(topic: string, filter?: string): Promise<RawSocket> {
  const socket = await open();
  await socket.join(topic, { postgres_changes: [binding(filter)] }, token);
  return socket;
}

function received(socket: RawSocket): number[] {
  return socket
    .of('postgres_changes')
    .map(({ payload }) => (payload['data'] as { record: { id: number } }).record.id);
}

/** Reads one row as another user. Returns the median time in milliseconds. */
async function medianRead(): Promise<number> {
  const headers = { apikey: world.keys.publishable, authorization: `Bearer ${token}` };
  const times: number[] = [];
  for (let at = 0; at < READS; at++) {
    const startedAt = performance.now();
    expect(await send('/rest/v1/board?id=eq.0', { headers })).toBe(200);
    times.push(performance.now() - startedAt);
  }
  return times.toSorted((a, b) => a - b)[READS / 2] ?? 0;
}

/** Number of connections on which a slow statement waits for the gate. */
async function connectionsAtGate(): Promise<number> {
  const { rowCount } = await admin.query(
    `select from pg_locks where locktype = 'advisory' and objid = ${GATE} and not granted
      and database = (select oid from pg_database where datname = current_database())`,
  );
  return rowCount ?? 0;
}

type GreedyCaller = {
  /** Number of its successful statements. */
  readonly finished: () => number;
  /** Statuses of its statements until now. */
  readonly statuses: () => readonly number[];
  readonly stop: () => Promise<void>;
};

function startGreedyCaller(): GreedyCaller {
  const stopping = new AbortController();
  let finished = 0;
  const statuses = new Set<number>();
  const statement = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      const headers = { apikey: world.keys.publishable };
      const status = await send('/rest/v1/rpc/wait', { method: 'POST', headers });
      statuses.add(status);
      if (status === 204) finished += 1;
    }
  };
  const rejoin = async (at: number): Promise<void> => {
    const filters = Array.from({ length: FILTERS }, (_, n) => binding(filterNumber(at * FILTERS + n)));
    while (!stopping.signal.aborted) {
      const socket = await open();
      const topic = `realtime:greedy-${at}`;
      const ref = socket.push(topic, 'phx_join', { config: { postgres_changes: filters } });
      // The statements of a join wait for their turn behind the slow statements of the same caller.
      await expect
        .poll(
          () =>
            stopping.signal.aborted ||
            socket.closed !== undefined ||
            socket.frames.some((frame) => frame.ref === ref),
          { timeout: TIMEOUT_MS },
        )
        .toBe(true);
      socket.close();
    }
  };
  const running = [
    ...Array.from({ length: SLOW_STATEMENTS }, statement),
    ...Array.from({ length: SOCKETS }, async (_, at) => await rejoin(at)),
  ];
  return {
    finished: () => finished,
    statuses: () => [...statuses],
    stop: async () => {
      stopping.abort();
      await Promise.all(running);
    },
  };
}

test(
  'a greedy caller takes neither connections nor changes from other callers',
  { timeout: TIMEOUT_MS },
  async () => {
    const listeners = [await subscriber('all'), await subscriber('some', 'text=like.row%')];
    await medianRead();
    const before = await medianRead();

    const greedy = startGreedyCaller();
    await expect.poll(greedy.finished, { timeout: 60_000 }).toBeGreaterThan(SLOW_STATEMENTS);
    const expected = Array.from({ length: CHANGES }, (_, at) => at + 1);
    for (const id of expected) {
      await admin.query(`insert into board values ($1, 'row' || repeat('a', 1500))`, [id]);
    }
    const during = await medianRead();
    // Waiting statements are refused at most; none fails.
    expect(greedy.statuses().filter((status) => ![204, 429, 503].includes(status))).toEqual([]);

    await admin.query(`select pg_advisory_lock(${GATE})`);
    await expect.poll(connectionsAtGate, { timeout: 30_000 }).toBeGreaterThan(MAX_CONNECTIONS / 2);
    // Responses that were on their way when the gate closed arrive during these reads.
    await medianRead();
    const finished = greedy.finished();
    await medianRead();
    // Every read has finished before any of the slow statements.
    expect(greedy.finished()).toBe(finished);
    expect(await connectionsAtGate()).toBeLessThanOrEqual(MAX_CONNECTIONS);
    await admin.query(`select pg_advisory_unlock(${GATE})`);

    for (const listener of listeners) {
      await expect.poll(() => received(listener), { timeout: 60_000 }).toEqual(expected);
      expect(listener.of('phx_error')).toEqual([]);
      expect(listener.closed).toBeUndefined();
    }
    await greedy.stop();

    console.info(
      `median read: ${before.toFixed(1)} ms alone, ${during.toFixed(1)} ms next to a greedy caller`,
    );
    // The gate may have been closed for longer than the deadline of a statement of the greedy caller.
    expect(greedy.statuses().filter((status) => ![204, 429, 503, 504].includes(status))).toEqual([]);
  },
);
