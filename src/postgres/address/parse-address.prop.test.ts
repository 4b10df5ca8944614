// Compares our parser with libpq: psql parses the same generated addresses.
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startJudge, withoutPsql, type Judge, type Verdict } from '../../../test/support/peers/psql.ts';
import { rounds } from '../../../test/support/rounds.ts';
import { isSocket } from './database-address.ts';
import { parseAddress } from './parse-address.ts';
import { scaled } from '../../../test/support/run/scaled.ts';

let judge: Judge;

beforeAll(async () => {
  if (withoutPsql === undefined) judge = await startJudge();
});
afterAll(() => judge?.close());

/**
 * Letters, and characters with a meaning in an address. Both parsers reject NUL, which parse-address.test.ts covers.
 */
const word = fc.string({
  unit: fc.constantFrom(...Array.from('abZ09-_.é☃@:/?#[]&=%+,\'"\\ ;')),
  minLength: 1,
  maxLength: 8,
});
const encoded = word.map(encodeURIComponent);
/** Unencoded text, without characters that would change the hosts after it. */
const careless = fc.string({
  unit: fc.constantFrom(...Array.from("ab0:?#[]&=%+,;'")),
  minLength: 0,
  maxLength: 6,
});

type Host = { readonly host: string; readonly port: string };

function hosts(): fc.Arbitrary<Host[]> {
  const host = fc.constantFrom('127.0.0.1', '127.0.0.1', '::1', judge.folder);
  const port = fc.constantFrom(...judge.ports.map(String), String(judge.ports[0]), ` ${judge.ports[1]}`);
  return fc.array(fc.record({ host, port }), { minLength: 1, maxLength: 3 });
}

const HARMLESS = [
  'connect_timeout=3',
  'sslmode=prefer',
  'sslmode=disable',
  'application_name=a',
  'gssencmode=disable',
];
const REFUSED = [
  'nonsense=1',
  'sslmode=sure',
  'port=x',
  'user',
  'a=b=c',
  '=1',
  'port=99999',
  'connect_timeout=x',
  '%zz=1',
];

function uris(): fc.Arbitrary<string> {
  const user = fc.oneof({ weight: 6, arbitrary: encoded }, { weight: 1, arbitrary: careless });
  const parameter = fc.oneof(
    { weight: 4, arbitrary: fc.constantFrom(...HARMLESS) },
    {
      weight: 3,
      arbitrary: fc
        .tuple(fc.constantFrom('user', 'password', 'dbname'), encoded)
        .map((pair) => pair.join('=')),
    },
    { weight: 1, arbitrary: fc.constantFrom(...judge.ports).map((port) => `port=${port}`) },
    { weight: 1, arbitrary: fc.constantFrom(...REFUSED) },
  );
  return fc
    .record({
      scheme: fc.constantFrom('postgres://', 'postgresql://'),
      user,
      password: fc.option(user, { nil: undefined }),
      hosts: hosts(),
      /** Puts the host in the query, where a second one may precede it. */
      isHostLater: fc.boolean(),
      database: fc.option(encoded, { nil: undefined }),
      parameters: fc.array(parameter, { maxLength: 3 }),
    })
    .map(({ scheme, user: name, password, hosts: list, isHostLater, database, parameters }) => {
      const secret = password === undefined ? '' : `:${password}`;
      const authority = list
        .map(({ host, port }) => `${inUri(host)}:${encodeURIComponent(port.trim())}`)
        .join();
      const query = isHostLater
        ? [
            `host=${list.map(({ host }) => encodeURIComponent(host)).join()}`,
            `port=${list.map(({ port }) => encodeURIComponent(port)).join()}`,
          ]
        : [];
      const all = [...query, ...parameters];
      return `${scheme}${name}${secret}@${isHostLater ? '' : authority}${database === undefined ? '' : `/${database}`}${all.length === 0 ? '' : `${database === undefined ? '/' : ''}?${all.join('&')}`}`;
    });
}

function inUri(host: string): string {
  if (host.includes(':')) return `[${host}]`;
  return encodeURIComponent(host);
}

function pairs(): fc.Arbitrary<string> {
  const value = fc.oneof(
    word.map((text) => `'${text.replaceAll(/['\\]/g, String.raw`\$&`)}'`),
    word.map((text) => text.replaceAll(/['\\\s]/g, String.raw`\$&`)),
    fc.constantFrom("''", 'a', "'open", 'two words'),
  );
  const pair = fc.oneof(
    {
      weight: 4,
      arbitrary: fc
        .tuple(fc.constantFrom('user', 'password', 'dbname'), fc.constantFrom('=', ' = '), value)
        .map((all) => all.join('')),
    },
    { weight: 2, arbitrary: fc.constantFrom(...HARMLESS) },
    { weight: 1, arbitrary: fc.constantFrom('nonsense=1', 'sslmode=sure', 'port=x', 'port=1,2,3,4', 'user') },
  );
  return fc
    .record({ hosts: hosts(), pairs: fc.array(pair, { minLength: 1, maxLength: 4 }) })
    .map(({ hosts: list, pairs }) =>
      [
        `host=${list.map(({ host }) => host).join()} port=${list.map(({ port }) => port.trim()).join()}`,
        ...pairs,
      ].join(' '),
    );
}

/** The same of ours: where it leads to and as whom. */
function ours(text: string): Verdict {
  try {
    const { targets, user, database, password } = parseAddress(text, { env: {} });
    const [target] = targets;
    return {
      kind: 'connected',
      way: isSocket(target) ? 'socket' : 'tcp',
      port: target.port,
      user,
      database,
      password,
    };
  } catch (error) {
    return { kind: 'refused', message: error instanceof Error ? error.message : '' };
  }
}

/** The server asks for a password after the connection opens, so a missing one does not count as a rejection. */
const comparable = (verdict: Verdict): unknown => (verdict.kind === 'refused' ? 'refused' : verdict);

test.skipIf(withoutPsql !== undefined)(
  'generated addresses lead where psql goes, and are refused where it refuses',
  async () => {
    const texts = fc.sample(fc.oneof(uris(), pairs()), rounds(40, 2_000, 'SVC_TEST_ADDRESSES'));
    const verdicts = await judge.judge(texts);
    const different = texts.flatMap((text, at) => {
      const [libpq, own] = [verdicts[at], ours(text)];
      return libpq && JSON.stringify(comparable(libpq)) === JSON.stringify(comparable(own))
        ? []
        : [{ text, libpq, own }];
    });
    expect(different).toEqual([]);
    const connected = verdicts.filter(({ kind }) => kind === 'connected').length;
    expect(connected).toBeGreaterThan(texts.length / 4);
    expect(connected).toBeLessThan(texts.length);
  },
  scaled(600_000),
);
