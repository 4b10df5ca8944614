// Reads that share a connection. Through CallerPool, because that is who makes jobs.
import pg from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { createDatabase, type TestDatabase } from '../../../test/support/database.ts';
import { provisionAt, type ProvisionedAt } from '../../../test/support/provision.ts';
import { CallerPool, type CallerSettings, type Cancellable, type RunOptions } from './caller-pool.ts';
import { OwnerDatabase } from '../owner-database.ts';
import { raw } from '../sql.ts';
import { parseAddress } from '../address/parse-address.ts';

const ANON: CallerSettings = { role: 'anon', claims: '{"role":"anon"}' };
const user = (number: number): CallerSettings => ({
  role: 'authenticated',
  claims: `{"role":"authenticated","sub":"00000000-0000-0000-0000-${String(number).padStart(12, '0')}"}`,
  user: { sub: `00000000-0000-0000-0000-${String(number).padStart(12, '0')}` },
});

let database: TestDatabase;
let roles: ProvisionedAt;
let owner: OwnerDatabase;
let pool: CallerPool;

beforeAll(async () => {
  database = await createDatabase();
  roles = await provisionAt(database.url);
  owner = new OwnerDatabase({
    address: parseAddress(roles.ownerUrl),
    applicationName: 'test',
    max: 2,
    idleTimeoutMs: 1000,
  });
  await owner.query(
    raw('create table notes (id int primary key); grant select, insert on notes to anon, authenticated;'),
  );
});

afterAll(async () => {
  await owner.close();
  await database.drop();
});

/** Opens a pool without a reserve: most tests have one caller, which should get all connections. */
async function withPool(max: number, work: () => Promise<void>, maxReading?: number): Promise<void> {
  pool = new CallerPool({
    address: parseAddress(roles.authenticatorUrl),
    applicationName: 'test',
    minIdle: 0,
    idleTimeoutMs: 10_000,
    max,
    maxReading,
    reserve: 0,
  });
  try {
    await Promise.all(Array.from({ length: max }, () => pool.run(ANON, [{ text: 'select', values: [] }])));
    await showQuick();
    await work();
  } finally {
    pool.destroy();
  }
}

/**
 * Records a low latency for a statement, because reads are pipelined only behind quick ones. The clock runs slowly,
 * so that the statement is quick on a busy machine too.
 */
async function showQuick(): Promise<void> {
  const now = performance.now.bind(performance);
  const from = now();
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => from + (now() - from) / 100);
  try {
    await nap(0);
    for (let round = 0; round < 50; round++) {
      await nap(0);
      await echo(ANON, 'x');
      await backend();
    }
  } finally {
    clock.mockRestore();
  }
}

async function read(
  caller: CallerSettings,
  text: string,
  values: readonly string[] = [],
  options: RunOptions = {},
): Promise<string | undefined> {
  const [result] = await pool.run(caller, [{ text, values }], { readOnly: true, ...options });
  return result?.rows[0]?.[0]?.toString();
}

const echo = (caller: CallerSettings, value: string): Promise<string | undefined> =>
  read(caller, `select $1 || ' ' || current_user || ' ' || coalesce(auth.uid()::text, '-')`, [value]);
const nap = (seconds: number, options?: RunOptions): Promise<string | undefined> =>
  read(ANON, 'select pg_sleep($1::float8)::text', [String(seconds)], options);
const backend = (): Promise<string | undefined> => read(ANON, 'select pg_backend_pid()');
const insert = (id: number): Promise<unknown> =>
  pool.run(ANON, [{ text: 'insert into notes (id) values ($1)', values: [String(id)] }]);

beforeEach(() => owner.query(raw('truncate notes')));

test('many reads on few connections: each gets its own answer, as its own caller', () =>
  withPool(2, async () => {
    const answers = await Promise.all(
      Array.from({ length: 300 }, (_, number) =>
        echo(number % 3 === 0 ? ANON : user(number), `answer ${number}`),
      ),
    );
    expect(answers).toEqual(
      answers.map((_, number) =>
        number % 3 === 0
          ? `answer ${number} anon -`
          : `answer ${number} authenticated ${user(number).claims.slice(-38, -2)}`,
      ),
    );
    expect(pool.size.open).toBe(2);
  }));

test('reads are pipelined when all connections are busy, up to a limit; writes are never pipelined', () =>
  withPool(1, async () => {
    const first = nap(0.01);
    const reads = Array.from({ length: 15 }, (_, number) => echo(ANON, String(number)));
    expect(pool.size).toMatchObject({ open: 1, waiting: 0 });
    const another = echo(ANON, 'another');
    expect(pool.size.waiting).toBe(1);
    await Promise.all([first, another, ...reads]);
    const second = nap(0.01);
    const write = insert(1);
    expect(pool.size.waiting).toBe(1);
    // Nor does a read get past it.
    const behind = echo(ANON, 'behind');
    expect(pool.size.waiting).toBe(2);
    await Promise.all([second, write, behind]);
  }));

test('no more connections read at once than may; a write is not held back by that', () =>
  withPool(
    6,
    async () => {
      const reads = Array.from({ length: 20 }, (_, number) => echo(ANON, String(number)));
      expect(pool.size).toMatchObject({ open: 6, idle: 4 });
      const write = insert(1);
      expect(pool.size.idle).toBe(3);
      expect(await Promise.all(reads)).toEqual(reads.map((_, number) => `${number} anon -`));
      await write;
      // Reads are not pipelined behind new statements: these wait for their turn.
      const fresh = Array.from({ length: 8 }, (_, number) => read(ANON, `select 'fresh ${number}'`));
      expect(pool.size).toEqual({ open: 6, idle: 4, waiting: 6 });
      expect(await Promise.all(fresh)).toEqual(fresh.map((_, number) => `fresh ${number}`));
    },
    2,
  ));

test('connections that have read for long do not keep others from reading', () =>
  withPool(
    6,
    async () => {
      const order: string[] = [];
      const slow = Array.from({ length: 4 }, () => nap(3).then(() => order.push('slow')));
      const waiting = Array.from({ length: 20 }, (_, number) =>
        echo(ANON, String(number)).then(() => order.push('read')),
      );
      await Promise.all([...slow, ...waiting]);
      expect(order.slice(0, 20)).toEqual(waiting.map(() => 'read'));
    },
    2,
  ));

test('a pool that is closing takes no more reads, not even in line', () =>
  withPool(
    2,
    async () => {
      const running = nap(0.05);
      const closing = pool.close();
      await expect(echo(ANON, 'late')).rejects.toThrow('the pool is closed');
      await Promise.all([running, closing]);
    },
    1,
  ));

test('an error in line ends the read it happens in and no other', () =>
  withPool(1, async () => {
    const divide = (by: string): Promise<string | undefined> => read(ANON, 'select 10 / $1::int', [by]);
    await divide('1');
    const outcomes = await Promise.allSettled(['1', '0', '2', 'x', '5'].map(divide));
    expect(
      outcomes.map((outcome) =>
        outcome.status === 'fulfilled' ? outcome.value : (outcome.reason as { code?: string }).code,
      ),
    ).toEqual(['10', '22012', '5', '22P02', '2']);
  }));

test('a write that waits has its turn although reads keep coming', () =>
  withPool(1, async () => {
    const written = new AbortController();
    const readers = Array.from({ length: 20 }, async () => {
      while (!written.signal.aborted) await echo(ANON, 'x');
    });
    await insert(1);
    written.abort();
    await Promise.all(readers);
  }));

test('reads pipelined behind a statement that turns out slow run on another connection', () =>
  withPool(2, async () => {
    const order: string[] = [];
    const note = (name: string) => () => order.push(name);
    const slow = nap(3).then(note('slow'));
    const quick = nap(0.05).then(note('quick'));
    const reads = Array.from({ length: 10 }, (_, number) => echo(ANON, String(number)).then(note('read')));
    await Promise.all([slow, quick, ...reads]);
    expect(order.at(-1)).toBe('slow');
    expect(order).toHaveLength(12);
    // The duplicate run has ended too.
    await expect.poll(() => pool.size).toEqual({ open: 2, idle: 2, waiting: 0 });
  }));

test('reads are not pipelined behind a statement that was slow or is new', () =>
  withPool(1, async () => {
    await nap(1);
    const slow = nap(0.05);
    const waits = echo(ANON, 'x');
    expect(pool.size.waiting).toBe(1);
    await Promise.all([slow, waits]);
    const fresh = read(ANON, 'select 4711');
    const waitsToo = echo(ANON, 'x');
    expect(pool.size.waiting).toBe(1);
    await Promise.all([fresh, waitsToo]);
  }));

test('a cancel ends the statement it is meant for and none of those behind it', () =>
  withPool(1, async () => {
    for (let round = 0; round < 10; round++) {
      const scope: { cancel: (() => void) | undefined } = { cancel: undefined };
      const slow = expect(nap(30, { cancellable: scope })).rejects.toMatchObject({ code: '57014' });
      const reads = Array.from({ length: 7 }, (_, number) => echo(ANON, String(number)));
      // The cancel has no effect before the statement has started: ask until it ended.
      const again = setInterval(() => scope.cancel?.(), 5);
      await slow;
      clearInterval(again);
      expect(await Promise.all(reads)).toEqual(Array.from({ length: 7 }, (_, number) => `${number} anon -`));
      // One long nap made it slow: quick again for the next round.
      for (let calm = 0; calm < 40; calm++) await nap(0);
    }
  }));

test('what a connection was running when it died, and what was behind it, runs on another one', () =>
  withPool(1, async () => {
    const pid = await backend();
    const dying = nap(1);
    const reads = Array.from({ length: 7 }, (_, number) => echo(ANON, String(number)));
    const killer = new pg.Client(database.url);
    await killer.connect();
    await killer.query('select pg_terminate_backend($1)', [Number(pid)]);
    await killer.end();
    expect(await dying).toBe('');
    expect(await Promise.all(reads)).toEqual(Array.from({ length: 7 }, (_, number) => `${number} anon -`));
    expect(await backend()).not.toBe(pid);
  }));

test('a statement prepared by one in line is not prepared again by the next', () =>
  withPool(1, async () => {
    const texts = Array.from({ length: 30 }, (_, number) => `select ${number} + $1::int`);
    const answers = await Promise.all([...texts, ...texts, ...texts].map((text) => read(ANON, text, ['1'])));
    expect(answers.slice(0, 30)).toEqual(texts.map((_, number) => String(number + 1)));
    expect(answers.slice(60)).toEqual(answers.slice(0, 30));
  }));

/** Runs a new statement, behind which no read is pipelined. */
const occupy = (seconds: number): Promise<string | undefined> =>
  read(ANON, `select pg_sleep(${seconds})::text`);

test('what waits with the same question of the same caller is run once, and the others for themselves', () =>
  withPool(1, async () => {
    const ask = (caller: CallerSettings, value: string, repeatable: boolean): Promise<string | undefined> =>
      read(caller, `select $1::text || random()`, [value], { repeatable });
    const busy = occupy(0.05);
    const same = Array.from({ length: 20 }, () => ask(ANON, 'a', true));
    const reads = [ask(ANON, 'b', true), ask(user(1), 'a', true), ask(user(2), 'a', true)];
    const each = Array.from({ length: 5 }, () => ask(ANON, 'a', false));
    expect(pool.size.waiting).toBe(1 + reads.length + each.length);
    await busy;
    expect(new Set(await Promise.all(same)).size).toBe(1);
    expect(new Set([await same[0], ...(await Promise.all([...reads, ...each]))]).size).toBe(9);
  }));

test('no value can pass for the end of another', () =>
  withPool(1, async () => {
    const ask = (...values: string[]): Promise<string | undefined> =>
      read(ANON, `select $1::text || '|' || $2::text`, values, { repeatable: true });
    const busy = occupy(0.05);
    const answers = [ask('a', 'b1:c'), ask('a1:b', 'c'), ask('a1:b1:c', '')];
    await busy;
    expect(await Promise.all(answers)).toEqual(['a|b1:c', 'a1:b|c', 'a1:b1:c|']);
  }));

test('a caller never gets a response that was sent before its request', () =>
  withPool(3, async () => {
    const gate = new pg.Client(database.url);
    await gate.connect();
    await gate.query('select pg_advisory_lock(4711)');
    const count = (): Promise<string | undefined> =>
      read(ANON, 'select count(*) || pg_advisory_xact_lock_shared(4711)::text from notes', [], {
        repeatable: true,
      });
    const before = count();
    // The query waits for the lock, with its snapshot taken.
    await expect
      .poll(
        async () => (await gate.query('select from pg_locks where objid = 4711 and not granted')).rowCount,
      )
      .toBe(1);
    await insert(1);
    const after = count();
    await gate.end();
    expect([await before, await after]).toEqual(['0', '1']);
  }));

test('a cancelled caller leaves the query to the others; the last one cancels it', () =>
  withPool(1, async () => {
    const scopes = Array.from({ length: 3 }, (): { cancel: (() => void) | undefined } => ({
      cancel: undefined,
    }));
    const busy = occupy(0.05);
    const [first, second, third] = scopes.map((cancellable) =>
      nap(0.5, { cancellable, repeatable: true }).then(
        () => 'answered',
        () => 'cancelled',
      ),
    );
    await busy;
    scopes[0]?.cancel?.();
    expect(await first).toBe('cancelled');
    expect(scopes[0]?.cancel).toBeUndefined();
    expect(await Promise.all([second, third])).toEqual(['answered', 'answered']);

    const more = [scopes[0], scopes[1]].map((cancellable) => nap(30, { cancellable, repeatable: true }));
    const ends = Promise.allSettled(more);
    // The cancel has no effect before the statement has started: ask until it ended.
    const again = setInterval(() => scopes.forEach((scope) => scope.cancel?.()), 5);
    expect((await ends).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    clearInterval(again);
  }));

test('a caller that arrives long after the first one gets a separate run', () =>
  withPool(1, async () => {
    const ask = (): Promise<string | undefined> =>
      read(ANON, 'select random()::text', [], { repeatable: true });
    const busy = occupy(3);
    const early = ask();
    // Those who come soon after wait with the first, until one has come too late for that.
    let late = early;
    await expect
      .poll(() => {
        late = ask();
        return pool.size.waiting;
      })
      .toBe(2);
    await busy;
    expect(await early).not.toBe(await late);
  }));

describe('one caller and the others', () => {
  const MAX = 8;
  /** The connections that `defaultReserve` leaves to one caller. */
  const CAP = 6;
  const LOCK = 4711;
  const from = (address: string): RunOptions => ({ cancellable: { address, cancel: undefined } });

  let gate: pg.Client;

  beforeEach(async () => {
    gate = new pg.Client(database.url);
    await gate.connect();
    await gate.query('select pg_advisory_lock($1)', [LOCK]);
    pool = new CallerPool({
      address: parseAddress(roles.authenticatorUrl),
      applicationName: 'test',
      minIdle: 0,
      idleTimeoutMs: 10_000,
      max: MAX,
      queue: 60,
    });
  });
  afterEach(async () => {
    await gate.end();
    pool.destroy();
  });

  /** Runs until the gate opens. */
  const stuck = (options: RunOptions, caller = ANON): Promise<unknown> =>
    pool.run(caller, [{ text: `select pg_advisory_xact_lock_shared(${LOCK})`, values: [] }], options);
  const many = (count: number, options: RunOptions): Array<Promise<unknown>> =>
    Array.from({ length: count }, () => stuck(options));
  const running = async (): Promise<number> => {
    const { rows } = await gate.query<{ count: number }>(
      `select count(*)::int as count from pg_stat_activity
       where datname = current_database() and wait_event_type = 'Lock' and wait_event = 'advisory'`,
    );
    return rows[0]?.count ?? 0;
  };
  const open = (): Promise<unknown> => gate.query('select pg_advisory_unlock_all()');

  test.each(['reads', 'writes'])('one caller holds three quarters, others are served: %s', async (kind) => {
    const readOnly = kind === 'reads';
    const held = many(30, { ...from('192.0.2.1'), readOnly });
    await expect.poll(running).toBe(CAP);
    // Another address, another user and a writer get a connection while the first caller waits.
    await expect(read(ANON, 'select 1', [], from('198.51.100.7'))).resolves.toBe('1');
    await expect(read(user(1), 'select 2', [], from('192.0.2.1'))).resolves.toBe('2');
    await pool.run(ANON, [{ text: 'insert into notes values (7)', values: [] }], from('198.51.100.7'));
    expect(await running()).toBe(CAP);
    await open();
    await Promise.all(held);
    const { waiting, open: opened, idle } = pool.size;
    expect({ waiting, idle }).toEqual({ waiting: 0, idle: opened });
  });

  test('renewed statements of one caller do not delay another', async () => {
    const leaving = Array.from({ length: 40 }, () => ({
      ...from('192.0.2.1').cancellable,
      cancel: undefined,
    }));
    const held = leaving.map((cancellable: Cancellable) =>
      stuck({ cancellable }).catch((error: unknown) => error),
    );
    await expect.poll(running).toBe(CAP);
    for (const cancellable of leaving as Cancellable[]) {
      cancellable.cancel?.();
      held.push(stuck(from('192.0.2.1')).catch((error: unknown) => error));
      await expect(read(user(2), 'select 3', [], from('198.51.100.7'))).resolves.toBe('3');
    }
    await open();
    await Promise.all(held);
  });

  test('interactive transactions count', async () => {
    const begun: Array<PromiseWithResolvers<void>> = [];
    const transactions = Array.from({ length: MAX }, (_, at) =>
      pool.transaction(
        ANON,
        async () => {
          const end = Promise.withResolvers<void>();
          begun.push(end);
          await end.promise;
          return at;
        },
        from('192.0.2.1'),
      ),
    );
    await expect.poll(() => begun.length).toBe(CAP);
    await expect(read(user(3), 'select 4', [], from('192.0.2.1'))).resolves.toBe('4');
    while (begun.length < MAX) {
      for (const { resolve } of begun) resolve();
      await new Promise((resolve) => setImmediate(resolve));
    }
    for (const { resolve } of begun) resolve();
    expect(await Promise.all(transactions)).toHaveLength(MAX);
  });

  test('the reserve serves one statement of each caller', async () => {
    const held = [
      ...many(20, from('192.0.2.1')),
      ...many(5, from('192.0.2.2')),
      ...many(5, from('192.0.2.3')),
    ];
    await expect.poll(running).toBe(MAX);
    await open();
    await Promise.all(held);
  });

  test('a full queue of one caller does not reject another caller that can run', async () => {
    const held = many(40, from('192.0.2.1')).map((run) => run.catch((error: unknown) => error));
    await expect.poll(running).toBe(CAP);
    expect(() => pool.assertRoom(ANON, from('192.0.2.1').cancellable)).toThrow();
    expect(() => pool.assertRoom(ANON, from('198.51.100.7').cancellable)).not.toThrow();
    await open();
    await Promise.all(held);
  });

  test('the probe of the service is answered', async () => {
    const held = many(20, from('192.0.2.1'));
    await expect.poll(running).toBe(CAP);
    expect(await pool.answers(5_000)).toBe('yes');
    await open();
    await Promise.all(held);
  });
});
