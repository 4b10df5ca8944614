// Sends the same request to PostgREST 12.0.2 and to svc on the same database. Status, JSON, Content-Range and error
// code must agree, except for the differences in agreed.ts.
import * as fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../../support/database.ts';
import { LONG_PART, rounds } from '../../support/rounds.ts';
import { hasPostgrest, startPostgrest, type PostgrestProcess } from '../../support/peers/postgrest.ts';
import { createRestWorld, send, type Answer, type RestWorld, type Sent } from '../../support/rest-world.ts';
import { sideBySide } from '../../support/side-by-side.ts';
import { agreed, agreedHead } from './agreed.ts';
import { handWritten } from './hand-written.ts';
import { KINDS_FIXTURE } from './kinds-fixture.ts';
import { readRequests, writeRequests, callRequests, type Made } from './requests.ts';
import { scaled } from '../../support/run/scaled.ts';

let database: TestDatabase;
let world: RestWorld;
let postgrest: PostgrestProcess;
let user = '';

const SEED = Number(process.env['SVC_CONFORMANCE_SEED'] ?? 20_260_101 + LONG_PART);
/** Number of generated requests. CONTRIBUTING.md has the command for 20,000. */
const REQUESTS = rounds(600, 6_000, 'SVC_CONFORMANCE_REQUESTS');
const USER = '00000000-0000-0000-0000-000000000001';

beforeAll(async () => {
  if (!hasPostgrest) return;
  database = await createDatabase();
  world = await createRestWorld({ url: database.url, sql: KINDS_FIXTURE });
  postgrest = await startPostgrest(world.authenticatorUrl);
  user = await world.token({ sub: USER });
});

afterAll(async () => {
  if (!hasPostgrest) return;
  await postgrest.stop();
  await world.close();
  await database.drop();
});

type Outcome = 'same' | 'agreed';

async function compare(made: Made): Promise<Outcome> {
  const init: Sent = {
    method: made.method,
    headers: { ...made.headers, ...(made.prefer ? { prefer: made.prefer } : {}) },
    ...(made.body === undefined ? {} : { body: made.body }),
    ...(made.asUser ? { token: user } : {}),
  };
  const { ours, theirs } = await askBoth(made, init);
  await sameInBothForms(made, init);
  const difference = differ(made, ours, theirs);
  if (difference === undefined) return 'same';
  if (agreed(made, ours, theirs) !== undefined) return 'agreed';
  // Range applies only to GET, so a GET that replaces a HEAD is sent without it.
  const { range: _, ...headers } = init.headers ?? {};
  const get = made.method === 'HEAD' ? await askBoth(made, { ...init, method: 'GET', headers }) : undefined;
  if (get !== undefined) {
    const isSameGet = differ({ ...made, method: 'GET' }, get.ours, get.theirs) === undefined;
    if (agreedHead(made, { ours, theirs }, get, isSameGet) !== undefined) return 'agreed';
  }
  throw new Error(
    `${difference}\n${made.method} ${made.path} ${made.prefer ?? ''} ${made.body ?? ''}\n` +
      `${JSON.stringify(made.headers ?? {})}\n` +
      `ours   ${shownAnswer(ours)}\ntheirs ${shownAnswer(theirs)}` +
      (get === undefined ? '' : `\nas GET ${shownAnswer(get.ours)}\ntheirs ${shownAnswer(get.theirs)}`),
  );
}

function shownAnswer({ status, headers, text }: Answer): string {
  return `${status} ${headers.get('content-range') ?? ''} ${text.slice(0, 1500)}`;
}

async function askBoth(made: Made, init: Sent): Promise<{ readonly ours: Answer; readonly theirs: Answer }> {
  return {
    ours: await world.send(made.path, init),
    theirs: await send(`${postgrest.url}${made.path}`, { ...init, apikey: null }),
  };
}

/** Lists of 200 rows and more are built outside the database. Checks that both forms have the same bytes. */
async function sameInBothForms(
  { method, path, unordered: isUnordered = false }: Made,
  { headers, token }: Sent,
): Promise<void> {
  if (method !== 'GET' || path.startsWith('/rpc/') || headers?.['accept'] !== undefined) return;
  const [table = '', query = ''] = path.split('?');
  const rest = query.split('&').filter((part) => part !== '' && !part.startsWith('limit='));
  const answers = await Promise.all(
    [199, 200].map((limit) =>
      world.send(`${table}?${[...rest, `limit=${limit}`].join('&')}`, token === undefined ? {} : { token }),
    ),
  );
  const shown = (text: string, json: unknown): string => (isUnordered ? unordered(json) : text);
  const [short, long] = answers.map(({ status, text, json, headers: got }) =>
    status < 300
      ? `${status} ${got.get('content-range') ?? ''} ${shown(text, json)}`
      : `${status} ${String(errorCode({ json }))}`,
  );
  if (short !== long) throw new Error(`short and long list differ\n${path}\nshort ${short}\nlong  ${long}`);
}

function differ(made: Made, ours: Answer, theirs: Answer): string | undefined {
  if (ours.status !== theirs.status) return 'status';
  if (ours.status >= 300) {
    if (made.method === 'HEAD') return undefined;
    return errorCode(ours) === errorCode(theirs) ? undefined : 'error code';
  }
  for (const name of ['content-range', 'location', 'preference-applied']) {
    if ((ours.headers.get(name) ?? null) !== (theirs.headers.get(name) ?? null)) return name;
  }
  if (made.method === 'HEAD') return undefined;
  if (ours.json === undefined || theirs.json === undefined) {
    return ours.text === theirs.text ? undefined : 'text';
  }
  const shown = made.unordered ? unordered : stable;
  return shown(ours.json) === shown(theirs.json) ? undefined : 'json';
}

function errorCode({ json }: Pick<Answer, 'json'>): unknown {
  return (json as { code?: unknown } | undefined)?.code;
}

/** Key order is not part of the contract: PostgREST builds jsonb for embeds. */
function stable(value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) =>
    typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}

function unordered(value: unknown): string {
  return Array.isArray(value)
    ? value
        .map((row) => stable(row))
        .toSorted()
        .join()
    : stable(value);
}

/** `atOnce`: number of concurrent requests. Writes must run one after the other. */
async function check(arbitrary: fc.Arbitrary<Made>, runs: number, atOnce = 1): Promise<void> {
  const failures: string[] = [];
  const outcomes: Record<Outcome, number> = { same: 0, agreed: 0 };
  await sideBySide(fc.sample(arbitrary, { numRuns: runs, seed: SEED }), atOnce, async (made) => {
    try {
      outcomes[await compare(made)] += 1;
    } catch (error) {
      failures.push(error instanceof Error ? error.message : String(error));
    }
  });
  expect(failures.slice(0, 40).join('\n\n'), `${failures.length} of ${runs} differ`).toBe('');
  // Accepted differences must stay rare. Otherwise the list would hide errors.
  expect(outcomes.same).toBeGreaterThan(runs * 0.7);
}

describe.runIf(hasPostgrest)('against PostgREST', () => {
  test('hand-written requests', { timeout: scaled(300_000) }, async () => {
    const failures: string[] = [];
    const isRead = ({ method, path }: Made): boolean => method === 'GET' && !path.startsWith('/rpc/');
    const check = (made: Made): Promise<void> =>
      compare(made).then(
        () => {},
        (error: unknown) => void failures.push(String(error)),
      );
    await sideBySide(handWritten.filter(isRead), 4, check);
    for (const made of handWritten) if (!isRead(made)) await check(made);
    expect(failures.join('\n\n'), `${failures.length} of ${handWritten.length} differ`).toBe('');
  });

  test('long lists, whose JSON is written outside the database, have the same bytes', async () => {
    for (const path of [
      '/kinds?select=*&order=id',
      '/kinds?select=id,t:c_text,c_jsonb->a,c_timestamptz::text,c_pair&order=id',
      '/people?select=*,teams(name),tags(label)&tags.order=id&order=id',
      '/people?select=team_id,n:count()&order=team_id',
      '/people?select=name&id=eq.0',
    ]) {
      const short = await world.send(`${path}&limit=100`);
      const long = await world.send(`${path}&limit=1000`);
      expect(long.text, path).toBe(short.text);
      expect(long.headers.get('content-range')).toBe(short.headers.get('content-range'));
    }
  });

  const timeout = 300_000 + REQUESTS * 100;
  test('generated reads', { timeout }, () => check(readRequests, Math.round(REQUESTS * 0.7), 4));
  test('generated writes', { timeout }, () => check(writeRequests, Math.round(REQUESTS * 0.2)));
  test('generated calls', { timeout }, () => check(callRequests, Math.round(REQUESTS * 0.1)));
});
