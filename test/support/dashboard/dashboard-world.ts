// A backend with its dashboard, and raw requests to it: `fetch` would normalise paths and refuse to set the headers
// that browsers set themselves.
import { request as httpRequest } from 'node:http';
import { Writable } from 'node:stream';
import fastify from 'fastify';
import type { DashboardMode } from '../../../src/dashboard-api/contract.ts';
import { createDashboard } from '../../../src/dashboard-api/dashboard.ts';
import type { DashboardSettings } from '../../../src/dashboard-api/dashboard-context.ts';
import type { FeatureContext } from '../../../src/http/feature.ts';
import { Keyring } from '../../../src/identity/keyring.ts';
import { createLog } from '../../../src/log/log.ts';
import { RecentLines } from '../../../src/log/recent-lines.ts';
import { startBackendWorld, type BackendWorld } from '../backend-world.ts';

export type Answer = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly text: string;
  /** The parsed body; undefined if it is not JSON. */
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
  /** A request like the page's: with the cookie, and for changes with origin and CSRF token. */
  call(path: string, call?: Call): Promise<Answer>;
};

export type DashboardWorld = BackendWorld & {
  readonly host: string;
  /** Everything that was logged. */
  log(): string;
  /** The path is sent unchanged. */
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
    pageDirectory?: string;
    env?: Record<string, string>;
    server?: string;
    prepare?: (url: string) => Promise<void>;
  } = {},
): Promise<DashboardWorld> {
  const { mode = 'readwrite', pageDirectory, ...rest } = options;
  let lines = '';
  const destination = new Writable({
    write(chunk: Buffer, _encoding, done) {
      lines += chunk.toString();
      done();
    },
  });
  const recentLines = new RecentLines();
  const log = createLog({ level: 'debug', destination, sinks: [recentLines] });
  const world = await startBackendWorld(yaml, {
    ...rest,
    log,
    dashboard: { mode, recentLines, pageDirectory },
  });
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

export type DashboardRoute = { readonly method: string; readonly path: string; readonly access: string };

/** Every route that the dashboard registers, so that tests cover new routes automatically. */
export async function dashboardRoutes(world: DashboardWorld): Promise<DashboardRoute[]> {
  const routes: DashboardRoute[] = [];
  const app = fastify();
  app.addHook('onRoute', ({ method, url, config }) => {
    for (const one of [method].flat()) {
      routes.push({ method: one, path: url, access: config?.dashboard ?? 'read' });
    }
  });
  const { keys, owner } = world;
  const keyring = await Keyring.open(owner, { current: keys.secret, previous: [] });
  // Registering needs only these.
  const context = { owner, keyring, now: () => new Date() } as unknown as FeatureContext;
  const settings = {
    mode: 'readwrite',
    keys,
    recentLines: new RecentLines(),
  } as unknown as DashboardSettings;
  await app.register(createDashboard(settings)(context), { prefix: '/dashboard' });
  await app.ready();
  await app.close();
  return routes;
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
            // Not JSON: the test reads the text.
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
