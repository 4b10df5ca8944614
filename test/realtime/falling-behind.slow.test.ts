// Changes that cannot be delivered in time: clients that lag too far are notified of a gap, and so are all clients in a
// long outage. Tests both sources. The server's clock is advanced, so that no test waits half a minute.
import pg from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';
import { type FreshCluster, startFreshCluster } from '../support/peers/fresh-cluster.ts';
import { RawSocket } from './raw-socket.ts';

const YAML = `
version: 1
project: { name: behind }
tables:
  members:
    rls: [{ operations: [select], using: "true" }]
    fields: [{ name: id, type: uuid, primary_key: true }]
  notes:
    realtime: true
    rls: [{ operations: [select], to: authenticated, using: exists (select from members m where m.id = auth.uid()) }]
    fields: [{ name: id, type: integer, primary_key: true }]
`;
const ANN = '00000000-0000-4000-8000-00000000000a';
/** More rows than the process queues before it pauses the source. */
const MANY = 6_000;
const LATER_MS = 31_000;

/** Never set back, because monotonic clocks do not go back. */
let aheadMs = 0;
const putForward = (): void => void (aheadMs += LATER_MS);

/** A separate server, because a new slot waits for every long transaction, also for those that this test holds. */
let server: FreshCluster;

beforeAll(async () => {
  server = await startFreshCluster();
  const now = performance.now.bind(performance);
  vi.spyOn(performance, 'now').mockImplementation(() => now() + aheadMs);
});

afterAll(async () => {
  vi.restoreAllMocks();
  await server?.stop();
});

describe.each(['wal', 'triggers'] as const)('by %s', (source) => {
  let world: BackendWorld;
  let admin: pg.Client;
  let token: string;
  const sockets: RawSocket[] = [];

  beforeAll(async () => {
    world = await startBackendWorld(`${YAML}realtime: { source: ${source} }\n`, { server: server.url });
    admin = new pg.Client({ connectionString: world.databaseUrl });
    await admin.connect();
    await admin.query('insert into members values ($1)', [ANN]);
    token = await world.token({ role: 'authenticated', sub: ANN });
  });

  afterEach(() => {
    for (const socket of sockets.splice(0)) socket.close();
  });

  afterAll(async () => {
    await admin.end();
    await world.close();
  });

  async function open(): Promise<RawSocket> {
    const socket = await RawSocket.open(world.url, world.keys.publishable);
    sockets.push(socket);
    return socket;
  }

  const state = async (): Promise<unknown> =>
    ((await (await fetch(`${world.url}/ready`)).json()) as { realtime: unknown }).realtime;

  const ASKED = { postgres_changes: [{ event: 'INSERT', schema: 'public', table: 'notes' }] };
  const heard = (socket: RawSocket): number[] =>
    socket
      .of('postgres_changes')
      .map(({ payload }) => (payload['data'] as { record: { id: number } }).record.id);

  /**
   * Makes delivered changes wait for a lock of their policies, so that the source pauses. Returns a function that
   * releases the lock. `before`: in the same transaction.
   */
  async function holdBack(first: number, before = ''): Promise<() => Promise<void>> {
    const holder = new pg.Client({ connectionString: world.databaseUrl });
    holder.on('error', () => {});
    await holder.connect();
    await holder.query('begin; lock table members in access exclusive mode');
    await admin.query(
      `${before}; insert into notes select n from generate_series(${first}, ${first + MANY - 1}) n`,
    );
    // At the second check, all remaining changes have arrived and the source is paused.
    const asked = new Set<string>();
    await expect
      .poll(async () => {
        const { rows } = await admin.query<{ at: string }>(`select a.query_start::text as at from pg_locks l
          join pg_stat_activity a using (pid) where not l.granted and l.relation = 'members'::regclass`);
        for (const { at } of rows) asked.add(at);
        return asked.size;
      })
      .toBeGreaterThan(1);
    return async () => {
      await holder.query('rollback');
      await holder.end();
    };
  }

  test('policies that wait for a lock: the stream is dropped and clients are notified of a gap', async () => {
    const socket = await open();
    const joinRef = await socket.join('notes', ASKED, token);
    const letGo = await holdBack(1);
    putForward();
    // A new slot waits for the lock holder too. The gap is announced afterwards.
    const isGivenUp = async (): Promise<boolean> =>
      socket.of('phx_error').length > 0 || (await state()) === 'connecting';
    await expect.poll(isGivenUp).toBe(true);
    await letGo();
    await socket.frame(({ event, joinRef: of }) => event === 'phx_error' && of === joinRef);
    await socket.join('notes', ASKED, token);
    await admin.query(`insert into notes values (${MANY + 1})`);
    await expect.poll(() => heard(socket).at(-1)).toBe(MANY + 1);
    expect(heard(socket).length).toBeLessThan(MANY);
  });

  if (source === 'wal')
    test('a server that would have to retain much WAL: the stream is dropped immediately', async () => {
      const first = 2 * MANY;
      const socket = await open();
      const joinRef = await socket.join('notes', ASKED, token);
      const log = (megabytes: number, isOfTransaction: boolean): string =>
        `select pg_logical_emit_message(${isOfTransaction}, 'bulk', repeat('x', 1024 * 1024))
          from generate_series(1, ${megabytes})`;
      const slots = async (): Promise<string[]> => {
        const { rows } = await admin.query<{ name: string }>(`select slot_name::text as name
          from pg_replication_slots where database = current_database() and confirmed_flush_lsn is not null`);
        return rows.map(({ name }) => name);
      };
      /** True if the instance has queried its lag. */
      const asks = async (): Promise<void> => {
        const { rows } = await admin.query<{ now: string }>('select clock_timestamp()::text as now');
        const asking = `select from pg_stat_activity where query_start > $1 and pid <> pg_backend_pid()
          and datname = current_database() and query like '%pg_current_wal_insert_lsn%'`;
        await expect.poll(async () => (await admin.query(asking, [rows[0]?.now])).rowCount).not.toBe(0);
      };
      const before = await slots();
      expect(before).toHaveLength(1);
      // The size of one transaction does not count as lag.
      const letGo = await holdBack(first, log(80, true));
      await asks();
      await admin.query(log(40, false));
      await asks();
      expect(await slots()).toEqual(before);
      await admin.query(log(40, false));
      await expect.poll(slots).toEqual([]);
      await letGo();
      await socket.frame(({ event, joinRef: of }) => event === 'phx_error' && of === joinRef);
      await expect.poll(state).toBe('live');
      await socket.join('notes', ASKED, token);
      await admin.query(`insert into notes values (${first + MANY})`);
      await expect.poll(() => heard(socket).at(-1)).toBe(first + MANY);
      expect(heard(socket).length).toBeLessThan(MANY);
    });

  // Triggers can always be read as soon as the database answers.
  if (source === 'wal')
    test('a long outage of the stream: channels are notified, and come back', async () => {
      const socket = await open();
      const joinRef = await socket.join('notes', ASKED, token);
      // A new slot waits for the lock holder.
      const writer = new pg.Client({ connectionString: world.databaseUrl });
      await writer.connect();
      await writer.query('begin; insert into notes values (-1)');
      await admin.query(
        'select pg_terminate_backend(active_pid) from pg_replication_slots where database = current_database()',
      );
      await expect.poll(state).toBe('connecting');
      putForward();
      await socket.frame(({ event, joinRef: of }) => event === 'phx_error' && of === joinRef);
      await writer.query('commit');
      await writer.end();
      await expect.poll(state).toBe('live');
      await socket.join('notes', ASKED, token);
      await admin.query('insert into notes values (-2)');
      await expect.poll(() => heard(socket)).toEqual([-2]);
    });
});
