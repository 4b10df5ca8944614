// A backend with its dashboard, and requests to it exactly as written: `fetch` would tidy paths up and refuse to set
// the headers that browsers set themselves.
import { request as httpRequest } from 'node:http';
import { Writable } from 'node:stream';
import type { DashboardMode } from '../../src/dashboard-api/contract.ts';
import { createLog } from '../../src/log/log.ts';
import { RecentLines } from '../../src/log/recent-lines.ts';
import { startBackendWorld, type BackendWorld } from './backend-world.ts';

export type Answer = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly text: string;
  /** The parsed body; undefined when it is no JSON. */
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly json: any;
};

export type Call = {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
};

export type SignedIn = {
  readonly cookie: string;
  readonly csrf: string;
  /** As the page does it: with the cookie, and for changes with the origin and the token. */
  call(path: string, call?: Call): Promise<Answer>;
};

export type DashboardWorld = BackendWorld & {
  readonly host: string;
  /** Everything that was logged. */
  log(): string;
  /** The path goes out as it is. */
  send(path: string, call?: Call): Promise<Answer>;
  signIn(): Promise<SignedIn>;
};

export async function startDashboardWorld(
  yaml: string,
  options: {
    mode?: DashboardMode;
    dev?: boolean;
    baseUrl?: string;
    files?: Record<string, string>;
    env?: Record<string, string>;
  } = {},
): Promise<DashboardWorld> {
  const { mode = 'readwrite', ...rest } = options;
  let lines = '';
  const destination = new Writable({
    write(chunk: Buffer, _encoding, done) {
      lines += chunk.toString();
      done();
    },
  });
  const recentLines = new RecentLines();
  const log = createLog({ level: 'debug', destination, recentLines });
  const world = await startBackendWorld(yaml, { ...rest, log, dashboard: { mode, recentLines } });
  const { host } = new URL(world.url);
  const send = (path: string, call: Call = {}): Promise<Answer> => sendRaw(world.url, path, call);
  return {
    ...world,
    host,
    log: () => lines,
    send,
    async signIn() {
      const answer = await send('/dashboard/api/session', {
        method: 'POST',
        headers: { origin: world.url },
        body: { secret_key: world.keys.secret },
      });
      if (answer.status !== 200) throw new Error(`no session: ${answer.text}`);
      const cookie = answer.headers['set-cookie']?.split(';')[0] ?? '';
      const csrf = String(answer.json.csrf);
      return {
        cookie,
        csrf,
        call: (path, call = {}) =>
          send(`/dashboard/api${path}`, {
            ...call,
            headers: { cookie, origin: world.url, 'x-svc-csrf': csrf, ...call.headers },
          }),
      };
    },
  };
}

async function sendRaw(url: string, path: string, { method = 'GET', headers, body }: Call): Promise<Answer> {
  const { hostname, port } = new URL(url);
  const payload =
    body === undefined || typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body);
  return await new Promise((resolve, reject) => {
    const request = httpRequest(
      {
        hostname,
        port,
        path,
        method,
        headers: {
          ...(payload === undefined
            ? {}
            : { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(payload)) }),
          ...headers,
        },
      },
      (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('end', () => {
          const text = Buffer.concat(chunks).toString('utf8');
          let json: unknown;
          try {
            json = JSON.parse(text);
          } catch {
            // The test looks at the text.
          }
          const received = Object.fromEntries(
            Object.entries(response.headers).map(([name, value]) => [
              name,
              Array.isArray(value) ? value.join('\n') : value,
            ]),
          );
          resolve({ status: response.statusCode ?? 0, headers: received, text, json });
        });
      },
    );
    request.on('error', reject);
    request.end(payload);
  });
}
