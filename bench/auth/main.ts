// Measures the cost of sign-in and refresh: `node bench/auth/main.ts`. Each figure is printed next to the unavoidable
// cost (the hash, the database statements), measured in the same run on the same machine.
import { mkdtemp, rm } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { auth } from '../../src/auth/auth.ts';
import { PasswordHasher } from '../../src/auth/users/password.ts';
import type { Catalog } from '../../src/catalog/catalog.ts';
import { startEmbeddedPostgres } from '../../src/embedded-postgres/embedded-postgres.ts';
import { generateApiKeys } from '../../src/identity/api-key.ts';
import { CredentialReader } from '../../src/identity/credentials.ts';
import { Keyring } from '../../src/identity/keyring.ts';
import { SigningKeys } from '../../src/identity/signing-keys.ts';
import { TokenVerifier } from '../../src/identity/token.ts';
import { silentLog } from '../../src/log/log.ts';
import { CallerPool } from '../../src/postgres/pool/caller-pool.ts';
import { OwnerDatabase } from '../../src/postgres/owner-database.ts';
import { sql } from '../../src/postgres/sql.ts';
import { provisionAt } from '../../test/support/provision.ts';
import { createApp } from '../../src/server/app.ts';
import { makeConfig } from '../../test/support/auth-config.ts';
import { parseAddress } from '../../src/postgres/address/parse-address.ts';

const SECONDS = Number(process.env['BENCH_SECONDS'] ?? 5);
const CLIENTS = Number(process.env['BENCH_CLIENTS'] ?? 16);

const folder = await mkdtemp(join(tmpdir(), 'svc-bench-'));
// Durable, as in production: without fsync both svc and the bare database would look faster than they are.
const postgres = await startEmbeddedPostgres({
  dir: join(folder, '.svc'),
  log: silentLog,
  durability: 'durable',
});
try {
  await main(postgres.url);
} finally {
  await postgres.stop();
  await rm(folder, { recursive: true, force: true });
}

async function main(databaseUrl: string): Promise<void> {
  const { ownerUrl, authenticatorUrl } = await provisionAt(databaseUrl);
  const owner = new OwnerDatabase({
    address: parseAddress(ownerUrl),
    applicationName: 'svc',
    max: 8,
    idleTimeoutMs: 60_000,
  });
  const callers = new CallerPool({
    address: parseAddress(authenticatorUrl),
    applicationName: 'svc',
    max: 2,
    minIdle: 0,
    idleTimeoutMs: 60_000,
  });
  const keys = generateApiKeys();
  const keyring = await Keyring.open(owner, { current: keys.secret, previous: [] });
  const signingKeys = new SigningKeys(owner, keyring.box('signing keys'));
  await signingKeys.load();
  const config = makeConfig({});
  const app = await createApp({
    log: silentLog,
    mounts: [{ prefix: '/auth/v1', feature: auth }],
    health: { phase: () => 'serving' },
    cors: () => ({ origins: [], allowLoopback: false }),
    timeouts: () => config.server.timeouts,
    context: {
      snapshot: () => ({ config, catalog: {} as Catalog, version: 1 }),
      callers,
      owner,
      credentials: new CredentialReader(keys, new TokenVerifier(signingKeys)),
      signingKeys,
      keyring,
      env: {},
      log: silentLog,
      now: () => new Date(),
      baseUrl: () => undefined,
      dev: false,
    },
  });
  await app.server.listen({ host: '127.0.0.1', port: 0 });
  const base = `http://127.0.0.1:${(app.server.server.address() as AddressInfo).port}/auth/v1`;
  const headers = { apikey: keys.publishable, 'content-type': 'application/json' };
  const post = async (path: string, body: unknown): Promise<Record<string, string>> => {
    const response = await fetch(`${base}${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
    const json = (await response.json()) as Record<string, string>;
    if (!response.ok) throw new Error(`${response.status} ${JSON.stringify(json)}`);
    return json;
  };

  const people = await Promise.all(
    Array.from({ length: CLIENTS }, async (_, index) => {
      const credentials = { email: `bench${index}@example.com`, password: 'correct horse' };
      return { ...credentials, refresh: (await post('/signup', credentials))['refresh_token'] ?? '' };
    }),
  );
  const person = (index: number): (typeof people)[number] => people[index % people.length]!;

  const hasher = new PasswordHasher();
  const hash = await hasher.hash('correct horse');
  print(
    'the hash alone (argon2id, 19 MiB, 2 passes)',
    await measure(() => hasher.verify('correct horse', hash)),
  );
  print(
    'sign-in with a password',
    await measure((worker) =>
      post('/token?grant_type=password', { email: person(worker).email, password: 'correct horse' }),
    ),
  );

  const [session] = await owner.query<{ id: string }>(sql`select id from auth.sessions limit 1`);
  const ids = await owner.query<{ id: string }>(
    sql`select id from auth.sessions order by created_at limit ${CLIENTS}`,
  );
  const bare = async (worker: number): Promise<void> => {
    const id = ids[worker % ids.length]?.id ?? session?.id ?? '';
    await owner.query(
      sql`select s.*, u.* from auth.sessions s join auth.users u on u.id = s.user_id where s.id = ${id}`,
    );
    await owner.query(sql`update auth.sessions set updated_at = now() where id = ${id}`);
  };
  print('the database alone: one read and one committed write', await measure(bare));
  print(
    'token refresh, a session for each client',
    await measure(async (worker) => {
      const user = person(worker);
      user.refresh =
        (await post('/token?grant_type=refresh_token', { refresh_token: user.refresh }))['refresh_token'] ??
        '';
    }),
  );
  const shared = { token: person(0).refresh };
  print(
    'token refresh, all clients on one session',
    await measure(async () => {
      shared.token =
        (await post('/token?grant_type=refresh_token', { refresh_token: shared.token }))['refresh_token'] ??
        '';
    }),
  );
  const access = (
    await post('/token?grant_type=password', { email: person(0).email, password: 'correct horse' })
  )['access_token'];
  const own = { ...headers, authorization: `Bearer ${access}` };
  print('GET /user', await measure(async () => await (await fetch(`${base}/user`, { headers: own })).json()));
  print(
    'GET /settings, which asks no database',
    await measure(async () => await (await fetch(`${base}/settings`, { headers })).json()),
  );

  await app.server.close();
  callers.destroy();
  await owner.close();
}

type Measured = {
  perSecond: number;
  medianMs: number;
  p99Ms: number;
  stallP99Ms: number;
  stallMaxMs: number;
  cpuMs: number;
};

/** Runs `work` on all clients at once for a fixed time. Also measures event loop delays. */
async function measure(work: (worker: number) => Promise<unknown>): Promise<Measured> {
  for (let i = 0; i < 2; i++) await Promise.all(Array.from({ length: CLIENTS }, (_, worker) => work(worker)));
  const delay = monitorEventLoopDelay({ resolution: 1 });
  const latencies: number[] = [];
  const cpu = process.cpuUsage();
  delay.enable();
  const startedAt = performance.now();
  const deadline = startedAt + SECONDS * 1000;
  await Promise.all(
    Array.from({ length: CLIENTS }, async (_, worker) => {
      while (performance.now() < deadline) {
        const begun = performance.now();
        await work(worker);
        latencies.push(performance.now() - begun);
      }
    }),
  );
  delay.disable();
  const seconds = (performance.now() - startedAt) / 1000;
  const spent = process.cpuUsage(cpu);
  latencies.sort((a, b) => a - b);
  const at = (share: number): number => latencies[Math.floor((latencies.length - 1) * share)] ?? 0;
  return {
    perSecond: latencies.length / seconds,
    medianMs: at(0.5),
    p99Ms: at(0.99),
    stallP99Ms: delay.percentile(99) / 1e6,
    stallMaxMs: delay.max / 1e6,
    cpuMs: (spent.user + spent.system) / 1000 / latencies.length,
  };
}

function print(name: string, { perSecond, medianMs, p99Ms, stallP99Ms, stallMaxMs, cpuMs }: Measured): void {
  const figures = [
    `${perSecond.toFixed(0)}/s`,
    `median ${medianMs.toFixed(1)} ms`,
    `p99 ${p99Ms.toFixed(1)} ms`,
    `loop stall p99 ${stallP99Ms.toFixed(1)} ms, max ${stallMaxMs.toFixed(1)} ms`,
    `${cpuMs.toFixed(2)} ms CPU each`,
  ];
  process.stdout.write(`${name}\n  ${figures.join(' · ')}\n`);
}
