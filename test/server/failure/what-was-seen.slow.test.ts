// The response to a caller, and the number of attempts, for each way in which a conversation with the database can end.
// A scripted server answers byte for byte, and PostgreSQL behind it records what was executed.
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, expect, inject, test } from 'vitest';
import { startBackendWorld, type BackendWorld } from '../../support/backend-world.ts';
import {
  BOUND,
  completed,
  errorResponse,
  notice,
  PARSED,
  READY,
  startScriptedProxy,
  type Fields,
  type Opening,
  type ScriptedProxy,
  type Turn,
} from '../../support/network/scripted-proxy.ts';

const YAML = `version: 1
server: { timeouts: { db_query: 1s } }
database: { pool: { max: 2 }, failover_wait: 1s }
tables:
  notes:
    fields:
      - { name: number, type: bigserial, primary_key: true }
      - { name: word, type: text }
    rls: [{ operations: [select, insert], using: "true", with_check: "true" }]
`;

let world: BackendWorld;
let proxy: ScriptedProxy;
let direct: pg.Client;

beforeAll(async () => {
  const way = await startScriptedProxy(inject('postgresUrl'));
  proxy = way;
  world = await startBackendWorld(YAML, { through: (url) => way.through(url) });
  direct = new pg.Client(world.databaseUrl);
  await direct.connect();
});

afterAll(async () => {
  await direct.end();
  await world.close();
  await proxy.close();
});

beforeEach(() => {
  proxy.onOpening(() => undefined);
});

type Script = (turn: Turn) => void;

const FATAL = {
  S: 'FATAL',
  R: 'ProcessInterrupts',
  M: 'terminating connection due to administrator command',
} as const;
/** The statement has begun to run, after the settings of its caller. */
const BEGUN = [PARSED, BOUND, completed('SELECT 1'), PARSED, BOUND] as const;
const dies =
  (fields: Fields): Script =>
  ({ send, hangUp }) => {
    send(...BEGUN, errorResponse(fields));
    hangUp();
  };
const isCutOff: Script = ({ send, hangUp }) => {
  send(...BEGUN);
  hangUp();
};
const fails =
  (fields: Omit<Fields, 'S'>): Script =>
  ({ send }) =>
    send(errorResponse({ S: 'ERROR', ...fields }), READY);
const runs: Script = ({ pass }) => pass();

const STANDBY = {
  S: 'WARNING',
  C: '57014',
  R: 'SyncRepWaitForLSN',
  M: 'canceling wait for synchronous replication due to user request',
} as const;

const GONE = ['503 PGRST000 2', 'The database cannot be reached; nothing was done'] as const;
const UNKNOWN = [
  '504 SVC112 -',
  'The connection to the database was lost after the request had been sent: it may have been carried out',
] as const;
type Told = readonly [statusCodeRetryAfter: string, message: string] | 'served';

type Row = {
  readonly seen: string;
  /** The last one stays. */
  readonly scripts: readonly Script[];
  readonly read: readonly [sent: number, told: Told];
  readonly write: readonly [sent: number, told: Told, rows: number];
};

const stopped = (C: string): Script => dies({ ...FATAL, C });
const ROWS: readonly Row[] = [
  // Rolled back for certain.
  ...['57P01', '57P02', '57P03'].map((code): Row => ({
    seen: `FATAL ${code} before the end of the statement`,
    scripts: [stopped(code), runs],
    read: [2, 'served'],
    write: [2, 'served', 1],
  })),
  {
    seen: 'FATAL 57P01, each time',
    scripts: [stopped('57P01')],
    read: [3, GONE],
    write: [3, GONE, 0],
  },
  ...[
    ['26000', 'prepared statement "x" does not exist', 'FetchPreparedStatement'],
    ['42P05', 'prepared statement "x" already exists', 'StorePreparedStatement'],
    ['0A000', 'cached plan must not change result type', 'RevalidateCachedQuery'],
  ].map(([C = '', M = '', R = '']): Row => ({
    seen: M,
    scripts: [fails({ C, M, R }), runs],
    read: [2, 'served'],
    write: [2, 'served', 1],
  })),
  {
    seen: 'a pooler that knows no such name',
    scripts: [fails({ C: '26000', M: 'prepared statement does not exist' }), runs],
    read: [2, 'served'],
    write: [2, 'served', 1],
  },
  ...[
    ['40001', '500 40001 -'],
    ['40P01', '500 40P01 -'],
  ].map(([C = '', told = '']): Row => {
    const M = 'could not serialize access';
    return {
      seen: `${C}: between two transactions, which the caller decides about`,
      scripts: [fails({ C, M, R: 'CheckForSerializationConflictOut' })],
      read: [1, [told, M]],
      write: [1, [told, M], 0],
    };
  }),
  {
    seen: '25006 from a server that is not a standby',
    scripts: [
      fails({ C: '25006', M: 'cannot execute in a read-only transaction', R: 'PreventCommandIfReadOnly' }),
    ],
    read: [1, ['405 25006 -', 'cannot execute in a read-only transaction']],
    write: [1, ['503 SVC113 5', 'The database takes no writes at the moment'], 0],
  },
  // Unknown.
  ...[
    ['08P01', 'server conn crashed?'],
    ['08006', 'connection failure'],
    ['XX000', 'internal error'],
    ['57P01', 'terminating connection'],
  ].map(([C = '', M = '']): Row => ({
    seen: `${C} of a pooler: ${M}`,
    scripts: [dies({ S: 'FATAL', C, M }), runs],
    read: [2, 'served'],
    write: [1, UNKNOWN, 0],
  })),
  {
    seen: 'class 08 from any author',
    scripts: [dies({ S: 'FATAL', C: '08006', M: 'connection to client lost', R: 'ProcessInterrupts' }), runs],
    read: [2, 'served'],
    write: [1, UNKNOWN, 0],
  },
  {
    seen: 'closed before the statement ran',
    scripts: [isCutOff, runs],
    read: [2, 'served'],
    write: [1, UNKNOWN, 0],
  },
  {
    seen: 'closed after the statement ran',
    scripts: [({ pass, hangUp }) => pass(hangUp), runs],
    read: [2, 'served'],
    write: [1, UNKNOWN, 1],
  },
  {
    seen: 'closed, each time',
    scripts: [isCutOff],
    read: [2, GONE],
    write: [1, UNKNOWN, 0],
  },
  {
    seen: 'FATAL after the end of the statement, in its commit',
    scripts: [
      ({ pass, send, hangUp }) => pass(() => (send(errorResponse({ ...FATAL, C: '57P01' })), hangUp())),
      runs,
    ],
    read: [2, 'served'],
    write: [1, UNKNOWN, 1],
  },
  {
    seen: 'a wait for the standby that was cut off by a cancel',
    scripts: [({ pass, send }) => pass((ready) => send(notice(STANDBY), ready))],
    read: [1, 'served'],
    write: [1, UNKNOWN, 1],
  },
  {
    seen: 'a wait for the standby that was cut off by a shutdown',
    scripts: [
      ({ pass, send, hangUp }) => pass(() => (send(notice({ ...STANDBY, C: '57P01' })), hangUp())),
      runs,
    ],
    read: [2, 'served'],
    write: [1, UNKNOWN, 1],
  },
];

let words = 0;
const aWord = (): string => `word${(words += 1)}-`;

type Call = { readonly told: Told; readonly sent: number };

async function call(
  path: string,
  word: string,
  scripts: readonly Script[],
  init: RequestInit = {},
): Promise<Call> {
  const counted = proxy.script(word, ...scripts);
  const response = await fetch(`${world.url}/rest/v1/${path}`, {
    ...init,
    headers: { apikey: world.keys.publishable, 'content-type': 'application/json' },
  });
  const text = await response.text();
  const retryAfter = response.headers.get('retry-after') ?? '-';
  if (response.ok) return { told: 'served', sent: counted.sent };
  const { code, message } = JSON.parse(text) as { code: string; message: string };
  return { told: [`${response.status} ${code} ${retryAfter}`, message], sent: counted.sent };
}

const read = (word: string, scripts: readonly Script[]): Promise<Call> =>
  call(`notes?word=eq.${word}`, word, scripts);
const write = (word: string, scripts: readonly Script[]): Promise<Call> =>
  call('notes', word, scripts, { method: 'POST', body: JSON.stringify({ word }) });

async function countRows(word: string): Promise<number> {
  const { rows } = await direct.query<{ n: number }>('select count(*)::int as n from notes where word = $1', [
    word,
  ]);
  return rows[0]?.n ?? 0;
}

test.each(ROWS)('$seen', async ({ scripts, read: asRead, write: asWrite }) => {
  const [sent, told] = asRead;
  expect(await read(aWord(), scripts)).toEqual({ sent, told });
  const word = aWord();
  const written = await write(word, scripts);
  const [writes, toldOfWrite, rows] = asWrite;
  expect({ ...written, rows: await countRows(word) }).toEqual({ sent: writes, told: toldOfWrite, rows });
});

test('silence: closed two seconds after the deadline; a read runs elsewhere, a write is unknown', async () => {
  const silent: Script = () => {};
  const [first, second] = await Promise.all([read(aWord(), [silent, runs]), write(aWord(), [silent])]);
  expect(first).toEqual({ sent: 2, told: 'served' });
  expect(second).toEqual({ sent: 1, told: UNKNOWN });
});

const OPENINGS: ReadonlyArray<readonly [what: string, fields: Fields]> = [
  [
    'starting',
    { S: 'FATAL', C: '57P03', M: 'the database system is starting up', R: 'ProcessStartupPacket' },
  ],
  ['full', { S: 'FATAL', C: '53300', M: 'sorry, too many clients already', R: 'ProcArrayAdd' }],
  ["a pooler's word", { S: 'FATAL', C: '08P01', M: 'server login failed' }],
];

test.each(OPENINGS)(
  'no connection can be opened (%s): held, then answered that nothing was done',
  async (_, fields) => {
    const refuses: Opening = ({ send, hangUp }) => {
      send(errorResponse(fields));
      hangUp();
    };
    proxy.onOpening(() => refuses);
    await proxy.reset();
    const words = [aWord(), aWord()];
    const told = await Promise.all([read(words[0] ?? '', [runs]), write(words[1] ?? '', [runs])]);
    expect(told).toEqual([
      { sent: 0, told: GONE },
      { sent: 0, told: GONE },
    ]);
    // The connection is restored in time: the request was held, and served once.
    proxy.onOpening(() => undefined);
    await expect.poll(() => read(aWord(), [runs])).toMatchObject({ told: 'served' });
    await proxy.reset();
    let openings = 0;
    proxy.onOpening(() => {
      openings += 1;
      return openings > 3 ? undefined : refuses;
    });
    const word = aWord();
    expect(await Promise.all([read(aWord(), [runs]), write(word, [runs])])).toEqual([
      { sent: 1, told: 'served' },
      { sent: 1, told: 'served' },
    ]);
    expect(await countRows(word)).toBe(1);
  },
);
