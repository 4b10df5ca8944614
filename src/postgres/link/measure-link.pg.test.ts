// Measures real poolers and a real proxy in front of the test PostgreSQL.
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { collectLog } from '../../../test/support/collect-log.ts';
import { createDatabase, type TestDatabase } from '../../../test/support/database.ts';
import { startHaproxy, withoutHaproxy } from '../../../test/support/peers/haproxy.ts';
import {
  startPgBouncer,
  withoutPgBouncer,
  withoutTracking,
  type PgBouncerOptions,
} from '../../../test/support/peers/pgbouncer.ts';
import { provisionAt, type ProvisionedAt } from '../../../test/support/provision.ts';
import { parseAddress } from '../address/parse-address.ts';
import { CallerPool, type CallerSettings } from '../pool/caller-pool.ts';
import { DatabaseLink } from './database-link.ts';
import type { LinkState } from './measure-link.ts';

let database: TestDatabase;
let roles: ProvisionedAt;
const anon: CallerSettings = { role: 'anon', claims: '{"role":"anon"}' };
const SETTINGS = ['statement_timeout', 'TimeZone', 'DateStyle', 'IntervalStyle', 'search_path', 'role'];
const READ_SETTINGS = `select ${SETTINGS.map((name) => `current_setting('${name}')`).join(` || ' | ' || `)}`;

beforeAll(async () => {
  database = await createDatabase();
  roles = await provisionAt(database.url);
  // Settings that differ from those of the product.
  await onServer(
    database.url,
    `alter role authenticator in database ${databaseName()} set timezone = 'Asia/Tokyo';
    alter role authenticator in database ${databaseName()} set datestyle = 'SQL, DMY';
    alter role authenticator in database ${databaseName()} set intervalstyle = 'iso_8601'`,
  );
});

afterAll(async () => {
  await database.drop();
});

const databaseName = (): string => new URL(database.url).pathname.slice(1);

async function onServer(url: string, text: string): Promise<string[]> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    const { rows } = await client.query<Record<string, string>>(text);
    return (rows ?? []).flatMap((row) => Object.values(row));
  } finally {
    await client.end();
  }
}

type Measured = { state: LinkState | undefined; settings: string | undefined; told: string[] };

/** Opens a pool with its own deadline. Returns the measured state and the settings of a request. */
async function measure(url: string): Promise<Measured> {
  const { log, lines } = collectLog();
  const link = new DatabaseLink(log);
  const pool = new CallerPool({
    address: parseAddress(url),
    applicationName: 'test',
    max: 2,
    minIdle: 0,
    idleTimeoutMs: 10_000,
    statementTimeoutMs: 700,
    link,
  });
  try {
    const [first] = await pool.run(anon, [{ text: READ_SETTINGS, values: [] }]);
    await expect(pool.run(anon, [{ text: 'select pg_sleep(20)', values: [] }])).rejects.toMatchObject({
      code: '57014',
    });
    return {
      state: link.state,
      settings: first?.rows[0]?.[0]?.toString(),
      told: lines().map((line) => String(line['msg'])),
    };
  } finally {
    await pool.close();
  }
}

const AS_DIRECT = '700ms | UTC | ISO, MDY | postgres | "$user", public | anon';

test('PostgreSQL itself: as asked', async () => {
  expect(await measure(roles.authenticatorUrl)).toEqual({
    state: { verdict: 'direct', lacking: [] },
    settings: AS_DIRECT,
    told: [],
  });
});

test.skipIf(withoutHaproxy !== undefined)('a proxy that passes bytes on is none', async () => {
  const proxy = await startHaproxy(roles.authenticatorUrl);
  try {
    const { state, settings } = await measure(proxy.through(roles.authenticatorUrl));
    expect(state).toEqual({ verdict: 'direct', lacking: [] });
    expect(settings).toBe(AS_DIRECT);
  } finally {
    await proxy.stop();
  }
});

const POOLERS: ReadonlyArray<readonly [Omit<PgBouncerOptions, 'users' | 'poolSize'>, LinkState['verdict']]> =
  [
    [{ mode: 'transaction', ignoresOptions: true }, 'pooled'],
    [{ mode: 'transaction', ignoresOptions: false }, 'pooled'],
    [{ mode: 'session', ignoresOptions: true }, 'pooled'],
    [{ mode: 'session', ignoresOptions: false }, 'pooled'],
    [{ mode: 'transaction', maxPreparedStatements: 100 }, 'pooled, tracks names'],
    // PgBouncer does not track names in session mode.
    [{ mode: 'session', maxPreparedStatements: 100 }, 'pooled'],
    [{ mode: 'transaction', maxPreparedStatements: 0 }, 'pooled'],
    [{ mode: 'transaction', maxPreparedStatements: 100, ignoresOptions: true }, 'pooled, tracks names'],
  ];

for (const [options, verdict] of POOLERS) {
  const reason = options.maxPreparedStatements !== undefined ? withoutTracking : withoutPgBouncer;
  test.skipIf(reason !== undefined)(
    `PgBouncer ${JSON.stringify(options)}: ${verdict}, deadline and formats as directly, nothing stays`,
    async () => {
      const pooler = await startPgBouncer({ ...options, users: [roles.authenticatorUrl], poolSize: 1 });
      const url = pooler.through(roles.authenticatorUrl);
      try {
        const { state, settings, told } = await measure(url);
        expect(state?.verdict).toBe(verdict);
        expect(settings).toBe(AS_DIRECT);
        expect(told).toEqual([expect.stringContaining(`database link: pooled`)]);
        // The one session of the pooler, as the next one gets it.
        const left = await onServer(
          url,
          `select ${SETTINGS.slice(0, 4)
            .map((name) => `current_setting('${name}')`)
            .join(` || ' | ' || `)} as settings, (select count(*) from pg_prepared_statements) as prepared`,
        );
        if (verdict === 'pooled') expect(left).toEqual(['0 | Asia/Tokyo | SQL, DMY | iso_8601', '0']);
        else expect(left[0]).toBe('0 | Asia/Tokyo | SQL, DMY | iso_8601');
      } finally {
        await pooler.stop();
      }
    },
  );
}
