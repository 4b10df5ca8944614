// A running `/auth/v1` for one test file: its own database and clock, and a listening port for the client library. Mail
// is caught in the outbox and read from there.
import { request as httpRequest } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createClient, type SupabaseClient } from '@supabase/supabase-js';
import { createClient as createOldClient } from 'supabase-js-2.107';
import { auth } from '../../src/auth/auth.ts';
import { listOutbox, type OutboxEntry } from '../../src/auth/mail/outbox.ts';
import type { Config } from '../../src/config/config.ts';
import type { Catalog } from '../../src/catalog/catalog.ts';
import { generateApiKeys, type ApiKeys } from '../../src/identity/api-key.ts';
import { CredentialReader } from '../../src/identity/credentials.ts';
import { Keyring, type KeyringSecrets } from '../../src/identity/keyring.ts';
import { SigningKeys } from '../../src/identity/signing-keys.ts';
import { TokenVerifier } from '../../src/identity/token.ts';
import { createLog, type Log } from '../../src/log/log.ts';
import { CallerPool } from '../../src/postgres/pool/caller-pool.ts';
import { OwnerDatabase, type Row } from '../../src/postgres/owner-database.ts';
import { raw, type Sql } from '../../src/postgres/sql.ts';
import { PasswordHasher } from '../../src/auth/users/password.ts';
import { provisionAt } from './provision.ts';
import { createApp } from '../../src/server/app.ts';
import { makeConfig, type ConfigOptions } from './auth-config.ts';
import { createDatabase, templateDatabase } from './database.ts';
import { watchJobs } from './watch-jobs.ts';
import { parseAddress } from '../../src/postgres/address/parse-address.ts';

export type AuthWorldOptions = ConfigOptions & {
  readonly env?: Readonly<Record<string, string>> | undefined;
  readonly baseUrl?: string | undefined;
  readonly log?: 'show' | Log | undefined;
  readonly trustedKeys?: ApiKeys | undefined;
  /** Passwords are hashed at low cost, unless a test is about the hash or its duration. */
  readonly hashing?: 'real' | undefined;
  /** Uses the database of another world, as a second instance. */
  readonly join?: AuthWorld | undefined;
};

export type Reply = {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The parsed body; an empty object when there is none. */
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly json: any;
};

export type CallOptions = {
  readonly body?: unknown;
  readonly rawBody?: string | undefined;
  /** `publishable` by default. */
  readonly apikey?: string | null | undefined;
  readonly bearer?: string | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
};

export type AuthWorld = {
  readonly url: string;
  readonly keys: ApiKeys;
  readonly databaseUrl: string;
  readonly owner: OwnerDatabase;
  readonly callers: CallerPool;
  readonly keyring: Keyring;
  readonly signingKeys: SigningKeys;
  readonly secrets: KeyringSecrets;
  /** The current configuration; assign another to reload. */
  config: Config;
  /** Milliseconds the clock is ahead. */
  ahead: number;
  now(): Date;
  call(method: string, path: string, options?: CallOptions): Promise<Reply>;
  client(): SupabaseClient;
  oldClient(): SupabaseClient;
  admin(): SupabaseClient;
  query<R extends Row>(statement: Sql): Promise<R[]>;
  /** Newest first. */
  mails(to?: string): Promise<OutboxEntry[]>;
  close(): Promise<void>;
};

const CHEAP = { memoryCost: 8, timeCost: 1 };

export async function startAuth(options: AuthWorldOptions = {}): Promise<AuthWorld> {
  const template = await templateDatabase('provisioned', async (url) => void (await provisionAt(url)));
  const database = options.join ? undefined : await createDatabase({ template });
  const databaseUrl = options.join?.databaseUrl ?? database?.url ?? '';
  const provisioned = await provisionAt(databaseUrl);
  const owner = new OwnerDatabase({
    address: parseAddress(provisioned.ownerUrl),
    applicationName: 'svc',
    max: 16,
    idleTimeoutMs: 10_000,
  });
  const callers = new CallerPool({
    address: parseAddress(provisioned.authenticatorUrl),
    applicationName: 'svc-request',
    max: 4,
    minIdle: 0,
    idleTimeoutMs: 10_000,
  });
  const keys = options.trustedKeys ?? options.join?.keys ?? generateApiKeys();
  const secrets: KeyringSecrets = { current: keys.secret, previous: [] };
  const keyring = await Keyring.open(owner, secrets);
  const jobs = watchJobs();
  const hasher = new PasswordHasher(options.hashing === 'real' ? undefined : CHEAP);
  const log = options.log === 'show' ? createLog({ level: 'debug' }) : (options.log ?? jobs.log);
  let config = makeConfig(options);
  const world = { ahead: 0 };
  const now = (): Date => new Date(Date.now() + world.ahead);
  const signingKeys: SigningKeys = new SigningKeys(owner, keyring.box('signing keys'), () =>
    verifier.forget(),
  );
  const verifier: TokenVerifier = new TokenVerifier(signingKeys, () => Math.floor(now().getTime() / 1000));
  await signingKeys.load();
  const emptyCatalog = {} as Catalog;
  const app = await createApp({
    log,
    mounts: [{ prefix: '/auth/v1', feature: (context) => auth(context, hasher) }],
    health: { phase: () => 'serving' },
    cors: () => ({ origins: config.server.cors.origins, allowLoopback: false }),
    timeouts: () => config.server.timeouts,
    context: {
      snapshot: () => ({ config, catalog: emptyCatalog, version: 1 }),
      callers,
      owner,
      credentials: new CredentialReader(keys, verifier),
      signingKeys,
      keyring,
      env: options.env ?? {},
      log,
      now,
      baseUrl: () => options.baseUrl,
      dev: options.mail === undefined || options.mail === 'catch',
    },
  });
  await app.server.listen({ host: '127.0.0.1', port: 0 });
  const { port } = app.server.server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}`;

  const stateless = { auth: { persistSession: false, autoRefreshToken: false, detectSessionInUrl: false } };
  return {
    url,
    keys,
    databaseUrl,
    owner,
    callers,
    keyring,
    signingKeys,
    secrets,
    get config() {
      return config;
    },
    set config(next) {
      config = next;
    },
    get ahead() {
      return world.ahead;
    },
    set ahead(ms) {
      world.ahead = ms;
    },
    now,
    call: (method, path, call = {}) => send(url, keys, method, path, call),
    client: () => createClient(url, keys.publishable, stateless),
    // The two versions differ only in types that are not used here.
    oldClient: () => createOldClient(url, keys.publishable, stateless) as unknown as SupabaseClient,
    admin: () => createClient(url, keys.secret, stateless),
    query: (statement) => owner.query(statement),
    mails: (to) => listOutbox(owner, { limit: 100, to, box: keyring.box('mail') }),
    async close() {
      await app.server.close();
      callers.destroy();
      await owner.close();
      await database?.drop();
      jobs.assertQuiet();
    },
  };
}

async function send(
  url: string,
  keys: ApiKeys,
  method: string,
  path: string,
  options: CallOptions,
): Promise<Reply> {
  const headers: Record<string, string> = { ...options.headers };
  const key = options.apikey === undefined ? keys.publishable : options.apikey;
  if (key !== null) headers['apikey'] = key;
  if (options.bearer !== undefined) headers['authorization'] = `Bearer ${options.bearer}`;
  const body = options.rawBody ?? (options.body === undefined ? undefined : JSON.stringify(options.body));
  if (body !== undefined) headers['content-type'] ??= 'application/json;charset=UTF-8';
  const response = await fetch(path.startsWith('http') ? path : `${url}/auth/v1${path}`, {
    method,
    headers,
    redirect: 'manual',
    ...(body === undefined ? {} : { body }),
  });
  const text = await response.text();
  let json: unknown = {};
  try {
    if (text !== '') json = JSON.parse(text);
  } catch {
    // Not JSON: the test looks at `text`.
  }
  return { status: response.status, headers: response.headers, text, json };
}

/** Navigates like a browser. `fetch` would send its own metadata instead. */
export async function navigate(
  url: string,
  headers: Readonly<Record<string, string>> = {},
  form?: string,
): Promise<Reply> {
  const sent = {
    accept: 'text/html,application/xhtml+xml,*/*;q=0.8',
    'sec-fetch-mode': 'navigate',
    'user-agent': 'Mozilla/5.0',
    ...(form === undefined ? {} : { 'content-type': 'application/x-www-form-urlencoded' }),
    ...headers,
  };
  const method = form === undefined ? 'GET' : 'POST';
  return await new Promise((resolve, reject) => {
    const request = httpRequest(url, { method, headers: sent }, (response) => {
      let text = '';
      response.on('data', (chunk: Buffer) => {
        text += chunk.toString();
      });
      response.on('end', () => {
        const received = new Headers();
        for (const [name, value] of Object.entries(response.headers))
          for (const one of value === undefined ? [] : [value].flat()) received.append(name, one);
        resolve({ status: response.statusCode ?? 0, headers: received, text, json: {} });
      });
    });
    request.on('error', reject);
    request.end(form);
  });
}

/** Opens the page of a mailed link as a browser and presses its first button, or the button of `field`. */
export async function pressButton(link: string, field?: string): Promise<Reply> {
  return await navigate(link, {}, readForm(await navigate(link), field));
}

/** Returns the body that a button of this page posts. */
export function readForm(page: Reply, field?: string): string {
  const value = /name="form" value="([^"]+)"/.exec(page.text)?.[1] ?? '';
  return new URLSearchParams({ form: value, ...(field === undefined ? {} : { [field]: '1' }) }).toString();
}

/**
 * Sends a POST from another address of this machine. All addresses of 127/8 are local, and each counts as a separate
 * client.
 */
export async function postFrom(
  world: AuthWorld,
  from: string,
  path: string,
  body: unknown,
): Promise<{ readonly status: number; readonly text: string }> {
  const { hostname, port } = new URL(world.url);
  const headers = { apikey: world.keys.publishable, 'content-type': 'application/json' };
  const options = { hostname, port, path: `/auth/v1${path}`, method: 'POST', headers, localAddress: from };
  return await new Promise((resolve, reject) => {
    const sent = httpRequest(options, (response) => {
      let text = '';
      response.on('data', (chunk: Buffer) => {
        text += chunk.toString();
      });
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }));
    });
    sent.on('error', reject);
    sent.end(JSON.stringify(body));
  });
}

let users = 0;

/** Creates a user with a session, as a client library has it. */
export async function aUser(
  world: AuthWorld,
  options: { email?: string; password?: string; data?: Record<string, unknown> } = {},
): Promise<{ id: string; email: string; password: string; access: string; refresh: string }> {
  const email = options.email ?? `user${++users}@example.com`;
  const password = options.password ?? 'correct horse';
  const reply = await world.call('POST', '/signup', { body: { email, password, data: options.data } });
  if (reply.status !== 200 || !reply.json.access_token) throw new Error(`no session: ${reply.text}`);
  return {
    id: reply.json.user.id,
    email,
    password,
    access: reply.json.access_token,
    refresh: reply.json.refresh_token,
  };
}

/** Returns the unverified claims of an access token. */
// oxlint-disable-next-line typescript/no-explicit-any
export function decodeClaims(token: string): any {
  return JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString('utf8'));
}

/** Returns the link and the code of a captured mail. */
export function mailSecrets(mail: OutboxEntry): { link: URL; code: string; token: string } {
  const href =
    /href="([^"]*\/verify\?[^"]*)"/.exec(mail.html ?? '')?.[1]?.replaceAll('&amp;', '&') ?? 'http://none/';
  const link = new URL(href);
  const code = /\b(\d{6})\b/.exec(mail.text ?? '')?.[1] ?? '';
  return { link, code, token: link.searchParams.get('token') ?? '' };
}

/** Returns the target, fragment and query of a redirect. */
export function parseRedirect(reply: Reply): {
  target: string;
  fragment: Record<string, string>;
  query: Record<string, string>;
} {
  const location = reply.headers.get('location') ?? '';
  const url = new URL(location);
  return {
    target: location.split(/[?#]/)[0] ?? '',
    fragment: Object.fromEntries(new URLSearchParams(url.hash.slice(1))),
    query: Object.fromEntries(url.searchParams),
  };
}

export const everyRow = (table: string): Sql => raw(`select * from auth.${table}`);

/** Runs `work` with other settings. */
export async function withAuth(
  world: AuthWorld,
  change: Partial<AuthWorld['config']['auth']>,
  work: () => Promise<void>,
): Promise<void> {
  const before = world.config;
  world.config = { ...before, auth: { ...before.auth, ...change } };
  try {
    await work();
  } finally {
    world.config = before;
  }
}
