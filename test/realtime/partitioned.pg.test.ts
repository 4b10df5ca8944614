// Partitioned tables with `realtime: true`, by both sources and at two instances: a change of a partition is a change
// of the whole table, and the policies of the table apply.
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startBackend, type Backend } from '../../src/server/backend.ts';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';
import { RawSocket } from './raw-socket.ts';

/**
 * Created by hand, because the file has no partitioned tables. One partition is also written directly, and one is added
 * later.
 */
const TABLE = `
create table public.events (
  owner uuid not null, day date not null, id integer not null, text text, large text, primary key (day, id)
) partition by range (day);
create table public.events_2026 partition of public.events for values from ('2026-01-01') to ('2027-01-01')
  partition by range (day);
create table public.events_2026_h1 partition of public.events_2026 for values from ('2026-01-01') to ('2026-07-01');
create table public.events_2026_h2 (text text, id integer not null, gone integer, day date not null,
  owner uuid not null, large text);
alter table public.events_2026_h2 drop column gone;
alter table public.events_2026 attach partition public.events_2026_h2 for values from ('2026-07-01') to ('2027-01-01');
alter table public.events enable row level security;
create policy own on public.events for select to authenticated using (owner = auth.uid());
grant select on public.events to anon, authenticated, service_role;
alter table public.events owner to svc_owner;
alter table public.events_2026 owner to svc_owner;
alter table public.events_2026_h1 owner to svc_owner;
alter table public.events_2026_h2 owner to svc_owner;
alter publication svc_realtime add table public.events;
`;
const ANN = '00000000-0000-4000-8000-00000000000a';
const BEN = '00000000-0000-4000-8000-00000000000b';

type Data = { type: string; table: string; record?: Record<string, unknown>; old_record?: object };

describe.each(['wal', 'triggers'] as const)('by %s', (source) => {
  let world: BackendWorld;
  let peer: Backend;
  let admin: pg.Client;
  const sockets: RawSocket[] = [];

  beforeAll(async () => {
    world = await startBackendWorld(
      `version: 1\nproject: { name: parts }\ntables: {}\nrealtime: { source: ${source} }\n`,
      {
        prepareAfter: async (url) => {
          const client = new pg.Client({ connectionString: url });
          await client.connect();
          await client.query(TABLE);
          await client.end();
        },
      },
    );
    peer = await startBackend({ ...world.options, port: 0 });
    admin = new pg.Client({ connectionString: world.databaseUrl });
    await admin.connect();
  });

  afterAll(async () => {
    for (const socket of sockets) socket.close();
    await peer.stop();
    await admin.end();
    await world.close();
  });

  async function listens(url: string, sub: string): Promise<RawSocket> {
    const socket = await RawSocket.open(url, world.keys.publishable);
    sockets.push(socket);
    const token = await world.token({ role: 'authenticated', sub });
    const asked = [{ event: '*', schema: 'public', table: 'events' }];
    await socket.join('parts', { postgres_changes: asked }, token);
    await expect
      .poll(() => socket.of('system').map(({ payload }) => payload['message']))
      .toEqual(['Subscribed to PostgreSQL']);
    return socket;
  }

  const heard = (socket: RawSocket): Data[] =>
    socket.of('postgres_changes').map(({ payload }) => payload['data'] as Data);
  const brief = (socket: RawSocket): unknown[] =>
    heard(socket).map(({ type, table, record, old_record }) => [type, table, record?.['id'] ?? old_record]);

  test('changes of partitions carry the name of the table and obey its policies', async () => {
    const [here, there, ben] = await Promise.all([
      listens(world.url, ANN),
      listens(peer.url, ANN),
      listens(peer.url, BEN),
    ]);
    const large = 'x'.repeat(50_000);
    await admin.query(
      `insert into events values ($1, '2026-02-01', 1, 'first half', $2), ($1, '2026-08-01', 2, 'second half', null)`,
      [ANN, large],
    );
    await admin.query(`insert into events_2026_h1 values ($1, '2026-02-02', 3, 'directly', null)`, [ANN]);
    await expect.poll(() => heard(here).length).toBe(3);
    await admin.query(`update events set text = 'same half' where id = 1`);
    // Sequential, because visibility is checked by key at delivery.
    for (const socket of [here, there]) await expect.poll(() => heard(socket).length).toBe(4);
    // A row that moves to another partition is deleted from one and inserted into the other.
    await admin.query(`update events set day = '2026-09-01' where id = 1`);
    await admin.query(
      `create table events_2027 partition of events for values from ('2027-01-01') to ('2028-01-01')`,
    );
    await admin.query(
      `insert into events values ($1, '2027-05-01', 4, 'later', null), ($2, '2027-05-01', 5, 'later', null)`,
      [BEN, ANN],
    );
    for (const socket of [here, there]) await expect.poll(() => heard(socket).length).toBe(7);
    await admin.query(`delete from events where id = 5`);
    for (const socket of [here, there]) {
      await expect
        .poll(() => brief(socket))
        .toEqual([
          ['INSERT', 'events', 1],
          ['INSERT', 'events', 2],
          ['INSERT', 'events', 3],
          ['UPDATE', 'events', 1],
          ['DELETE', 'events', { day: '2026-02-01', id: 1 }],
          ['INSERT', 'events', 1],
          ['INSERT', 'events', 5],
          ['DELETE', 'events', { day: '2027-05-01', id: 5 }],
        ]);
    }
    expect(heard(here)[1]?.record).toEqual({
      owner: ANN,
      day: '2026-08-01',
      id: 2,
      text: 'second half',
      large: null,
    });
    expect(heard(here)[3]?.record).toMatchObject({ text: 'same half', large });
    expect(brief(ben)).toEqual([
      ['DELETE', 'events', { day: '2026-02-01', id: 1 }],
      ['INSERT', 'events', 4],
      ['DELETE', 'events', { day: '2027-05-01', id: 5 }],
    ]);
  });
});
