// Rows that a subscriber may not select must not be observable: two tables that differ only in such rows produce the
// same messages, errors and closes, for all filters.
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';
import { RawSocket } from './raw-socket.ts';

const SIDES = ['left', 'right'] as const;
type Side = (typeof SIDES)[number];

const TABLES = SIDES.map(
  (side) => `
  ${side}_diary:
    realtime: { old: full }
    rls:
      - { operations: [select], to: authenticated, using: owner = auth.uid() }
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: owner, type: uuid }
      - { name: secret, type: text }
      - { name: amount, type: integer }
      - { name: price, type: numeric }
      - { name: at, type: timestamptz }
      - { name: is_open, type: boolean }
      - { name: doc, type: json }
  ${side}_sealed:
    realtime: true
    rls:
      - { operations: [select], to: authenticated, using: secret = 'visible' }
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: secret, type: text }
    grants: { authenticated: [{ select: [secret] }] }`,
).join('');

/** A row id for each side's user: filters of one side must not use up the time of the other. */
const USERS: Readonly<Record<Side, string>> = {
  left: '00000000-0000-4000-8000-00000000000a',
  right: '00000000-0000-4000-8000-00000000000b',
};
const OTHER = '00000000-0000-4000-8000-0000000000ff';

/** Takes very long on a text of one repeated letter that follows the prefix and ends with another letter. */
const bomb = (prefix: string): string => String.raw`^${prefix}(.+)(.+)(.+)(.+)(.+)\5\4\3\2\1b?$`;

const VALUES: Readonly<Record<string, readonly string[]>> = {
  secret: ['ab%', String.raw`ab\\`, String.raw`a\_b`, '%z%', '(', 'ab', 'mine', '^ab', '[', ''],
  amount: ['7', '-1', '2147483647', '99999999999', 'x'],
  price: ['1e3', 'NaN', 'infinity', '1.50'],
  at: ['infinity', '-infinity', '2026-01-01', 'now', 'never'],
  is_open: ['true', 'f', 'unknown', 'null'],
};
const OPERATORS = 'eq neq lt lte gt gte in like ilike match imatch isdistinct is'.split(' ');

/** Each operator on each column, with values in turn; some negated, some with a second condition. */
function filters(): string[] {
  const found: string[] = [];
  let turn = 0;
  for (const operator of OPERATORS) {
    for (const [column, values] of Object.entries(VALUES)) {
      const value = values[turn % values.length] ?? '';
      const not = turn % 3 === 2 ? 'not.' : '';
      const second = turn % 5 === 4 ? ',secret=like.%i%' : '';
      const text = operator === 'in' ? `("${value}",7)` : operator === 'is' ? 'null' : `"${value}"`;
      found.push(`${column}=${not}${operator}.${text}${second}`);
      turn += 1;
    }
  }
  return [
    ...found,
    `secret=like."ab${'\\'.repeat(2)}"`,
    `secret=not.like."ab${'\\'.repeat(2)}"`,
    `secret=match."${bomb('xy').replaceAll('\\', '\\\\')}"`,
    `secret=match."${bomb('zz').replaceAll('\\', '\\\\')}"`,
    `id=eq.100`,
    `id=gt.0,secret=match.^ab`,
  ];
}

describe.each(['wal', 'triggers'] as const)('by %s', (source) => {
  let world: BackendWorld;
  let admin: pg.Client;
  const sockets: RawSocket[] = [];

  beforeAll(async () => {
    world = await startBackendWorld(
      `version: 1\nproject: { name: hidden }\ntables:${TABLES}\n` +
        `realtime: { source: ${source}, limits: { joins: 1000 } }\n`,
    );
    admin = new pg.Client({ connectionString: world.databaseUrl });
    await admin.connect();
  });

  afterAll(async () => {
    for (const socket of sockets) socket.close();
    await admin.end();
    await world.close();
  });

  /** A socket with a channel for each filter, and one without any. */
  async function listen(side: Side): Promise<RawSocket> {
    const socket = await RawSocket.open(world.url, world.keys.publishable);
    sockets.push(socket);
    const token = await world.token({ role: 'authenticated', sub: USERS[side] });
    const binding = { event: '*', schema: 'public', table: `${side}_diary` };
    for (const [at, filter] of filters().entries()) {
      await socket.join(`filter-${at}`, { postgres_changes: [{ ...binding, filter }] }, token);
    }
    await socket.join('sealed', { postgres_changes: [{ ...binding, table: `${side}_sealed` }] }, token);
    await socket.join('all', { postgres_changes: [binding] }, token);
    return socket;
  }

  /** Rows that the subscriber may select: the same on both sides. */
  async function writeVisible(side: Side, id: number, secret: string): Promise<void> {
    await admin.query(
      `insert into ${side}_diary values ($1, $2, $3, 7, 1.50, '2026-02-02', true, '{"a":"\\u0000"}')`,
      [id, USERS[side], secret],
    );
  }

  /** Rows of another user. The left side has values that filters match, fail on, or never end with. */
  async function writeHidden(side: Side): Promise<void> {
    const [secret, amount, price, at, doc] =
      side === 'left'
        ? [`xy${'a'.repeat(1_500)}c`, 2147483647, 'NaN', 'infinity', '{"a":"\\u0000","n":1e999999}']
        : ['other', null, null, null, null];
    await admin.query(`insert into ${side}_diary values (100, $1, $2, $3, $4, $5, false, $6)`, [
      OTHER,
      secret,
      amount,
      price,
      at,
      doc,
    ]);
    if (side === 'left') {
      await admin.query(`insert into left_diary values (101, $1, 'ab', 7, 1.5, 'now', true, null)`, [OTHER]);
      await admin.query(`insert into left_sealed values (1, 'hidden')`);
    }
    await admin.query(`update ${side}_diary set secret = secret || 'z', is_open = true where id = 100`);
    // The key of a deleted row is sent to every subscriber, so both sides delete the same key.
    await admin.query(`delete from ${side}_diary where id = 100`);
  }

  const withoutSide = (text: string): string =>
    text
      .replaceAll(/(left|right)_/g, '')
      .replaceAll(USERS.left, 'me')
      .replaceAll(USERS.right, 'me')
      .replaceAll(/"commit_timestamp":"[^"]*"/g, '');

  /** Messages by channel, without the name of the side. */
  function transcript(socket: RawSocket): Record<string, string[]> {
    const byTopic: Record<string, string[]> = {};
    for (const { topic, event, payload } of socket.frames) {
      if (topic === 'phoenix') continue;
      (byTopic[topic] ??= []).push(withoutSide(JSON.stringify([event, payload])));
    }
    return byTopic;
  }

  test('hidden rows change no message, error or close', async () => {
    const both = await Promise.all(SIDES.map(listen));
    const received = (socket: RawSocket): number =>
      socket.of('postgres_changes').filter(({ topic }) => topic === 'realtime:all').length;
    /** Writes on both sides, and waits for the messages of both: a deleted row would not be visible. */
    const write = async (messages: number, work: (side: Side) => Promise<unknown>): Promise<void> => {
      const before = both.map(received);
      for (const side of SIDES) await work(side);
      for (const [at, socket] of both.entries()) {
        await expect.poll(() => received(socket)).toBe((before[at] ?? 0) + messages);
        await socket.settle();
      }
    };
    await write(1, async (side) => await writeVisible(side, 1, 'mine'));
    // The key of the deleted row, and the visible row that is written in the meantime.
    await write(2, async (side) => {
      await writeHidden(side);
      await writeVisible(side, 2, 'abz');
    });
    await write(1, async (side) => await admin.query(`update ${side}_diary set secret = 'zab' where id = 2`));
    await write(1, async (side) => await admin.query(`delete from ${side}_diary where id = 1`));
    await write(1, async (side) => await writeVisible(side, 3, 'the end'));
    const [left, right] = both.map(transcript);
    expect(left).toEqual(right);
    // Equal, and not because no message arrives: filters match visible rows.
    const matches = Object.values(left ?? {}).filter((lines) =>
      lines.some((line) => line.includes('"mine"')),
    );
    expect(matches.length).toBeGreaterThan(10);
    expect(JSON.stringify(left)).not.toContain('hidden');
    expect(both.map((socket) => socket.of('phx_error').length)).toEqual([0, 0]);
  });
});
