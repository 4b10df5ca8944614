// Changes of tables, from svc.yaml to supabase-js.
import { createClient, type RealtimeChannel, type SupabaseClient } from '@supabase/supabase-js';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';
import { rounds } from '../support/rounds.ts';
import { RawSocket } from './raw-socket.ts';
import { scaled } from '../support/run/scaled.ts';

const SUBSCRIPTIONS = rounds(10, 100, 'SVC_TEST_SUBSCRIPTIONS');

const YAML = `
version: 1
project: { name: changes }
tables:
  notes:
    realtime: true
    rls:
      - { operations: [all], to: authenticated, using: owner = auth.uid(), with_check: owner = auth.uid() }
    fields:
      - { name: id, type: bigint, primary_key: true }
      - { name: owner, type: uuid }
      - { name: text, type: text }
      - { name: secret, type: text }
    grants:
      authenticated: [{ select: [id, owner, text] }, insert, update, delete]
  open:
    realtime: { old: full }
    rls: false
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: kind, type: text }
      - { name: amount, type: numeric }
      - { name: big, type: bigint }
      - { name: at, type: timestamptz }
      - { name: data, type: jsonb }
      - { name: tags, type: "text[]" }
      - { name: bytes, type: bytea }
      - { name: done, type: boolean }
      - { name: large, type: text }
  quiet:
    realtime: { events: [insert], deletes: none }
    rls:
      - { operations: [select], using: "true" }
    fields:
      - { name: id, type: integer, primary_key: true }
  plain:
    realtime: true
    rls: false
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: kind, type: text }
  silent:
    realtime: { deletes: none }
    rls:
      - { operations: [select], using: "true" }
    fields:
      - { name: id, type: integer, primary_key: true }
  later:
    rls: false
    fields:
      - { name: id, type: integer, primary_key: true }
  guarded:
    realtime: true
    rls: [{ operations: [select], using: may_see(kind) }]
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: kind, type: text }
  untold:
    rls: false
    fields:
      - { name: id, type: integer, primary_key: true }
rpc:
  may_see:
    language: sql
    volatility: stable
    args: [{ name: kind, type: text }]
    returns: { type: boolean }
    body: select true
`;

type Change = {
  eventType: string;
  table: string;
  new: Record<string, unknown>;
  old: Record<string, unknown>;
  errors: unknown;
};

describe.each(['wal', 'triggers'] as const)('changes by %s', (source) => {
  let world: BackendWorld;
  let admin: pg.Client;
  const ann = { id: '00000000-0000-4000-8000-00000000000a', token: '' };
  const ben = { id: '00000000-0000-4000-8000-00000000000b', token: '' };
  const clients: SupabaseClient[] = [];

  beforeAll(async () => {
    world = await startBackendWorld(`${YAML}realtime: { source: ${source} }\n`);
    admin = new pg.Client({ connectionString: world.databaseUrl });
    await admin.connect();
    for (const user of [ann, ben]) user.token = await world.token({ role: 'authenticated', sub: user.id });
  });

  afterEach(async () => {
    for (const client of clients.splice(0)) {
      await client.removeAllChannels();
      await client.realtime.disconnect();
    }
  });

  afterAll(async () => {
    await admin.end();
    await world.close();
  });

  async function clientFor(user?: { token: string }): Promise<SupabaseClient> {
    const client = createClient(
      world.url,
      world.keys.publishable,
      user && { accessToken: () => Promise.resolve(user.token) },
    );
    if (user) await client.realtime.setAuth();
    clients.push(client);
    return client;
  }

  type Filter = { event?: string; schema?: string; table?: string; filter?: string; select?: string[] };
  type Received = { changes: Change[]; statusMessages: string[]; channel: RealtimeChannel };
  let topics = 0;

  async function listen(client: SupabaseClient, ...filters: Filter[]): Promise<Received> {
    const received: Received = {
      changes: [],
      statusMessages: [],
      channel: client.channel(`changes-${topics++}`),
    };
    for (const filter of filters) {
      received.channel.on(
        'postgres_changes',
        { event: '*', schema: 'public', ...filter } as never,
        (change: Change) => received.changes.push(change),
      );
    }
    received.channel.on('system', {}, ({ message }: { message: string }) =>
      received.statusMessages.push(message),
    );
    await new Promise<void>((resolve, reject) => {
      received.channel.subscribe((status: string, error) => {
        if (status === 'SUBSCRIBED') resolve();
        else if (status !== 'CLOSED') reject(error ?? new Error(status));
      });
    });
    return received;
  }

  const events = ({ changes }: Received): unknown[] =>
    changes.map((change) => [change.eventType, change.new['id'] ?? change.old['id']]);

  test('the owner receives inserts, updates and deletes; others receive no hidden rows', async () => {
    const [a, b] = [
      await listen(await clientFor(ann), { table: 'notes' }),
      await listen(await clientFor(ben), { table: 'notes' }),
    ];
    expect(a.statusMessages).toEqual(['Subscribed to PostgreSQL']);
    await admin.query(`insert into notes values (1, $1, 'mine', 'hidden')`, [ann.id]);
    // Sequential, because visibility is checked at delivery.
    await expect.poll(() => events(a)).toEqual([['INSERT', 1]]);
    await admin.query(`update notes set text = 'still mine' where id = 1`);
    await expect.poll(() => events(a)).toHaveLength(2);
    await admin.query(`delete from notes where id = 1`);
    await admin.query(`insert into notes values (2, $1, 'his', 'hidden')`, [ben.id]);
    await expect
      .poll(() => events(b))
      .toEqual([
        ['DELETE', 1],
        ['INSERT', 2],
      ]);
    await expect
      .poll(() => events(a))
      .toEqual([
        ['INSERT', 1],
        ['UPDATE', 1],
        ['DELETE', 1],
      ]);
    // A column without the select right is absent.
    expect(a.changes[0]?.new).toEqual({ id: 1, owner: ann.id, text: 'mine' });
    expect(a.changes[1]?.old).toEqual({ id: 1 });
    expect(a.changes[2]?.old).toEqual({ id: 1 });
    expect(a.changes[0]?.errors).toBeNull();
  });

  test('a row that changes its owner: an update for the new owner, nothing for the old owner', async () => {
    await admin.query(`insert into notes values (10, $1, 'x', null)`, [ann.id]);
    const [a, b] = [
      await listen(await clientFor(ann), { table: 'notes' }),
      await listen(await clientFor(ben), { table: 'notes' }),
    ];
    await admin.query(`update notes set owner = $1 where id = 10`, [ben.id]);
    await admin.query(`insert into notes values (11, $1, 'last', null)`, [ann.id]);
    await expect.poll(() => events(a)).toEqual([['INSERT', 11]]);
    expect(events(b)).toEqual([['UPDATE', 10]]);
  });

  test('a row that is deleted immediately has no insert event', async () => {
    const a = await listen(await clientFor(ann), { table: 'notes' });
    await admin.query(
      `begin; insert into notes values (20, '${ann.id}', 'x', null); delete from notes where id = 20; commit`,
    );
    await admin.query(`begin; insert into notes values (21, '${ann.id}', 'x', null); rollback`);
    await admin.query(`insert into notes values (22, $1, 'y', null)`, [ann.id]);
    await expect
      .poll(() => events(a))
      .toEqual([
        ['DELETE', 20],
        ['INSERT', 22],
      ]);
  });

  test('values equal those of the REST API', async () => {
    const subscription = await listen(await clientFor(), { table: 'open', event: 'INSERT' });
    await admin.query(`insert into open values (1, 'k', 'NaN', 9007199254740993, '2026-01-02 03:04:05.678901+02',
    '{"a":[1,null]}', '{a,"b c"}', '\\x00ff', true, null), (2, null, 1.50, 1, null, 'null', null, null, false, null)`);
    await expect.poll(() => subscription.changes.length).toBe(2);
    expect(subscription.changes[0]?.new).toEqual({
      id: 1,
      kind: 'k',
      amount: 'NaN',
      // The library parses it as a number, which has fewer digits.
      big: 9_007_199_254_740_992,
      at: '2026-01-02T01:04:05.678901+00:00',
      data: { a: [1, null] },
      tags: ['a', 'b c'],
      bytes: '00ff',
      done: true,
      large: null,
    });
    expect(subscription.changes[1]?.new).toMatchObject({ amount: 1.5, data: null, done: false });
  });

  test('a frame has the table, its columns with their types, and the time of the commit', async () => {
    const socket = await RawSocket.open(world.url, world.keys.publishable);
    try {
      await socket.join('plain', { postgres_changes: [{ event: '*', schema: 'public', table: 'plain' }] });
      const before = Date.now();
      await admin.query(`insert into plain values (1, 'a'); update plain set kind = 'b'; delete from plain`);
      await expect.poll(() => socket.of('postgres_changes').length).toBe(3);
      const data = socket.of('postgres_changes').map(({ payload }) => payload['data']);
      const common = {
        schema: 'public',
        table: 'plain',
        commit_timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
        columns: [
          { name: 'id', type: 'int4' },
          { name: 'kind', type: 'text' },
        ],
        errors: null,
      };
      expect(data).toEqual([
        { ...common, type: 'INSERT', record: { id: 1, kind: 'a' } },
        { ...common, type: 'UPDATE', record: { id: 1, kind: 'b' }, old_record: { id: 1 } },
        { ...common, type: 'DELETE', old_record: { id: 1 } },
      ]);
      const [{ commit_timestamp: at }] = data as [{ commit_timestamp: string }];
      expect(Date.parse(at)).toBeGreaterThanOrEqual(before - 1);
      expect(Date.parse(at)).toBeLessThanOrEqual(Date.now() + 1);
    } finally {
      socket.close();
    }
  });

  test('without row-level security a deletion has the whole old row, if the file requests it', async () => {
    await admin.query(`delete from open; insert into open (id, kind) values (50, 'gone')`);
    const subscription = await listen(await clientFor(), {
      table: 'open',
      event: 'DELETE',
      filter: 'kind=eq.gone',
    });
    expect(subscription.statusMessages).toEqual(['Subscribed to PostgreSQL']);
    await admin.query('delete from open where id = 50');
    await expect.poll(() => subscription.changes.length).toBe(1);
    expect(subscription.changes[0]?.old).toMatchObject({ id: 50, kind: 'gone', amount: null });
  });

  test('with `deletes: none` deletions are not delivered', async () => {
    const subscription = await listen(await clientFor(), { table: 'silent' });
    await admin.query('insert into silent values (1); delete from silent; insert into silent values (2)');
    await expect.poll(() => subscription.changes.length).toBe(1);
    await admin.query('delete from silent');
    await admin.query('insert into silent values (3)');
    await expect
      .poll(() => events(subscription))
      .toEqual([
        ['INSERT', 2],
        ['INSERT', 3],
      ]);
  });

  test('a large value that an update does not change is included', async () => {
    await admin.query(
      `insert into open (id, large, kind)
        values (30, (select string_agg(md5(n::text), '') from generate_series(1, 2000) n), 'a')`,
    );
    await admin.query(
      `insert into notes values (30, $1, (select string_agg(md5(n::text), '') from generate_series(1, 2000) n), null)`,
      [ann.id],
    );
    const subscription = await listen(await clientFor(ann), { table: 'open' }, { table: 'notes' });
    await admin.query(
      `update open set kind = 'b' where id = 30; update notes set secret = 's' where id = 30`,
    );
    await expect.poll(() => subscription.changes.length).toBe(2);
    expect(String(subscription.changes[0]?.new['large'])).toHaveLength(64_000);
    expect(subscription.changes[0]?.old).toMatchObject({ id: 30, kind: 'a' });
    expect(String(subscription.changes[1]?.new['text'])).toHaveLength(64_000);
  });

  test.each([
    ['kind=eq.a', [1, 5]],
    ['kind=neq.a', [2]],
    ['kind=in.(a,"b,c")', [1, 2, 5]],
    ['kind=not.in.(a)', [2]],
    ['kind=is.null', [3, 4]],
    ['kind=not.is.null', [1, 2, 5]],
    ['kind=isdistinct.a', [2, 3, 4]],
    ['kind=like.b%', [2]],
    ['kind=ilike.A', [1, 5]],
    ['kind=match.^a$', [1, 5]],
    ['kind=imatch.^A$', [1, 5]],
    ['amount=gt.9', [2]],
    ['amount=lte.9.0', [1]],
    ['amount=eq.9.00', [1]],
    ['big=gte.10', [2, 3]],
    ['done=is.true', [1]],
    ['done=is.unknown', [3, 4, 5]],
    ['at=lt.2026-06-01', [1]],
    ['kind=eq.a,done=is.true', [1]],
  ])('filter %s', async (filter, expected) => {
    const subscription = await listen(await clientFor(), { table: 'open', event: 'INSERT', filter });
    expect(subscription.statusMessages).toEqual(['Subscribed to PostgreSQL']);
    await admin.query(`begin; delete from open; insert into open (id, kind, amount, big, done, at) values
    (1, 'a', 9, 2, true, '2026-01-01'), (2, 'b,c', 10, 10, false, '2027-01-01'), (3, null, null, 100, null, null),
    (4, null, null, null, null, null), (5, 'a', null, null, null, null); commit`);
    await expect.poll(() => subscription.changes.map((change) => change.new['id'])).toEqual(expected);
  });

  test.each([
    [{ table: 'untold' }, /table public\.untold does not publish its changes. Set `realtime: true`/],
    [{ table: 'nowhere' }, /does not publish its changes/],
    [{ table: 'open', filter: 'none=eq.1' }, /has no column none/],
    [{ table: 'open', filter: 'amount=eq.many' }, /invalid input syntax/i],
    [{ table: 'open', filter: 'kind~a' }, /^Error parsing `filter` params/],
    [{ table: 'open', filter: 'kind=matsch.a' }, /unknown operator "matsch"/],
    [{ table: 'open', filter: 'kind=match.(' }, /regular expression/],
    [{ table: 'notes', filter: 'secret=eq.x' }, /may not select the column secret/],
    [{ table: 'notes', event: 'DELETE', filter: 'text=eq.x' }, /set `realtime.old: full`/],
  ])('a binding that cannot deliver reports the reason: %o', async (binding, message) => {
    const subscription = await listen(await clientFor(ann), binding);
    await expect.poll(() => subscription.statusMessages.join()).toMatch(message);
  });

  test('a filter that no deletion can match is reported, and other events are delivered', async () => {
    const subscription = await listen(await clientFor(), { table: 'plain', filter: 'kind=eq.a' });
    await expect
      .poll(() => subscription.statusMessages)
      .toEqual([
        'Subscribed to PostgreSQL',
        'DELETE events carry the primary key only; set `realtime.old: full` to filter them by kind',
      ]);
    await admin.query(`insert into plain values (2, 'a'), (3, 'b'); delete from plain`);
    await admin.query(`insert into plain values (4, 'a')`);
    await expect
      .poll(() => events(subscription))
      .toEqual([
        ['INSERT', 2],
        ['INSERT', 4],
      ]);
  });

  test('a whole schema is subscribed if one of its tables can be delivered', async () => {
    const subscription = await listen(await clientFor(), { schema: 'public' });
    await expect.poll(() => subscription.statusMessages).toEqual(['Subscribed to PostgreSQL']);
  });

  test('a user who signs in with an open channel receives changes and a new status', async () => {
    const client = await clientFor();
    const subscription = await listen(client, { table: 'notes' });
    const why = /for the role anon: nothing would be delivered. Await `realtime.setAuth\(\)`|may not select/;
    await expect.poll(() => subscription.statusMessages).toEqual([expect.stringMatching(why)]);
    await client.realtime.setAuth(ann.token);
    await expect.poll(() => subscription.statusMessages.slice(1)).toEqual(['Subscribed to PostgreSQL']);
    await admin.query(`insert into notes values (60, $1, 'x', null)`, [ann.id]);
    await expect.poll(() => events(subscription)).toEqual([['INSERT', 60]]);
  });

  test('policies that cannot be evaluated for the first caller are evaluated for the next', async () => {
    await admin.query('revoke execute on function may_see from public, anon');
    const client = await clientFor();
    const filtered = await listen(client, { table: 'guarded', event: 'INSERT', filter: 'kind=eq.a' });
    const plain = await listen(client, { table: 'guarded', event: 'INSERT' });
    for (const { statusMessages } of [filtered, plain]) {
      await expect
        .poll(() => statusMessages)
        .toEqual([expect.stringMatching(/Permission denied for function may_see/)]);
    }
    await client.realtime.setAuth(ann.token);
    for (const { statusMessages } of [filtered, plain]) {
      await expect.poll(() => statusMessages).toContain('Subscribed to PostgreSQL');
    }
    await admin.query(`insert into guarded values (1, 'a'), (2, 'b')`);
    await expect
      .poll(() => events(plain))
      .toEqual([
        ['INSERT', 1],
        ['INSERT', 2],
      ]);
    await expect.poll(() => events(filtered)).toEqual([['INSERT', 1]]);
    await admin.query('delete from guarded');
  });

  test('a binding that names a column without the select right receives nothing', async () => {
    const [subscription, control] = [
      await listen(await clientFor(ann), { table: 'notes', event: 'INSERT', select: ['secret'] }),
      await listen(await clientFor(ann), { table: 'notes', event: 'INSERT' }),
    ];
    await expect
      .poll(() => subscription.statusMessages.join())
      .toMatch(/no column secret that authenticated may select/);
    await admin.query(`insert into notes values (70, $1, 'x', 's')`, [ann.id]);
    await expect.poll(() => events(control)).toEqual([['INSERT', 70]]);
    expect(events(subscription)).toEqual([]);
  });

  describe('a client that waits for the subscription', () => {
    async function waiting(...filters: Filter[]): Promise<{ statusMessages: string[]; changes: Change[] }> {
      const client = await clientFor();
      const received: { statusMessages: string[]; changes: Change[] } = { statusMessages: [], changes: [] };
      const channel = client.channel(`wait-${topics++}`, {
        config: { postgres_changes_options: { wait: true, timeout: 3_000 } },
      });
      for (const filter of filters) {
        channel.on(
          'postgres_changes',
          { event: '*', schema: 'public', ...filter } as never,
          (change: Change) => received.changes.push(change),
        );
      }
      channel.subscribe((status: string, error) => {
        received.statusMessages.push(error ? `${status} ${error.message}` : status);
      });
      await expect.poll(() => received.statusMessages.length).toBeGreaterThan(0);
      return received;
    }

    test('is subscribed when changes are delivered', async () => {
      const { statusMessages, changes } = await waiting({ table: 'plain', event: 'INSERT' });
      await admin.query('delete from plain; insert into plain values (1)');
      expect(statusMessages).toEqual(['SUBSCRIBED']);
      await expect.poll(() => changes.length).toBe(1);
    });

    test.each([
      [
        [{ table: 'untold' }],
        /^CHANNEL_ERROR RealtimeDisabledForConfiguration: Unable to subscribe .*`realtime: true`/,
      ],
      [
        [{ table: 'plain' }, { table: 'open', filter: 'none=eq.1' }],
        /^CHANNEL_ERROR RealtimeDisabledForConfiguration: .*public\.open has no column none/,
      ],
      [
        [{ table: 'open', filter: 'kind~a' }],
        /^CHANNEL_ERROR RealtimeDisabledForConfiguration: Error parsing/,
      ],
    ])('is rejected when changes cannot be delivered: %o', async (filters, message) => {
      const { statusMessages } = await waiting(...filters);
      expect(statusMessages[0]).toMatch(message);
    });
  });

  test('a role without a policy gets the reason', async () => {
    const subscription = await listen(await clientFor(), { table: 'notes' });
    await expect.poll(() => subscription.statusMessages.join()).toMatch(/may not select|no select policy/);
  });

  test('a schema without a table means all of its tables, and the events of each table apply', async () => {
    const subscription = await listen(
      await clientFor(ann),
      { schema: 'public' },
      { schema: 'public', table: 'quiet', event: 'DELETE' },
    );
    await admin.query('insert into quiet values (1)');
    await expect.poll(() => subscription.changes.length).toBe(1);
    await admin.query('update quiet set id = 2; delete from quiet; insert into open (id) values (99)');
    await expect
      .poll(() => subscription.changes.map(({ table, eventType }) => [table, eventType]))
      .toEqual([
        ['quiet', 'INSERT'],
        ['open', 'INSERT'],
      ]);
  });

  test.runIf(source === 'wal')('subscribers are notified when a table is published', async () => {
    const subscription = await listen(await clientFor(), { table: 'later', event: 'INSERT' });
    await expect
      .poll(() => subscription.statusMessages)
      .toEqual([expect.stringMatching(/does not publish its changes/)]);
    try {
      await admin.query('alter publication svc_realtime add table later; notify svc_schema');
      await expect.poll(() => subscription.statusMessages.slice(1)).toEqual(['Subscribed to PostgreSQL']);
      await admin.query('insert into later values (3)');
      await expect.poll(() => events(subscription)).toEqual([['INSERT', 3]]);
    } finally {
      await admin.query(
        'alter publication svc_realtime drop table later; delete from later; notify svc_schema',
      );
    }
  });

  // The trigger is created within seconds. Earlier changes are not delivered.
  test.runIf(source === 'wal')(
    'subscribers of a schema receive changes of a newly published table, without a new join',
    async () => {
      const socket = await RawSocket.open(world.url, world.keys.publishable);
      try {
        await socket.join('meanwhile', { postgres_changes: [{ event: 'INSERT', schema: 'public' }] });
        await admin.query('insert into untold values (1)');
        await admin.query('alter publication svc_realtime add table untold');
        await admin.query('insert into untold values (2)');
        await expect
          .poll(() => socket.of('postgres_changes').map(({ payload }) => payload['data']))
          .toMatchObject([{ table: 'untold', record: { id: 2 } }]);
        expect(socket.of('phx_reply')).toHaveLength(1);
        expect(socket.of('phx_error')).toEqual([]);
      } finally {
        socket.close();
        await admin.query('alter publication svc_realtime drop table untold; delete from untold');
      }
    },
  );

  test('delivers only the requested columns and the key', async () => {
    const subscription = await listen(await clientFor(), { table: 'open', select: ['kind'] });
    await admin.query(`delete from open; insert into open (id, kind, big) values (1, 'x', 5)`);
    await expect
      .poll(() => subscription.changes.find(({ eventType }) => eventType === 'INSERT')?.new)
      .toEqual({ id: 1, kind: 'x' });
  });

  test('an update of the key has the old key in old and the new one in new', async () => {
    await admin.query(`insert into notes values (40, $1, 'x', null)`, [ann.id]);
    const subscription = await listen(await clientFor(ann), { table: 'notes', event: 'UPDATE' });
    await admin.query(`update notes set id = 41 where id = 40`);
    await expect.poll(() => subscription.changes.length).toBe(1);
    expect([subscription.changes[0]?.old, subscription.changes[0]?.new['id']]).toEqual([{ id: 40 }, 41]);
  });

  // Ten times the bound of the backlog, so that the source is paused.
  test('twenty thousand rows of one transaction arrive in order', async () => {
    const rows = 20_000;
    await admin.query('delete from quiet');
    const subscription = await listen(await clientFor(), { table: 'quiet' });
    await admin.query('insert into quiet (id) select n from generate_series(1, $1::integer) n', [rows]);
    await expect.poll(() => subscription.changes.length, { timeout: scaled(60_000) }).toBe(rows);
    expect(subscription.changes.map((change) => change.new['id'])).toEqual(
      Array.from({ length: rows }, (_, n) => n + 1),
    );
  });

  test('a transaction that reserved its keys early is delivered when it ends', async () => {
    const late = new pg.Client({ connectionString: world.databaseUrl });
    await late.connect();
    const subscription = await listen(await clientFor(ann), { table: 'notes', event: 'INSERT' });
    const inserting = `insert into notes values ($1, $2, 'late', null)`;
    await late.query('begin');
    await late.query(inserting, [700, ann.id]);
    await admin.query(inserting, [701, ann.id]);
    await expect.poll(() => events(subscription)).toEqual([['INSERT', 701]]);
    await late.query(inserting, [699, ann.id]);
    await late.query('commit');
    await late.end();
    await expect
      .poll(() => events(subscription))
      .toEqual([
        ['INSERT', 701],
        ['INSERT', 700],
        ['INSERT', 699],
      ]);
  });

  test('a row that is inserted at the time of SUBSCRIBED is delivered', async () => {
    for (let n = 0; n < SUBSCRIPTIONS; n++) {
      const subscription = await listen(await clientFor(ann), { table: 'notes', event: 'INSERT' });
      await admin.query(`insert into notes values ($1, $2, 'now', null)`, [1_000 + n, ann.id]);
      await expect.poll(() => subscription.changes.length).toBe(1);
    }
  });

  test('every insert of eight writers into a table with policies arrives', async () => {
    const subscription = await listen(await clientFor(ann), { table: 'notes', event: 'INSERT' });
    await Promise.all(
      Array.from({ length: 8 }, async (_, writer) => {
        const client = new pg.Client({ connectionString: world.databaseUrl });
        await client.connect();
        for (let n = 0; n < 250; n++) {
          await client.query(`insert into notes values ($1, $2, 'w', null)`, [
            100_000 + writer * 1_000 + n,
            ann.id,
          ]);
        }
        await client.end();
      }),
    );
    await expect.poll(() => subscription.changes.length).toBe(2_000);
  });

  test('a change of the user of a channel changes the visible rows', async () => {
    const client = await clientFor(ann);
    const subscription = await listen(client, { table: 'notes', event: 'INSERT' });
    await client.realtime.setAuth(ben.token);
    await admin.query(`insert into notes values (50, $1, 'for ben', null)`, [ben.id]);
    await admin.query(`insert into notes values (51, $1, 'for ann', null)`, [ann.id]);
    await admin.query(`insert into notes values (52, $1, 'for ben', null)`, [ben.id]);
    await expect.poll(() => events(subscription).at(-1)).toEqual(['INSERT', 52]);
    expect(events(subscription)).not.toContainEqual(['INSERT', 51]);
  });

  test('messages that a statement sends arrive with their id, in the order of commits', async () => {
    const service = createClient(world.url, world.keys.secret);
    clients.push(service);
    const received: Array<{ event: string; payload: unknown; meta?: { id: string } }> = [];
    const channel = service.channel('room:1', { config: { private: true } });
    channel.on('broadcast', { event: '*' }, (message) => received.push(message as never));
    await new Promise<void>((resolve) =>
      channel.subscribe((status: string) => status === 'SUBSCRIBED' && resolve()),
    );
    await admin.query(`begin; select realtime.send('{"n":0}', 'x', 'room:1'); rollback`);
    await admin.query(`select realtime.send('{"n":1}', 'x', 'room:1')`);
    await admin.query(`select realtime.send_binary('\\x0102', 'raw', 'room:1')`);
    await admin.query(`
      create function tell_room() returns trigger language plpgsql security definer set search_path = '' as $$
      begin
        perform realtime.broadcast_changes('room:1', tg_op, tg_op, tg_table_name, tg_table_schema, new, old);
        return null;
      end $$;
      create trigger tell_room after insert or update or delete on untold for each row execute function tell_room();
      insert into untold values (7); update untold set id = 8; delete from untold;
      drop function tell_room() cascade`);
    await expect
      .poll(() => received.map(({ event }) => event))
      .toEqual(['x', 'raw', 'INSERT', 'UPDATE', 'DELETE']);
    expect(received[0]).toMatchObject({ payload: { n: 1 }, meta: { id: expect.any(String) } });
    const row = { table: 'untold', schema: 'public' };
    expect(received.slice(2).map(({ payload }) => payload)).toMatchObject([
      { ...row, operation: 'INSERT', record: { id: 7 }, old_record: null },
      { ...row, operation: 'UPDATE', record: { id: 8 }, old_record: { id: 7 } },
      { ...row, operation: 'DELETE', record: null, old_record: { id: 8 } },
    ]);
  });

  test('clients are notified when a lost stream is back, and read the missing rows', async () => {
    const client = await clientFor();
    const statuses: string[] = [];
    const seen = new Set<unknown>();
    await admin.query('delete from open');
    const channel = client
      .channel('gap')
      .on('postgres_changes', { event: 'INSERT', schema: 'public', table: 'open' }, (change) =>
        seen.add(change.new['id']),
      );
    channel.subscribe((status: string) => {
      statuses.push(status);
      if (status !== 'SUBSCRIBED') return;
      void client
        .from('open')
        .select('id')
        .limit(1_000)
        .then(({ data }) => data?.forEach(({ id }) => seen.add(id)));
    });
    await expect.poll(() => statuses).toEqual(['SUBSCRIBED']);
    for (let n = 1; n <= 200; n++) {
      await admin.query('insert into open (id) values ($1)', [n]);
      if (n === 100)
        await admin.query(
          source === 'wal'
            ? `select pg_terminate_backend(active_pid) from pg_replication_slots
              where slot_name like 'svc_rt_%' and database = current_database()`
            : 'drop trigger "~svc_realtime" on open',
        );
    }
    await expect.poll(() => statuses).toEqual(['SUBSCRIBED', 'CHANNEL_ERROR', 'SUBSCRIBED']);
    await admin.query('insert into open (id) values (201)');
    await expect.poll(() => seen.size).toBe(201);
  });

  test('uses one slot while it runs, and none after', async () => {
    const slots = async (): Promise<number> => {
      const { rows } = await admin.query<{ n: number }>(
        `select count(*)::int as n from pg_replication_slots where database = current_database()`,
      );
      return rows[0]?.n ?? -1;
    };
    expect(await slots()).toBe(source === 'wal' ? 1 : 0);
    await world.backend.stop();
    await expect.poll(slots).toBe(0);
  });
});
