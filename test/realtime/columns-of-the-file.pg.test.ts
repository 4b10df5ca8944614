// Column changes of the migration engine while clients are subscribed: copies are not published, and internal columns
// are absent from messages.
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Config } from '../../src/config/config.ts';
import { loadConfig } from '../../src/config/load.ts';
import { migrate, type MigrateOptions } from '../../src/migrate/migrate.ts';
import { silentLog } from '../../src/log/log.ts';
import { parseAddress } from '../../src/postgres/address/parse-address.ts';
import { OwnerDatabase } from '../../src/postgres/owner-database.ts';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';
import { provisionAt } from '../support/provision.ts';
import { RawSocket } from './raw-socket.ts';

const file = (source: string, amount: string): string => `
version: 1
project: { name: retyped }
realtime: { source: ${source} }
tables:
  entries:
    realtime: true
    rls: false
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: amount, type: ${amount} }
      - { name: note, type: text }
`;
const ROWS = 50;
const MARK = 1_000;

type Data = { type: string; record: Record<string, unknown>; columns: unknown[] };

function parseConfig(text: string): Config {
  const loaded = loadConfig({ name: 'svc.yaml', directory: undefined, text }, { variables: {} });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.mistakes));
  return loaded.config;
}

describe.each(['wal', 'triggers'] as const)('by %s', (source) => {
  let world: BackendWorld;
  let admin: pg.Client;
  let owner: OwnerDatabase;
  let socket: RawSocket;

  beforeAll(async () => {
    world = await startBackendWorld(file(source, 'integer'));
    admin = new pg.Client({ connectionString: world.databaseUrl });
    await admin.connect();
    await admin.query(`insert into entries select n, n, 'old' from generate_series(1, ${ROWS}) n`);
    await admin.query('analyze entries');
    const { ownerUrl } = await provisionAt(world.databaseUrl);
    owner = new OwnerDatabase({
      address: parseAddress(ownerUrl),
      applicationName: 'test',
      max: 4,
      idleTimeoutMs: 1_000,
    });
  });

  afterAll(async () => {
    socket?.close();
    await owner?.close();
    await admin.end();
    await world.close();
  });

  const heard = (): Data[] => socket.of('postgres_changes').map(({ payload }) => payload['data'] as Data);

  async function retype(onStatement: MigrateOptions['onStatement']): Promise<void> {
    const config = parseConfig(file(source, 'bigint'));
    const outcome = await migrate({
      owner,
      config,
      log: silentLog,
      policy: { maxWriteBlockMs: 0 },
      onStatement,
    });
    if (outcome.kind !== 'applied') throw new Error(outcome.kind);
    expect(await outcome.background).toEqual([]);
  }

  test('the copy is not published; other writes are, without the column that is being filled', async () => {
    socket = await RawSocket.open(world.url, world.keys.publishable);
    await socket.join('entries', {
      postgres_changes: [{ event: '*', schema: 'public', table: 'entries' }],
    });
    let filled = 0;
    await retype(async ({ action }) => {
      if (action.kind !== 'backfill' || filled++ > 0) return;
      await admin.query(`insert into entries values (${MARK}, 1, 'in between')`);
      await expect.poll(() => heard().length).toBe(1);
    });
    expect(filled).toBeGreaterThan(0);
    await admin.query(`update entries set note = 'after' where id = ${MARK}`);
    await expect
      .poll(() => heard().map(({ type, record }) => [type, record]))
      .toEqual([
        ['INSERT', { id: MARK, amount: 1, note: 'in between' }],
        ['UPDATE', { id: MARK, amount: 1, note: 'after' }],
      ]);
    const { rows } = await admin.query(
      `select format_type(atttypid, atttypmod) as type from pg_attribute
        where attrelid = 'entries'::regclass and attname = 'amount'`,
    );
    expect(rows).toEqual([{ type: 'bigint' }]);
  });

  test('a column that was removed from the file is kept and not delivered', async () => {
    await world.backend.reload(parseConfig(file(source, 'bigint').replace(/\n.*name: note.*/, '')));
    const binding = { event: 'INSERT', schema: 'public', table: 'entries' };
    for (const key of [world.keys.publishable, world.keys.secret]) {
      socket = await RawSocket.open(world.url, key);
      await socket.join('after', { postgres_changes: [binding, { ...binding, filter: 'note=eq.kept' }] });
      await expect
        .poll(() => socket.of('system').map(({ payload }) => payload['message']))
        .toContainEqual(expect.stringContaining('may not select the column note'));
      const { rows } = await admin.query<{ id: number }>(
        `insert into entries (id, amount, note) select max(id) + 1, 1, 'kept' from entries returning id`,
      );
      await expect.poll(() => heard().map(({ record }) => record)).toEqual([{ id: rows[0]?.id, amount: 1 }]);
      socket.close();
    }
  });

  test('a column that another file adds is in the next change, for channels that are open', async () => {
    socket = await RawSocket.open(world.url, world.keys.publishable);
    const joinRef = await socket.join('grown', {
      postgres_changes: [{ event: 'UPDATE', schema: 'public', table: 'entries' }],
    });
    await admin.query(`update entries set amount = 2 where id = ${MARK}`);
    await expect.poll(() => heard().map(({ record }) => record)).toEqual([{ id: MARK, amount: 2 }]);
    const now = file(source, 'bigint').replace('name: note,', 'name: more,');
    await world.backend.reload(parseConfig(now));
    await admin.query(`update entries set more = 'x' where id = ${MARK}`);
    await expect.poll(() => heard().length).toBe(2);
    expect(heard()[1]?.record).toEqual({ id: MARK, amount: 2, more: 'x' });
    expect(heard()[1]?.columns).toContainEqual({ name: 'more', type: 'text' });
    expect(socket.frames.filter(({ event }) => event === 'phx_error' || event === 'phx_close')).toEqual([]);
    expect(socket.of('phx_reply').map(({ ref }) => ref)).toEqual([joinRef]);
  });
});
