// Rows of the parity checklist about the cost of a request, and about a busy or unavailable database.
import { createClient } from '@supabase/supabase-js';
import { createServer, connect, type Server, type Socket } from 'node:net';
import { once } from 'node:events';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { FIXTURE, WORLD } from '../fixture.ts';
import { createDatabase, type TestDatabase } from '../../support/database.ts';
import { createRestWorld, KEYS, type RestWorld, type RestWorldOptions } from '../../support/rest-world.ts';

const U1 = '00000000-0000-0000-0000-000000000001';
const SQL = `${FIXTURE}
insert into items select generate_series(1001, 6000);
create table parts (id int primary key, item_id int references items, rank int);
insert into parts select i, 1001 + i % 5000, i % 997 from generate_series(1, 20000) i;
create index on parts (item_id);
create function count_notes() returns int language sql stable as 'select count(*)::int from notes';
create function count_all_notes() returns int language sql stable security definer set search_path = public
  as 'select count(*)::int from notes';
grant select on parts to anon, authenticated;
analyze;
`;

let database: TestDatabase;
let world: RestWorld;
beforeAll(async () => {
  database = await createDatabase();
  world = await createRestWorld({ url: database.url, ...WORLD, sql: SQL, dev: true, poolSize: 1 });
});
afterAll(async () => {
  await world.close();
  await database.drop();
});

async function within(
  options: Omit<RestWorldOptions, 'url' | 'sql'>,
  work: (world: RestWorld, superuserUrl: string) => Promise<void>,
  via: (url: string) => string = (url) => url,
): Promise<void> {
  const own = await createDatabase();
  const secondWorld = await createRestWorld({ ...WORLD, ...options, url: via(own.url) });
  try {
    await work(secondWorld, own.url);
  } finally {
    await secondWorld.close();
    await own.drop();
  }
}

test('an invoker’s function sees the rows of its caller, a definer’s those of its owner', async () => {
  const token = await world.token({ sub: U1 });
  expect((await world.send('/rpc/count_notes')).json).toBe(0);
  expect((await world.send('/rpc/count_notes', { token })).json).toBe(1);
  expect((await world.send('/rpc/count_all_notes')).json).toBe(2);
  expect((await world.send('/rpc/count_all_notes', { token })).json).toBe(2);
});

test('a connection timeout is 504 PGRST003', async () => {
  await within({ poolSize: 1, acquireTimeoutMs: 100 }, async (busy, superuserUrl) => {
    const holding = busy.send('/rpc/slow', { method: 'POST', body: '{"seconds":2}' });
    await expect.poll(() => sleepers(superuserUrl)).toBe(1);
    const answer = await busy.send('/items');
    expect(answer.status).toBe(504);
    expect(answer.json).toMatchObject({ code: 'PGRST003', hint: expect.any(String) });
    expect((await holding).status).toBe(204);
    expect((await busy.send('/items')).status).toBe(200);
  });
});

async function sleepers(superuserUrl: string): Promise<number> {
  const client = new pg.Client(superuserUrl);
  await client.connect();
  const { rowCount } = await client.query(
    "select from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'",
  );
  await client.end();
  return rowCount ?? 0;
}

describe('an unavailable database', () => {
  let line: Line;
  beforeAll(async () => {
    line = await openLine();
  });
  afterAll(() => line.cut());

  const away = (work: (world: RestWorld) => Promise<void>): Promise<void> =>
    within({ poolSize: 2 }, work, (url) => line.through(url));

  test('is 503 with Retry-After, and requests succeed after it returns', async () => {
    await away(async (secondWorld) => {
      expect((await secondWorld.send('/items')).status).toBe(200);
      await line.cut();
      const answer = await secondWorld.send('/items');
      expect(answer.status).toBe(503);
      expect(answer.json).toMatchObject({ code: expect.stringMatching(/^PGRST00[01]$/) });
      expect(answer.headers.get('retry-after')).toMatch(/^\d+$/);
      await line.mend();
      await expect.poll(async () => (await secondWorld.send('/items')).status).toBe(200);
    });
  });

  test('the client retries a read and succeeds', async () => {
    await away(async (secondWorld) => {
      expect((await secondWorld.send('/items')).status).toBe(200);
      await line.cut();
      const statuses: number[] = [];
      const client = createClient(secondWorld.url, KEYS.publishable, {
        auth: { persistSession: false, autoRefreshToken: false },
        global: {
          fetch: async (...request) => {
            const response = await fetch(...request);
            statuses.push(response.status);
            if (response.status === 503) await line.mend();
            return response;
          },
        },
      });
      const { data, error } = await client.from('genres').select('id').order('id');
      expect(error).toBeNull();
      expect(data).toEqual([{ id: 1 }, { id: 2 }, { id: 3 }]);
      expect(statuses[0]).toBe(503);
      expect(statuses.at(-1)).toBe(200);
    });
  });
});

type Line = { through(url: string): string; cut(): Promise<void>; mend(): Promise<void> };

/** A proxy to the database that can be disconnected. */
async function openLine(): Promise<Line> {
  const sockets = new Set<Socket>();
  let target: URL | undefined;
  let server: Server | undefined;
  let port = 0;
  const mend = async (): Promise<void> => {
    if (server) return;
    server = createServer((near) => {
      const far = connect(Number(target?.port), target?.hostname);
      for (const [source, target] of [
        [near, far],
        [far, near],
      ] as const) {
        sockets.add(source);
        source.pipe(target);
        source.on('error', () => target.destroy());
        source.on('close', () => {
          sockets.delete(source);
          target.destroy();
        });
      }
    }).listen(port, '127.0.0.1');
    await once(server, 'listening');
    const address = server.address();
    if (typeof address === 'object' && address) ({ port } = address);
  };
  await mend();
  return {
    mend,
    through(url) {
      target = new URL(url);
      const near = new URL(url);
      near.hostname = '127.0.0.1';
      near.port = String(port);
      return near.href;
    },
    async cut() {
      const open = server;
      server = undefined;
      if (!open) return;
      const closed = once(open, 'close');
      open.close();
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

type PlanNode = {
  'Node Type': string;
  'Relation Name'?: string;
  'Actual Loops': number;
  'Actual Rows': number;
  Plans?: PlanNode[];
};

async function explain(path: string, prefer?: string): Promise<PlanNode[]> {
  const answer = await world.send(path, {
    headers: {
      accept: 'application/vnd.pgrst.plan+json; options=analyze',
      ...(prefer === undefined ? {} : { prefer }),
    },
  });
  expect(answer.status).toBe(200);
  const [{ Plan }] = answer.json as [{ Plan: PlanNode }];
  const flatten = (node: PlanNode): PlanNode[] => [node, ...(node.Plans ?? []).flatMap(flatten)];
  return flatten(Plan);
}

test('embeds are built for the rows of the page, not for the whole table', async () => {
  const nodes = await explain('/items?select=id,parts(id,rank)&id=gt.1000&order=id.desc&limit=7');
  const embed = nodes.filter((node) => node['Relation Name'] === 'parts');
  expect(embed).not.toEqual([]);
  for (const node of embed) expect(node['Actual Loops'] * Math.max(1, node['Actual Rows'])).toBeLessThan(100);
});

test('a page that is not full needs no exact count', async () => {
  const counted = await world.send('/genres?limit=10', { headers: { prefer: 'count=exact' } });
  expect(counted.headers.get('content-range')).toBe('0-2/3');
  const scans = (nodes: PlanNode[]): PlanNode[] =>
    nodes.filter((node) => node['Relation Name'] === 'items' && node['Actual Loops'] > 0);
  const short = await explain('/items?id=lt.5&limit=10', 'count=exact');
  expect(scans(short)).toHaveLength(1);
  const full = await explain('/items?id=gt.1000&limit=10', 'count=exact');
  expect(scans(full)).toHaveLength(2);
});

test('requests of the same form share one prepared statement per connection and role', async () => {
  await within({ poolSize: 1 }, async (secondWorld) => {
    const token = await secondWorld.token({ sub: U1 });
    const prepared = async (): Promise<number> => {
      const [result] = await secondWorld.callers.run({ role: 'anon', claims: '{}' }, [
        {
          text: `select count(*)::text from pg_prepared_statements
            where statement like '%public%items%' and statement not like '%pg_prepared%'`,
          values: [],
        },
      ]);
      return Number(result?.rows[0]?.[0]?.toString());
    };
    for (let round = 0; round < 20; round++) {
      await Promise.all(
        Array.from({ length: 50 }, (_, index) =>
          secondWorld.send(`/items?select=id&id=eq.${round * 50 + index}`, index % 2 === 0 ? {} : { token }),
        ),
      );
    }
    expect(await prepared()).toBe(2);
  });
});

test('the body equals the database output, byte for byte', async () => {
  const { text } = await world.send('/big?select=id,data,amount');
  expect(text).toBe('[{"id":9007199254740993,"data":{"b":1,  "a":2},"amount":1.50}]');
});
