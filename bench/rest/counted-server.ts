// Starts our server and counts its work per request: function calls, and bytes on the heap.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { Agent, request as sendRequest, type IncomingMessage } from 'node:http';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { KEYS } from '../../test/support/rest-world.ts';
import { extraHeaders, type Workload } from './dataset.ts';
import type { Bytes, Calls, CountAnswer, CountRequest } from './work-counter.ts';

/** More than the pool has, so that requests wait for a connection, as under load. */
const CONNECTIONS = 64;
const WARM_REQUESTS = 1_500;
/** V8 counts calls exactly, so a few requests are enough. */
const COUNTED_REQUESTS = { calls: 320, bytes: 3_200 };
/**
 * Flags that bin/svc.js sets. V8 optimises in the same thread, because on a busy machine another thread would be late
 * and code that is not optimised allocates more.
 */
const FLAGS = [
  '--no-concurrent-recompilation',
  '--max-semi-space-size=8',
  '--no-parallel-scavenge',
  '--heap-growing-percent=100',
  '--no-allocation-site-pretenuring',
];

export type CountedServer = {
  /** Warms the workload up. Returns bytes per request. */
  countBytes(workload: Workload): Promise<Omit<Bytes, 'kind'>>;
  /** Returns calls per request. Run it after `countBytes`, because it discards optimised code. */
  countCalls(workload: Workload): Promise<Omit<Calls, 'kind'>>;
  stop(): Promise<void>;
};

export type CountedServerOptions = {
  /** Superuser's connection string of an empty database. */
  readonly databaseUrl: string;
  readonly posts: number;
  readonly logLevel?: string | undefined;
  /** `bench/rest/server.ts` of another checkout. */
  readonly program?: URL | undefined;
};

export async function startCountedServer(options: CountedServerOptions): Promise<CountedServer> {
  const program = options.program ?? new URL('server.ts', import.meta.url);
  const child = spawn(process.execPath, [...FLAGS, fileURLToPath(program)], {
    env: {
      ...process.env,
      BENCH_DATABASE_URL: options.databaseUrl,
      BENCH_POSTS: String(options.posts),
      ...(options.logLevel === undefined ? {} : { BENCH_LOG_LEVEL: options.logLevel }),
    },
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  });
  const { url, token } = await readFirstLine(child);
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
  const headers = { authorization: `Bearer ${token}`, apikey: KEYS.publishable };

  const send = async (workload: Workload, count: number): Promise<void> => {
    const all = { ...headers, ...extraHeaders(workload) };
    let next = 0;
    const sendInTurn = async (): Promise<void> => {
      while (next < count) {
        const { path, body } = workload.request(next++);
        await sendOne({ url: url + path, method: workload.method, headers: all, body, agent });
      }
    };
    await Promise.all(Array.from({ length: CONNECTIONS }, sendInTurn));
  };
  const count = async (kind: 'calls' | 'bytes', workload: Workload): Promise<CountAnswer> => {
    await ask(child, { count: kind });
    await send(workload, COUNTED_REQUESTS[kind]);
    return await ask(child, { count: 'end' });
  };
  return {
    async countBytes(workload) {
      await send(workload, WARM_REQUESTS);
      const { allocated, promoted } = (await count('bytes', workload)) as Bytes;
      const requests = COUNTED_REQUESTS.bytes;
      return { allocated: allocated / requests, promoted: promoted / requests };
    },
    async countCalls(workload) {
      await send(workload, CONNECTIONS);
      const { total, byFunction } = (await count('calls', workload)) as Calls;
      const requests = COUNTED_REQUESTS.calls;
      const functions = Object.entries(byFunction).map(([name, calls]) => [name, calls / requests] as const);
      return { total: total / requests, byFunction: Object.fromEntries(functions) };
    },
    async stop() {
      agent.destroy();
      const ended = once(child, 'exit');
      child.kill('SIGTERM');
      await ended;
    },
  };
}

async function readFirstLine({ stdout }: ChildProcess): Promise<{ url: string; token: string }> {
  if (stdout) {
    for await (const line of createInterface({ input: stdout })) return JSON.parse(line) as never;
  }
  throw new Error('the server did not start');
}

async function ask(child: ChildProcess, message: CountRequest): Promise<CountAnswer> {
  const answered = once(child, 'message');
  child.send(message);
  const [answer] = (await answered) as [CountAnswer];
  return answer;
}

type Sent = {
  readonly url: string;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | undefined;
  readonly agent: Agent;
};

async function sendOne({ url, body, ...options }: Sent): Promise<void> {
  const request = sendRequest(url, options);
  request.end(body);
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  response.resume();
  await once(response, 'end');
  if ((response.statusCode ?? 500) >= 300) throw new Error(`${url} was answered ${response.statusCode}`);
}
