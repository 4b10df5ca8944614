// One transaction with very many rows: they arrive in order, most of them wait in PostgreSQL and not in the memory of
// svc, and broadcasts of other clients are delivered in between. SVC_TEST_TRANSACTION_ROWS sets the number of rows.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { generateApiKeys } from '../../src/identity/api-key.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { rounds } from '../support/rounds.ts';
import { startSvc, type SvcProcess } from '../support/svc-process.ts';
import { RawSocket } from './raw-socket.ts';
import { scaled } from '../support/run/scaled.ts';

const YAML = `
version: 1
project: { name: huge }
realtime: { limits: { messages: 1000 } }
tables:
  rows:
    realtime: true
    rls: [{ operations: [select], using: "true" }]
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: body, type: text }
`;
const ROWS = rounds(100_000, 300_000, 'SVC_TEST_TRANSACTION_ROWS');
/** Rows that warm up the code, so that its memory does not count. */
const WARM_ROWS = 20_000;
/** The whole transaction would need several times as much memory. */
const MAX_GROWTH_MB = 100;
/** Rows that may arrive while one broadcast is delivered. */
const MAX_ROWS_BEFORE_BROADCAST = 15_000;

const keys = generateApiKeys();
const directory = mkdtempSync(join(tmpdir(), 'svc-huge-'));
const sockets: RawSocket[] = [];
/** Sends heartbeats, because a socket without messages is closed after a minute. */
let beating: NodeJS.Timeout | undefined;
let database: TestDatabase;
let admin: pg.Client;
/** A separate process, whose memory is measured. */
let svc: SvcProcess;

beforeAll(async () => {
  const config = join(directory, 'svc.yaml');
  writeFileSync(config, YAML);
  database = await createDatabase();
  svc = await startSvc({
    command: 'serve',
    config,
    arguments: ['--migrate'],
    env: {
      SVC_DATABASE_URL: database.url,
      SVC_PUBLISHABLE_KEY: keys.publishable,
      SVC_SECRET_KEY: keys.secret,
    },
  });
  admin = new pg.Client({ connectionString: database.url });
  await admin.connect();
  beating = setInterval(() => {
    for (const socket of sockets) socket.push('phoenix', 'heartbeat');
  }, 10_000);
});

afterAll(async () => {
  clearInterval(beating);
  for (const socket of sockets) socket.close();
  await admin.end();
  await svc.stop();
  await database.drop();
  rmSync(directory, { recursive: true, force: true });
});

async function open(): Promise<RawSocket> {
  const socket = await RawSocket.open(svc.url, keys.publishable);
  sockets.push(socket);
  return socket;
}

function residentMb(): number {
  const status = readFileSync(`/proc/${svc.child.pid}/status`, 'utf8');
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024;
}

/** A client that counts the rows it receives and keeps none. `interrupted`: a gap, or the end of its connection. */
async function listener(): Promise<{
  readonly heard: () => number;
  readonly misplaced: () => number;
  readonly interrupted: () => unknown;
}> {
  const socket = await open();
  await socket.join('rows', { postgres_changes: [{ event: 'INSERT', schema: 'public', table: 'rows' }] });
  let heard = 0;
  let misplaced = 0;
  let error: unknown;
  socket.ws.on('message', () => {
    for (const { event, payload } of socket.frames.splice(0)) {
      if (event === 'phx_error') error = { event, payload };
      if (event !== 'postgres_changes') continue;
      heard += 1;
      if ((payload['data'] as { record: { id: number } }).record.id !== heard) misplaced += 1;
    }
  });
  return { heard: () => heard, misplaced: () => misplaced, interrupted: () => error ?? socket.closed };
}

/** Returns a function that sends a broadcast and resolves when another client has received it. */
async function conversation(): Promise<() => Promise<void>> {
  const [speaker, hearer] = await Promise.all([open(), open()]);
  const [joinRef] = await Promise.all([speaker.join('words'), hearer.join('words')]);
  let said = 0;
  return async () => {
    said += 1;
    speaker.push('realtime:words', 'broadcast', { type: 'broadcast', event: 'x', payload: {} }, joinRef);
    await expect.poll(() => hearer.of('broadcast').length, { interval: 5 }).toBe(said);
  };
}

test(`${ROWS} rows of one transaction`, { timeout: scaled(480_000) }, async () => {
  const [{ heard, misplaced, interrupted }, say] = await Promise.all([listener(), conversation()]);
  const insert = async (from: number, to: number): Promise<unknown> =>
    await admin.query(
      `insert into rows select n, repeat('x', 300) from generate_series($1::integer, $2::integer) n`,
      [from, to],
    );
  await insert(1, WARM_ROWS);
  await expect.poll(heard, { timeout: scaled(120_000) }).toBe(WARM_ROWS);

  const before = residentMb();
  let highest = before;
  let mostBeforeAWord = 0;
  const inserting = insert(WARM_ROWS + 1, WARM_ROWS + ROWS);
  while (heard() < WARM_ROWS + ROWS && interrupted() === undefined) {
    const then = heard();
    await say();
    mostBeforeAWord = Math.max(mostBeforeAWord, heard() - then);
    highest = Math.max(highest, residentMb());
  }
  await inserting;
  expect(interrupted(), svc.output()).toBeUndefined();
  expect(misplaced()).toBe(0);
  expect(highest - before).toBeLessThan(MAX_GROWTH_MB);
  expect(mostBeforeAWord).toBeLessThan(MAX_ROWS_BEFORE_BROADCAST);
});
