// A complete configuration for worlds without a file; each overrides only what it varies.
import type { AuthConfig, Config } from '../../src/config/config.ts';

type ServerSettings = Config['server'];

export type ConfigOverrides = Partial<Omit<Config, 'server' | 'providers' | 'auth' | 'migrations'>> & {
  /** Undefined means the default, so that a world can pass its own options on. */
  readonly server?: {
    readonly [Key in Exclude<keyof ServerSettings, 'timeouts'>]?: ServerSettings[Key] | undefined;
  } & {
    readonly timeouts?: { readonly [Key in keyof ServerSettings['timeouts']]?: number | undefined };
  };
  readonly providers?: Partial<Config['providers']>;
  readonly auth?: Partial<AuthConfig>;
  readonly migrations?: Partial<Config['migrations']>;
};

const SERVER = {
  port: 0,
  processes: 1 as const,
  maxBodyBytes: 1024 * 1024,
  maxResponseBytes: 100 * 1024 * 1024,
  maxInFlight: 1_000,
  responseBudgetBytes: 256 * 1024 * 1024,
  maxLimit: 100,
  cors: { origins: [] },
  trustedProxies: undefined,
  listenEarly: true,
};
const TIMEOUTS = {
  requestMs: 30_000,
  dbQueryMs: 10_000,
  uploadMs: 300_000,
  headerMs: 15_000,
  bodyIdleMs: 10_000,
  responseIdleMs: 10_000,
  drainDelayMs: 0,
  shutdownMs: 1_000,
};

export function aConfig(overrides: ConfigOverrides = {}): Config {
  const { server: { timeouts = {}, ...server } = {}, providers, auth, migrations, ...rest } = overrides;
  return {
    expose: { relations: [], routines: [] },
    project: { name: 'test', description: undefined, cloudProjectId: undefined },
    database: {
      pool: { max: 4, owner: 8, min: 0, idleTimeoutMs: 10_000, queue: 1_000 },
      failoverWaitMs: 5_000,
      replicas: { reads: 'fresh', maxStalenessMs: 1_000, waitMs: 20, withoutPrimary: 'serve' },
    },
    server: { ...SERVER, ...defined(server), timeouts: { ...TIMEOUTS, ...defined(timeouts) } },
    providers: { email: undefined, storage: { type: 'local', path: '.svc/storage' }, ...providers },
    auth: {
      jwtExpirySeconds: 900,
      refreshTokenExpirySeconds: 7 * 86_400,
      allowSignup: true,
      allowAnonymous: true,
      redirectUrls: [],
      sessions: { revocation: 'immediate' },
      email: undefined,
      oauth: [],
      triggers: [],
      ...auth,
    },
    types: [],
    sequences: [],
    statements: [],
    extensions: [],
    tables: [],
    views: [],
    storage: [],
    realtime: {
      enabled: true,
      privateOnly: false,
      source: 'wal',
      retentionMs: 3 * 86_400_000,
      rls: [],
      limits: {
        connections: 10_000,
        channels: 100,
        joins: 100,
        messages: 20,
        presence: 20,
        payload: 3 * 1024 ** 2,
        change: 1024 ** 2,
      },
    },
    rpc: [],
    functions: [],
    functionsBundle: undefined,
    schedules: [],
    seed: [],
    migrations: {
      drop: 'retire',
      pruneAfterMs: 0,
      lockTimeoutMs: 1_000,
      lockBudgetMs: 1_000,
      bootBudgetMs: 1_000,
      maxWriteBlockMs: 1_000,
      steps: [],
      ...migrations,
    },
    source: { name: 'svc.yaml', directory: undefined, text: '' },
    ...rest,
  };
}

type Defined<Options> = { [Key in keyof Options]?: Exclude<Options[Key], undefined> };

function defined<Options extends object>(options: Options): Defined<Options> {
  return Object.fromEntries(
    Object.entries(options).filter(([, value]) => value !== undefined),
  ) as Defined<Options>;
}
