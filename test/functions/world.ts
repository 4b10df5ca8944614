// Starts `/functions/v1` for one test file, with the data and auth APIs for `ctx.client`: a project folder with the
// given files, its own database, a listening port, and the log as objects.
import { randomUUID } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import { createConnection, type AddressInfo, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { auth } from '../../src/auth/auth.ts';
import { introspect } from '../../src/catalog/introspect.ts';
import type { Config } from '../../src/config/config.ts';
import { loadConfig } from '../../src/config/load.ts';
import { renderMistakes } from '../../src/config/mistakes/report.ts';
import { Functions, type FunctionsOptions } from '../../src/functions/functions.ts';
import type { FeatureContext, Snapshot } from '../../src/http/feature.ts';
import { generateApiKeys, type ApiKeys } from '../../src/identity/api-key.ts';
import { CredentialReader } from '../../src/identity/credentials.ts';
import { Keyring } from '../../src/identity/keyring.ts';
import { SigningKeys } from '../../src/identity/signing-keys.ts';
import { signToken, TokenVerifier } from '../../src/identity/token.ts';
import { createLog } from '../../src/log/log.ts';
import { CallerPool } from '../../src/postgres/pool/caller-pool.ts';
import { OwnerDatabase } from '../../src/postgres/owner-database.ts';
import { raw } from '../../src/postgres/sql.ts';
import { provisionAt } from '../support/provision.ts';
import { rest } from '../../src/rest/rest.ts';
import { Degraded } from '../../src/lib/degraded.ts';
import { ReadinessWatch } from '../../src/server/health/readiness.ts';
import { createApp } from '../../src/server/app.ts';
import { createDatabase, templateDatabase } from '../support/database.ts';
import { parseAddress } from '../../src/postgres/address/parse-address.ts';
import { scaled } from '../support/run/scaled.ts';

export type WorldOptions = {
  /** Path → content, except svc.yaml. */
  readonly files: Readonly<Record<string, string>>;
  /** The `functions:` block as YAML. By default each file of functions/ is a public function with its name. */
  readonly yaml?: string | undefined;
  readonly variables?: Readonly<Record<string, string>> | undefined;
  readonly sql?: string | undefined;
  /** Installs the client library into functions/node_modules. */
  readonly client?: boolean | undefined;
  readonly size?: number | undefined;
  readonly memoryMb?: number | undefined;
  readonly mode?: FunctionsOptions['mode'] | undefined;
  readonly dev?: boolean | undefined;
  readonly maxBodyBytes?: string | undefined;
  /** Allowed origins. Defaults to all. */
  readonly origins?: readonly string[] | undefined;
  readonly runtime?: string | undefined;
};

export type LogLine = Readonly<Record<string, unknown>> & { readonly level: string; readonly msg: string };

export type Reply = {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly rawHeaders: readonly string[];
  readonly bytes: Buffer;
  readonly text: string;
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly json: any;
};

export type CallOptions = {
  readonly method?: string | undefined;
  readonly body?: string | Buffer | undefined;
  readonly headers?: Readonly<Record<string, string | string[]>> | undefined;
  readonly token?: string | undefined;
  readonly signal?: AbortSignal | undefined;
};

export type World = {
  readonly url: string;
  readonly port: number;
  readonly folder: string;
  readonly keys: ApiKeys;
  readonly functions: Functions;
  readonly log: readonly LogLine[];
  readonly logText: () => string;
  readonly owner: OwnerDatabase;
  call(name: string, options?: CallOptions): Promise<Reply>;
  /** Occupies all slots by calls of `name`: three quarters by one caller, and one each by many others. */
  occupyAllSlots(name: string): Promise<Array<Promise<Reply>>>;
  /** Returns the token of a signed-in user. */
  token(claims?: Record<string, unknown>): Promise<string>;
  write(files: Readonly<Record<string, string>>): void;
  /** Reloads like a save of svc.yaml. */
  reload(yaml: string, variables?: Readonly<Record<string, string>>): Promise<void>;
  socket(): Socket;
  closeServer(): Promise<void>;
  close(): Promise<void>;
};

const NOTES = `tables:
  notes:
    fields: [{ name: id, type: bigint, primary_key: true }, { name: owner_id, type: uuid }, { name: body, type: text }]
    rls: []
`;

const REPOSITORY = fileURLToPath(new URL('../..', import.meta.url));

export async function startWorld(options: WorldOptions): Promise<World> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-fn-'));
  const write = (files: Readonly<Record<string, string>>): void => {
    for (const [path, content] of Object.entries(files)) {
      mkdirSync(dirname(join(folder, path)), { recursive: true });
      writeFileSync(join(folder, path), content);
    }
  };
  write({ 'functions/package.json': '{"type":"module"}', ...options.files });
  if (options.client) {
    const scope = join(folder, 'functions/node_modules/@supabase');
    mkdirSync(scope, { recursive: true });
    symlinkSync(join(REPOSITORY, 'node_modules/@supabase/supabase-js'), join(scope, 'supabase-js'));
  }
  const template = await templateDatabase('provisioned', async (url) => void (await provisionAt(url)));
  const database = await createDatabase({ template });
  const { ownerUrl, authenticatorUrl } = await provisionAt(database.url);
  const owner = new OwnerDatabase({
    address: parseAddress(ownerUrl),
    applicationName: 'svc',
    max: 4,
    idleTimeoutMs: 10_000,
  });
  const callers = new CallerPool({
    address: parseAddress(authenticatorUrl),
    applicationName: 'svc-request',
    max: 4,
    minIdle: 0,
    idleTimeoutMs: 10_000,
  });
  if (options.sql) await owner.query(raw(options.sql));
  const keys = generateApiKeys();
  const keyring = await Keyring.open(owner, { current: keys.secret, previous: [] });
  const signingKeys: SigningKeys = new SigningKeys(owner, keyring.box('signing keys'), () =>
    verifier.forget(),
  );
  const verifier: TokenVerifier = new TokenVerifier(signingKeys);
  await signingKeys.load();

  const lines: LogLine[] = [];
  let logText = '';
  const log = createLog({
    level: 'debug',
    destination: {
      write(text: string) {
        logText += text;
        lines.push(JSON.parse(text) as LogLine);
      },
    },
  });
  const functionsYaml = (functions: string): string =>
    `version: 1\nserver: { max_body_size: ${options.maxBodyBytes ?? '1MB'} }\n` +
    (options.sql ? NOTES : '') +
    `functions:\n${functions}`;
  const read = (functions: string, variables = options.variables): Config => {
    const text = functionsYaml(functions);
    const source = { name: 'svc.yaml', directory: folder, text };
    const loaded = loadConfig(source, { variables: variables ?? {} });
    if (!loaded.ok)
      throw new Error(renderMistakes(loaded.mistakes, { file: 'svc.yaml', text, color: false }));
    return loaded.config;
  };
  const initial = read(options.yaml ?? declareAll(options.files));
  const catalog = await introspect(owner, ['public']);
  let snapshot: Snapshot = { config: initial, catalog, version: 1 };
  let url = '';
  const functions = new Functions({
    publishableKey: keys.publishable,
    loopbackUrl: () => url,
    mode: options.mode ?? 'production',
    size: options.size ?? 2,
    memoryMb: options.memoryMb,
    runtime: options.runtime,
  });
  const context: FeatureContext = {
    snapshot: () => snapshot,
    callers,
    owner,
    credentials: new CredentialReader(keys, verifier),
    signingKeys,
    keyring,
    env: process.env,
    log,
    now: () => new Date(),
    baseUrl: () => undefined,
    dev: options.dev ?? false,
  };
  const readiness = new ReadinessWatch({
    phase: () => 'serving',
    primary: { check: () => Promise.resolve('writable') },
    data: { answers: () => Promise.resolve('yes'), size: { open: 0, waiting: 0 } },
    failoverWaitMs: 0,
    functionsHealthy: () => functions.healthy(),
    degraded: new Degraded(),
  });
  const app = await createApp({
    log,
    context,
    mounts: [
      { prefix: '/auth/v1', feature: auth },
      { prefix: '/rest/v1', feature: rest },
      { prefix: '/functions/v1', feature: functions.feature },
    ],
    health: {
      phase: () => 'serving',
      readiness: () => readiness.current,
    },
    cors: () => ({ origins: options.origins ?? ['*'], allowLoopback: true }),
    timeouts: () => snapshot.config.server.timeouts,
  });
  await app.server.listen({ host: '127.0.0.1', port: 0 });
  const { port } = app.server.server.address() as AddressInfo;
  url = `http://127.0.0.1:${port}`;
  let serverClosed = false;
  const closeServer = async (): Promise<void> => {
    if (serverClosed) return;
    serverClosed = true;
    await app.server.close();
  };
  const close = async (): Promise<void> => {
    await closeServer();
    await functions.stop();
    callers.destroy();
    await owner.close();
    await database.drop();
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    await functions.reload(initial);
  } catch (error) {
    await close();
    throw error;
  }
  const call = (name: string, options: CallOptions = {}): Promise<Reply> =>
    send(port, `/functions/v1/${name}`, options);
  const token = (claims: Record<string, unknown> = {}): Promise<string> => {
    const now = Math.floor(Date.now() / 1000);
    return signToken(
      {
        sub: '00000000-0000-4000-8000-000000000001',
        role: 'authenticated',
        iat: now,
        exp: now + 900,
        ...claims,
      },
      signingKeys.signing,
    );
  };
  return {
    url,
    port,
    folder,
    keys,
    functions,
    log: lines,
    logText: () => logText,
    owner,
    call,
    token,
    async occupyAllSlots(name) {
      const inFlight = (): number =>
        functions.status().workers.reduce((sum, worker) => sum + worker.inFlight, 0);
      const slots = functions.status().workers.length * 64;
      const greedy = await token({ sub: randomUUID() });
      const held = Array.from({ length: (slots * 3) / 4 }, () => call(name, { token: greedy }));
      await until('one caller has its share', () => inFlight() === held.length);
      for (let n = held.length; n < slots; n++)
        held.push(call(name, { token: await token({ sub: randomUUID() }) }));
      await until('all slots are taken', () => inFlight() === slots);
      return held;
    },
    write,
    async reload(yaml, variables) {
      const next = read(yaml, variables);
      await functions.reload(next);
      snapshot = { ...snapshot, config: next, version: snapshot.version + 1 };
    },
    socket: () => createConnection(port, '127.0.0.1'),
    closeServer,
    close,
  };
}

function declareAll(files: Readonly<Record<string, string>>): string {
  return Object.keys(files)
    .filter((path) => /^functions\/[\w-]+\.(js|mjs|cjs|ts|mts)$/.test(path))
    .map((path) => {
      const name = path.replace(/^functions\/|\.\w+$/g, '');
      return `  ${name}: { runtime: node, file: ${path} }\n`;
    })
    .join('');
}

export function send(port: number, path: string, options: CallOptions = {}): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const headers: Record<string, string | string[]> = { ...options.headers };
    if (options.token !== undefined) headers['authorization'] = `Bearer ${options.token}`;
    const method = options.method ?? (options.body === undefined ? 'GET' : 'POST');
    if (options.body !== undefined) headers['content-length'] = String(Buffer.byteLength(options.body));
    const request = httpRequest(
      { host: '127.0.0.1', port, path, method, headers, agent: false, signal: options.signal },
      (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', reject);
        response.on('end', () => {
          const bytes = Buffer.concat(chunks);
          const text = bytes.toString('utf8');
          let json: unknown;
          try {
            json = JSON.parse(text);
          } catch {
            json = undefined;
          }
          const { statusCode = 0, headers: received, rawHeaders } = response;
          resolve({ status: statusCode, headers: received, rawHeaders, bytes, text, json });
        });
      },
    );
    request.on('error', reject);
    request.end(options.body);
  });
}

/** Polls until the value is truthy. */
export async function until<T>(
  what: string,
  condition: () => T | Promise<T>,
  ms = 15_000,
): Promise<Exclude<T, undefined | null | false>> {
  const deadline = Date.now() + scaled(ms);
  for (;;) {
    const value = await condition();
    if (isYes(value)) return value;
    if (Date.now() > deadline) throw new Error(`not within ${ms} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

function isYes<T>(value: T): value is Exclude<T, undefined | null | false> {
  return Boolean(value);
}
