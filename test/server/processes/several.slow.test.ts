// Two processes that serve one file on one machine, with the real server and database.
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import pg from 'pg';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { createDatabase, type TestDatabase } from '../../support/database.ts';
import { rounds } from '../../support/rounds.ts';
import { startSvc, type SvcProcess } from '../../support/svc-process.ts';
import { copyTodoProject, type TodoProject } from '../../support/todo-project.ts';
import { scaled } from '../../support/run/scaled.ts';

const KEYS = {
  SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaa',
  SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
};
const PATIENT = { timeout: scaled(50_000) };

let database: TestDatabase;
let project: TodoProject;
let svc: SvcProcess;
beforeAll(async () => {
  database = await createDatabase();
  project = copyTodoProject();
  // The maximum number of connections is open.
  appendFileSync(project.config, '\ndatabase: { pool: { min: 20, max: 20 } }\n');
  svc = await start(2);
});
afterAll(async () => {
  await svc.stop('SIGKILL');
  project.remove();
  await database.drop();
});

async function start(processes: number): Promise<SvcProcess> {
  const env = { ...KEYS, SVC_DATABASE_URL: database.url };
  const args = ['--migrate', '--dashboard', 'readwrite', '--processes', String(processes)];
  const started = await startSvc({ command: 'serve', config: project.config, env, arguments: args });
  await vi.waitFor(() => expect(lines(started, 'serving')).toHaveLength(processes), PATIENT);
  return started;
}

type Line = { msg: string; process: number; time: string };

function lines(of: SvcProcess, message: string): Line[] {
  return of
    .output()
    .split('\n')
    .filter((line) => line.startsWith('{') && line.endsWith('}'))
    .map((line) => JSON.parse(line) as Line)
    .filter(({ msg }) => msg === message);
}

/** Sends one request on a new connection, without retries. */
function tips(): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = { apikey: KEYS.SVC_PUBLISHABLE_KEY };
    const sent = request(`${svc.url}/rest/v1/tips`, { agent: new Agent(), headers }, (response) => {
      let body = '';
      response.on('data', (chunk: Buffer) => (body += chunk.toString()));
      response.once('end', () =>
        response.statusCode === 200 ? resolve(200) : reject(new Error(`${response.statusCode} ${body}`)),
      );
      response.once('error', reject);
    });
    sent.once('error', reject);
    sent.end();
  });
}

/** Requests of eight clients, one after the other each, until `done`. */
async function load(done: Promise<unknown>): Promise<{ answered: number; failed: string[] }> {
  const over = new AbortController();
  void done.finally(() => over.abort());
  let answered = 0;
  const failed: string[] = [];
  const client = async (): Promise<void> => {
    while (!over.signal.aborted) {
      const outcome = await tips().catch((error: unknown) => String(error));
      if (outcome === 200) answered += 1;
      else failed.push(String(outcome));
    }
  };
  await Promise.all([...Array.from({ length: 8 }, client), done]);
  return { answered, failed };
}

test(
  'processes are replaced under load without a failed request',
  { timeout: scaled(1_200_000) },
  async () => {
    const times = rounds(1, 10);
    const replaced = (async () => {
      for (let round = 1; round <= times; round++) {
        svc.child.kill('SIGUSR2');
        await expect
          .poll(() => lines(svc, 'all workers are replaced').length, { timeout: scaled(120_000) })
          .toBe(round);
      }
    })();
    const { answered, failed } = await load(replaced);
    expect(failed).toEqual([]);
    expect(answered).toBeGreaterThan(10 * times);
  },
);

test('an invalid file at SIGHUP changes no process; a valid one reaches every process', async () => {
  const text = readFileSync(project.config, 'utf8');
  writeFileSync(project.config, text.replace('tables:', 'tabels:'));
  svc.child.kill('SIGHUP');
  const refused = 'the new configuration was refused; the last valid one is still being served';
  await expect.poll(() => lines(svc, refused).length, PATIENT).toBe(1);
  writeFileSync(
    project.config,
    `${text.replace(/^server:\n(?: .*\n|\n)*/m, '')}\nserver: { max_limit: 7 }\n`,
  );
  svc.child.kill('SIGHUP');
  await expect
    .poll(
      () =>
        lines(svc, 'reloaded')
          .map(({ process: number }) => number)
          .sort((a, b) => a - b),
      PATIENT,
    )
    .toEqual([1, 2]);
  expect(lines(svc, refused)).toHaveLength(1);
});

test('SIGTERM during the start of the second process ends both', async () => {
  const env = { ...KEYS, SVC_DATABASE_URL: database.url };
  const args = ['--processes', '2'];
  const begun = await startSvc({ command: 'serve', config: project.config, env, arguments: args });
  expect(await begun.stop()).toBe(0);
  expect(lines(begun, 'stopped')).toHaveLength(1);
});

test('a second process adds at most four connections', async () => {
  const { max, owner } = { max: 20, owner: 8 };
  const listenProbeAndCatalog = 3;
  const most = await maxConnections(svc);
  expect(most).toBeGreaterThanOrEqual(max);
  expect(most).toBeLessThanOrEqual(max + owner + listenProbeAndCatalog + 4);
  expect(await svc.stop()).toBe(0);
  expect(lines(svc, 'stopped')).toHaveLength(1);
});

/** While every statement waits for a lock: more are opened until no pool opens another. */
async function maxConnections({ url }: SvcProcess): Promise<number> {
  const holder = new pg.Client({ connectionString: database.url });
  await holder.connect();
  const count = async (): Promise<number> => {
    const { rows } = await holder.query<{ count: number }>(
      `select count(*)::int from pg_stat_activity where datname = current_database()
        and backend_type = 'client backend' and pid <> pg_backend_pid()`,
    );
    return rows[0]?.count ?? 0;
  };
  const send = async (path: string, body: object): Promise<void> => {
    const headers = { apikey: KEYS.SVC_SECRET_KEY, 'content-type': 'application/json' };
    const agent = {
      method: 'POST',
      headers: { ...headers, connection: 'close' },
      body: JSON.stringify(body),
    };
    await fetch(url + path, agent).then((response) => response.arrayBuffer());
  };
  await holder.query('begin');
  await holder.query('lock table public.tips, auth.users in access exclusive mode');
  const waiting = [
    ...Array.from({ length: 60 }, () => send('/rest/v1/tips', { body: `${Math.random()}` })),
    ...Array.from({ length: 20 }, (_, index) =>
      send('/auth/v1/token?grant_type=password', { email: `u${index}@example.com`, password: 'a-password' }),
    ),
  ];
  const seen: number[] = [];
  await expect
    .poll(async () => seen.unshift(await count()) > 6 && new Set(seen.slice(0, 6)).size === 1, {
      ...PATIENT,
      interval: 200,
    })
    .toBe(true);
  await holder.query('rollback');
  await Promise.allSettled(waiting);
  await holder.end();
  return Math.max(...seen);
}
