// Whole instances behind a pooler: two instances share a few sessions of PostgreSQL, and the client library notices no
// difference.
import { createClient, type SupabaseClient } from '@supabase/supabase-js';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import {
  startPgBouncer,
  startPgBouncerWith,
  withoutPgBouncer,
  withoutTracking,
  type PgBouncer,
} from '../support/peers/pgbouncer.ts';
import { provisionAt, type ProvisionedAt } from '../support/provision.ts';
import { rounds } from '../support/rounds.ts';
import { runSvc, startSvc, type SvcProcess } from '../support/svc-process.ts';
import { scaled } from '../support/run/scaled.ts';

const KEYS = {
  SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaa',
  SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
};
const TABLES = ['apples', 'pears', 'plums'] as const;
const YAML = `version: 1
server: { timeouts: { db_query: 1s } }
database: { pool: { max: 10 } }
tables:
${TABLES.map(
  (name) => `  ${name}:
    fields:
      - { name: id, type: int, primary_key: true }
      - { name: kind, type: text, default: ${name} }
    rls: [{ operations: [select, insert, update], using: 'true', with_check: 'true' }]
`,
).join('')}
expose:
  functions: [slow]
`;

const folder = mkdtempSync(join(tmpdir(), 'svc-pooled-'));
const config = join(folder, 'svc.yaml');
let database: TestDatabase;
let roles: ProvisionedAt;

beforeAll(async () => {
  writeFileSync(config, YAML);
  database = await createDatabase();
  roles = await provisionAt(database.url);
  await onServer(`create function public.slow(ms int) returns int language sql volatile as
    'select ms from pg_sleep(ms / 1000.0)'; grant execute on function public.slow to anon`);
});

afterAll(async () => {
  await database.drop();
  rmSync(folder, { recursive: true, force: true });
});

async function onServer(text: string): Promise<Array<Record<string, unknown>>> {
  const client = new pg.Client(database.url);
  await client.connect();
  try {
    const { rows } = await client.query<Record<string, unknown>>(text);
    return rows;
  } finally {
    await client.end();
  }
}

const startPooler = (options: {
  mode: 'transaction' | 'session' | 'statement';
  maxPreparedStatements?: number;
}): Promise<PgBouncer> =>
  startPgBouncer({
    ...options,
    users: [database.url, roles.ownerUrl, roles.authenticatorUrl],
    poolSize: 4,
    ignoresOptions: options.maxPreparedStatements === undefined,
  });

const startInstance = (pooler: PgBouncer): Promise<SvcProcess> =>
  startSvc({
    command: 'serve',
    config,
    arguments: ['--migrate'],
    env: {
      ...KEYS,
      SVC_DATABASE_URL: pooler.through(database.url),
      SVC_DATABASE_DIRECT_URL: database.url,
    },
  });

const POOLERS = [
  [{ mode: 'transaction' }, withoutPgBouncer, 'pooled, names not tracked'],
  [{ mode: 'transaction', maxPreparedStatements: 100 }, withoutTracking, 'pooled, tracks names'],
] as const;

for (const [options, reason, verdict] of POOLERS) {
  test.skipIf(reason !== undefined)(
    `two instances behind PgBouncer ${JSON.stringify(options)}: ` +
      `every answer is its own${reason === undefined ? '' : ` (skipped: ${reason})`}`,
    { timeout: scaled(600_000) },
    async () => {
      await onServer(`drop table if exists ${TABLES.join(', ')}`);
      const pooler = await startPooler(options);
      const instances: SvcProcess[] = [];
      try {
        // The first one migrates.
        instances.push(await startInstance(pooler));
        instances.push(await startInstance(pooler));
        for (const instance of instances) expect(instance.output()).toContain(`database link: ${verdict}`);
        const clients = instances.map(({ url }) => createClient(url, KEYS.SVC_PUBLISHABLE_KEY));
        expect(await mixedRequests(clients, rounds(300, 10_000, 'SVC_TEST_POOLED_REQUESTS'))).toEqual([]);
      } finally {
        for (const instance of instances) await instance.stop();
        await pooler.stop();
      }
    },
  );
}

/** Responses that differ from the expected ones. */
async function mixedRequests(clients: readonly SupabaseClient[], requests: number): Promise<string[]> {
  const wrong: string[] = [];
  const inserted = new Map<string, number>();
  let next = 0;
  const one = async (number: number, client: SupabaseClient): Promise<void> => {
    const table = TABLES[number % 3] ?? 'plums';
    const expect_ = (label: string, found: unknown, expected: unknown): void => {
      if (JSON.stringify(found) !== JSON.stringify(expected))
        wrong.push(`${number} ${label} ${table}: ${JSON.stringify(found)}`);
    };
    if (number % 50 === 49) {
      // Longer than server.timeouts.db_query.
      const { error } = await client.rpc('slow', { ms: 60_000 });
      expect_('deadline', error?.code, '57014');
    } else if (number % 10 === 9) {
      const { data, error } = await client.rpc('slow', { ms: number % 40 });
      expect_('slow function', [data, error], [number % 40, null]);
    } else if (number % 5 === 0) {
      const { data, error } = await client.from(table).insert({ id: number }).select();
      expect_('insert', [data, error], [[{ id: number, kind: table }], null]);
      inserted.set(table, (inserted.get(table) ?? 0) + 1);
    } else if (number % 7 === 0) {
      const { data, error } = await client.from(table).update({ kind: table }).eq('id', -1).select();
      expect_('update', [data, error], [[{ id: -1, kind: table }], null]);
    } else {
      const { data, error } = await client
        .from(table)
        .select(number % 2 === 0 ? 'kind' : 'kind, id')
        .eq('id', -1);
      expect_(
        'read',
        [data, error],
        [number % 2 === 0 ? [{ kind: table }] : [{ kind: table, id: -1 }], null],
      );
    }
  };
  for (const table of TABLES) await onServer(`insert into ${table} (id) values (-1)`);
  await Promise.all(
    Array.from({ length: 16 }, async (_, worker) => {
      const client = clients[worker % clients.length];
      if (!client) throw new Error('no instance');
      while (next < requests) await one(next++, client);
    }),
  );
  for (const table of TABLES) {
    const [row] = await onServer(`select count(*)::int as rows from ${table} where id >= 0`);
    if (row?.['rows'] !== inserted.get(table))
      wrong.push(`${table}: ${JSON.stringify(row)} of ${String(inserted.get(table))}`);
  }
  return wrong.slice(0, 20);
}

test.skipIf(withoutPgBouncer !== undefined).each([
  [
    'transaction',
    false,
    'SVC_DATABASE_URL goes through a pooler',
    'Set SVC_DATABASE_DIRECT_URL to PostgreSQL',
  ],
  ['session', false, 'SVC_DATABASE_URL goes through a pooler', 'Set SVC_DATABASE_DIRECT_URL to PostgreSQL'],
  ['statement', true, 'assigns sessions per statement', 'pool_mode of PgBouncer'],
] as const)(
  'a start through a pooler in %s mode that cannot be (with a direct address: %s) ends with what to set',
  async (mode, hasDirect, message, hint) => {
    const pooler = await startPooler({ mode });
    try {
      const { code, output } = await runSvc(['serve', '--config', config, '--port', '0'], {
        env: {
          ...KEYS,
          SVC_DATABASE_URL: pooler.through(database.url),
          ...(hasDirect && { SVC_DATABASE_DIRECT_URL: database.url }),
        },
      });
      expect(output).toContain(message);
      expect(output).toContain(hint);
      expect(code).toBe(78);
    } finally {
      await pooler.stop();
    }
  },
);

/** Blocks of this language in the page for operators, in order. */
function ofPage(language: string): string[] {
  const page = readFileSync(new URL('../../docs/operations/pooler.md', import.meta.url), 'utf8');
  return [...page.matchAll(/^```(.*)\n([\s\S]*?)^```$/gm)]
    .filter(([, found]) => found === language)
    .map(([, , text = '']) => text);
}

test.skipIf(withoutPgBouncer !== undefined)(
  'the recipe of the documentation, as it is written: passwords are looked up',
  async () => {
    const [setUp = ''] = ofPage('sql');
    const [ini = ''] = ofPage('ini');
    const [users = ''] = ofPage('');
    const { hostname, port: serverPort } = new URL(database.url);
    const role = `pgbouncer_${database.name}`;
    // Roles belong to the server, which other tests use too.
    await onServer(setUp.replaceAll(/\b(role|to) pgbouncer\b/g, `$1 ${role}`));
    const pooler = await startPgBouncerWith({
      users: users.replace('pgbouncer', role),
      ini: ({ port, userFile }) =>
        ini
          .replace('app = host=database port=5432', `${database.name} = host=${hostname} port=${serverPort}`)
          .replace('listen_addr = 0.0.0.0', 'listen_addr = 127.0.0.1\nunix_socket_dir =')
          .replace('listen_port = 6432', `listen_port = ${port}`)
          .replace('/etc/pgbouncer/userlist.txt', userFile)
          .replace('auth_user = pgbouncer', `auth_user = ${role}`),
    });
    let instance: SvcProcess | undefined;
    try {
      instance = await startInstance(pooler);
      const client = createClient(instance.url, KEYS.SVC_PUBLISHABLE_KEY);
      const { data, error } = await client.from('apples').select('id').limit(1);
      expect([error, Array.isArray(data)]).toEqual([null, true]);
      // As svc_owner, for auth.
      const signedUp = await client.auth.signUp({ email: 'a@example.com', password: 'a long password' });
      expect(signedUp.error).toBeNull();
      // No other password is sent, not even to the pooler.
      const rows = await onServer(`select * from pgbouncer.get_auth('postgres')`);
      expect(rows).toEqual([]);
    } finally {
      await instance?.stop();
      await pooler.stop();
      await onServer(`drop schema pgbouncer cascade; drop role ${role}`);
    }
  },
);
