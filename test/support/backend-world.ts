// A complete backend in this process, with its own database, listening on a free port.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { loadConfig } from '../../src/config/load.ts';
import { generateApiKeys, type ApiKeys } from '../../src/identity/api-key.ts';
import { Keyring } from '../../src/identity/keyring.ts';
import { SigningKeys } from '../../src/identity/signing-keys.ts';
import { signToken } from '../../src/identity/token.ts';
import type { Log } from '../../src/log/log.ts';
import { migrate } from '../../src/migrate/migrate.ts';
import { OwnerDatabase } from '../../src/postgres/owner-database.ts';
import { provisionAt } from './provision.ts';
import { startBackend, type Backend, type BackendOptions } from '../../src/server/backend.ts';
import type { DashboardOptions } from '../../src/server/mounts.ts';
import { createDatabase, templateDatabase } from './database.ts';
import { watchJobs } from './watch-jobs.ts';
import { oneAddress } from '../../src/postgres/address/database-addresses.ts';
import { parseAddress } from '../../src/postgres/address/parse-address.ts';

export type BackendWorld = {
  readonly url: string;
  /** Options to start another instance. */
  readonly options: BackendOptions;
  readonly keys: ApiKeys;
  readonly backend: Backend;
  /** Folder of svc.yaml and its files. */
  readonly directory: string;
  readonly databaseUrl: string;
  readonly owner: OwnerDatabase;
  /**
   * A token signed with the backend's own key; `exp` in ten minutes unless the claims contain another
   * time.
   */
  token(claims: Readonly<Record<string, unknown>>): Promise<string>;
  close(): Promise<void>;
};

export async function startBackendWorld(
  yaml: string,
  options: {
    log?: Log;
    env?: Record<string, string>;
    dev?: boolean;
    admin?: BackendOptions['admin'];
    dashboard?: DashboardOptions;
    baseUrl?: string;
    importPreview?: boolean;
    /** A PostgreSQL other than that of the run, by its superuser's connection string. */
    server?: string;
    /** Connection string that the backend uses. */
    through?: (url: string) => string;
    /** Files that are written next to svc.yaml, keyed by path. */
    files?: Readonly<Record<string, string>>;
    /** Prepare the database before the backend starts, and after its first migration. */
    prepare?: (url: string) => Promise<void>;
    /** Expected errors of background jobs, by the start of their message. */
    jobsMayFail?: readonly string[];
    prepareAfter?: (url: string) => Promise<void>;
    compareSchemaEveryMs?: number;
    slowMs?: number;
    /** Awaited during the first migration, to delay the start. */
    migrating?: () => Promise<void>;
  } = {},
): Promise<BackendWorld> {
  const directory = mkdtempSync(join(tmpdir(), 'svc-world-'));
  const files = Object.entries(options.files ?? {});
  for (const [path, text] of files) {
    mkdirSync(dirname(join(directory, path)), { recursive: true });
    writeFileSync(join(directory, path), text);
  }
  // With other files, svc.yaml is a file too, named by its full path as the command line would.
  const name = files.length > 0 ? join(directory, 'svc.yaml') : 'svc.yaml';
  if (files.length > 0) writeFileSync(name, yaml);
  const loaded = loadConfig({ name, directory, text: yaml }, { variables: options.env ?? {} });
  if (!loaded.ok) throw new Error(loaded.mistakes.map((mistake) => mistake.message).join('\n'));
  const { server } = options;
  const template =
    server === undefined
      ? await templateDatabase('provisioned', async (url) => {
          await provisionAt(url);
        })
      : undefined;
  const database = await createDatabase({ template, server });
  await options.prepare?.(database.url);
  const keys = generateApiKeys();
  const jobs = watchJobs();
  const log = options.log ?? jobs.log;
  const started: BackendOptions = {
    config: loaded.config,
    database: oneAddress(options.through?.(database.url) ?? database.url),
    keys,
    env: options.env ?? {},
    host: '127.0.0.1',
    port: 0,
    log,
    dev: options.dev ?? false,
    admin: options.admin,
    dashboard: options.dashboard,
    baseUrl: options.baseUrl,
    importPreview: options.importPreview,
    compareSchemaEveryMs: options.compareSchemaEveryMs,
    slowMs: options.slowMs,
    migrate: async (owner, config) => {
      await options.migrating?.();
      const outcome = await migrate({ owner, config, log });
      if (outcome.kind === 'refused')
        throw new Error(outcome.problems.map((problem) => problem.message).join('\n'));
    },
  };
  const backend = await startBackend(started);
  await options.prepareAfter?.(database.url);
  const { ownerUrl } = await provisionAt(database.url);
  const owner = new OwnerDatabase({
    address: parseAddress(ownerUrl),
    applicationName: 'test',
    max: 1,
    idleTimeoutMs: 1_000,
  });
  const keyring = await Keyring.open(owner, { current: keys.secret, previous: [] }, 'refuse');
  const signingKeys = new SigningKeys(owner, keyring.box('signing keys'));
  await signingKeys.load();
  return {
    url: backend.url,
    options: started,
    keys,
    backend,
    directory,
    databaseUrl: database.url,
    owner,
    token: async (claims) => {
      const now = Math.floor(Date.now() / 1000);
      return await signToken(
        { iat: now, exp: now + 600, aud: 'authenticated', ...claims },
        signingKeys.signing,
      );
    },
    async close() {
      const stopped = backend.stop();
      backend.skipDrainDelay();
      await stopped;
      await owner.close();
      await database.drop();
      rmSync(directory, { recursive: true, force: true });
      jobs.assertQuiet(options.jobsMayFail);
    },
  };
}
