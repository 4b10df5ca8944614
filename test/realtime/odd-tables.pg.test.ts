// Unusual tables and rows: keys of several columns or none, columns without rights, rows that are too large, policies
// that fail, columns that are added later. Tests both sources.
import pg from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { collectLog } from '../support/collect-log.ts';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';
import { RawSocket } from './raw-socket.ts';

const YAML = `
version: 1
project: { name: odd }
tables:
  pairs:
    realtime: { old: full }
    rls:
      - { operations: [select], to: authenticated, using: owner = auth.uid() }
    fields:
      - { name: owner, type: uuid, primary_key: true }
      - { name: number, type: bigint, primary_key: true }
      - { name: text, type: text }
  plain:
    realtime: true
    rls: false
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: text, type: text }
  unreadable:
    realtime: true
    rls: false
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: text, type: text }
    grants: { authenticated: [{ select: [text] }] }
  sealed:
    realtime: true
    rls: [{ operations: [select], using: "text = 'shown'" }]
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: text, type: text }
    grants: { authenticated: [{ select: [text] }] }
  casting:
    realtime: true
    rls:
      - { operations: [select], to: authenticated, using: "(auth.jwt() ->> 'level')::integer >= 1" }
    fields: [{ name: id, type: integer, primary_key: true }]
`;
const ANN = '00000000-0000-4000-8000-00000000000a';
const BEN = '00000000-0000-4000-8000-00000000000b';

type Data = {
  type: string;
  columns: Array<{ name: string }>;
  record?: Record<string, unknown>;
  old_record?: Record<string, unknown>;
  errors: unknown;
};

describe.each(['wal', 'triggers'] as const)('by %s', (source) => {
  const { log, lines } = collectLog();
  let world: BackendWorld;
  let admin: pg.Client;
  const sockets: RawSocket[] = [];

  beforeAll(async () => {
    world = await startBackendWorld(`${YAML}realtime: { source: ${source} }\n`, { log });
    admin = new pg.Client({ connectionString: world.databaseUrl });
    await admin.connect();
  });

  afterEach(() => {
    for (const socket of sockets.splice(0)) socket.close();
  });

  afterAll(async () => {
    await admin.end();
    await world.close();
  });

  async function listens(table: string, claims: object = {}): Promise<RawSocket> {
    const socket = await RawSocket.open(world.url, world.keys.publishable);
    sockets.push(socket);
    const token = await world.token({ role: 'authenticated', sub: ANN, ...claims });
    const asked = [{ event: '*', schema: 'public', table }];
    await socket.join(`odd-${sockets.length}`, { postgres_changes: asked }, token);
    return socket;
  }

  const heard = (socket: RawSocket): Data[] =>
    socket.of('postgres_changes').map(({ payload }) => payload['data'] as Data);

  test('a key of two columns: visibility and old values use the whole key', async () => {
    const [ann, ben] = [await listens('pairs'), await listens('pairs', { sub: BEN })];
    await admin.query(`insert into pairs values ($1, 9007199254740993, 'x'), ($2, 9007199254740993, 'y')`, [
      ANN,
      BEN,
    ]);
    await expect.poll(() => heard(ann).map(({ record }) => record?.['text'])).toEqual(['x']);
    await expect.poll(() => heard(ben).map(({ record }) => record?.['text'])).toEqual(['y']);
    await admin.query(`update pairs set text = 'z' where owner = $1`, [ANN]);
    await expect.poll(() => heard(ann).at(-1)).toMatchObject({ type: 'UPDATE', old_record: { text: 'x' } });
    await admin.query(`delete from pairs where owner = $1`, [ANN]);
    // With row-level security a delete event has only the key, even if the whole old row is known.
    await expect.poll(() => heard(ann).at(-1)?.type).toBe('DELETE');
    expect(Object.keys(heard(ann).at(-1)?.old_record ?? {})).toEqual(['owner', 'number']);
  });

  test('a table without a key, published by hand, reports the missing key', async () => {
    await admin.query(`create table keyless (text text); grant select on keyless to authenticated;
      alter table keyless owner to svc_owner; alter publication svc_realtime add table keyless`);
    const socket = await listens('keyless');
    await admin.query(`insert into keyless values ('x')`);
    await expect
      .poll(() => heard(socket))
      .toMatchObject([{ type: 'INSERT', record: {}, errors: ['Error 400: Bad Request, no primary key'] }]);
  });

  test('a key without the select right delivers only the error', async () => {
    const socket = await listens('unreadable');
    await admin.query(`insert into unreadable values (1, 'x')`);
    await expect
      .poll(() => heard(socket))
      .toMatchObject([{ type: 'INSERT', columns: [], record: {}, errors: ['Error 401: Unauthorized'] }]);
  });

  test('with row-level security, a key that may not be selected ends the subscription at its join', async () => {
    const socket = await listens('sealed');
    await expect
      .poll(() => socket.of('system').map(({ payload }) => payload['message']))
      .toEqual([expect.stringContaining('may not select the primary key of the table public.sealed')]);
    const witness = await listens('plain');
    await admin.query(
      `insert into sealed values (1, 'hidden'), (2, 'shown'); insert into plain values (20, 'x')`,
    );
    await expect.poll(() => heard(witness).length).toBe(1);
    await socket.settle();
    expect(heard(socket)).toEqual([]);
  });

  test('a filter on a replica identity that is not the key matches no deleted row of others', async () => {
    await admin.query(`create table indexed (id integer primary key, owner uuid, secret text not null unique);
      grant select on indexed to authenticated; alter table indexed enable row level security;
      create policy p on indexed for select to authenticated using (owner = auth.uid());
      alter table indexed owner to svc_owner; alter table indexed replica identity using index indexed_secret_key;
      alter publication svc_realtime add table indexed; insert into indexed values (1, null, 'abc'), (2, null, 'xyz')`);
    const socket = await RawSocket.open(world.url, world.keys.publishable);
    sockets.push(socket);
    const token = await world.token({ role: 'authenticated', sub: ANN });
    const binding = { event: 'DELETE', schema: 'public', table: 'indexed' };
    await socket.join('like', { postgres_changes: [{ ...binding, filter: 'secret=like.ab%' }] }, token);
    await socket.join('equal', { postgres_changes: [{ ...binding, filter: 'secret=eq.abc' }] }, token);
    const witness = await listens('plain');
    await admin.query(`delete from indexed; insert into plain values (30, 'x')`);
    await expect.poll(() => heard(witness).length).toBe(1);
    await socket.settle();
    expect(heard(socket)).toEqual([]);
  });

  test('a policy that fails on one row hides no other row', async () => {
    await admin.query(`create table picky (id integer primary key, text text); grant select on picky to authenticated;
      alter table picky enable row level security; alter table picky owner to svc_owner;
      create policy p on picky for select to authenticated using (text::integer > 0);
      alter publication svc_realtime add table picky`);
    const socket = await listens('picky');
    await admin.query(`insert into picky values (1, '1'), (2, 'x'), (3, '3')`);
    await expect.poll(() => heard(socket).map(({ record }) => record?.['id'])).toEqual([1, 3]);
  });

  test('a row that is too large has its short values', async () => {
    const socket = await listens('plain');
    await admin.query(`insert into plain values (1, repeat('x', 1200000)), (2, 'short')`);
    await expect.poll(() => heard(socket).length).toBe(2);
    expect(heard(socket)).toMatchObject([
      { record: { id: 1 }, errors: ['Error 413: Payload Too Large'] },
      { record: { id: 2, text: 'short' }, errors: null },
    ]);
    expect(heard(socket)[0]?.record).toEqual({ id: 1 });
  });

  test('a policy that fails for one caller does not affect others, and is logged once', async () => {
    const [broken, good] = [
      await listens('casting', { level: 'high' }),
      await listens('casting', { level: '2' }),
    ];
    for (let id = 0; id < 5; id++) {
      await admin.query('insert into casting values ($1)', [id]);
      await expect.poll(() => heard(good).length).toBe(id + 1);
    }
    await broken.settle();
    expect(heard(broken)).toEqual([]);
    const said = lines().filter(
      ({ msg, table }) =>
        String(msg).startsWith('a policy failed on changed rows') && table === 'public.casting',
    );
    expect(said).toMatchObject([{ sqlstate: '22P02', table: 'public.casting', role: 'authenticated' }]);
    // PostgreSQL's message quotes the value that it could not cast.
    expect(Object.keys(said[0] ?? {}).toSorted()).toEqual([
      'level',
      'msg',
      'role',
      'sqlstate',
      'table',
      'time',
    ]);
  });

  test('changes that a savepoint rolled back are not delivered', async () => {
    const socket = await listens('plain');
    await admin.query(`begin; insert into plain values (10, 'kept'); savepoint s; insert into plain values (11, 'gone');
      update plain set text = 'gone' where id = 10; rollback to s; insert into plain values (12, 'kept'); commit`);
    await expect
      .poll(() => heard(socket).map(({ record }) => record))
      .toEqual([
        { id: 10, text: 'kept' },
        { id: 12, text: 'kept' },
      ]);
  });

  test('a new column is delivered to open channels', async () => {
    await admin.query(`create table grows (id integer primary key); grant select on grows to authenticated;
      alter table grows owner to svc_owner; alter publication svc_realtime add table grows`);
    const socket = await listens('grows');
    await admin.query('insert into grows values (1)');
    await expect.poll(() => heard(socket).map(({ record }) => record)).toEqual([{ id: 1 }]);
    await admin.query(`alter table grows add column more text; notify svc_schema; `);
    await expect
      .poll(async () => {
        await admin.query(`update grows set more = 'x'`);
        return heard(socket).at(-1)?.record;
      })
      .toEqual({ id: 1, more: 'x' });
    expect(socket.of('phx_error')).toEqual([]);
  });
});
