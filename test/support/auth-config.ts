// A complete configuration for tests and benchmarks of auth, with what they vary.
import type { AuthConfig, Config, EmailProvider } from '../../src/config/config.ts';

export type ConfigOptions = {
  readonly auth?: Partial<AuthConfig> | undefined;
  /** `catch` (default) keeps mail readable; `none` is a service without a provider. */
  readonly mail?: 'catch' | 'none' | EmailProvider | undefined;
  readonly verifyEmail?: boolean | undefined;
  readonly maxBodyBytes?: number | undefined;
  readonly corsOrigins?: readonly string[] | undefined;
};

export function makeConfig(options: ConfigOptions): Config {
  const { mail } = options;
  return {
    expose: { relations: [], routines: [] },
    project: { name: 'Test', description: undefined, cloudProjectId: undefined },
    database: { pool: { max: 4, min: 0, idleTimeoutMs: 10_000 } },
    server: {
      port: 0,
      maxBodyBytes: options.maxBodyBytes ?? 1024 * 1024,
      maxLimit: 100,
      cors: { origins: options.corsOrigins ?? [] },
      s3Endpoint: false,
      timeouts: { requestMs: 30_000, dbQueryMs: 10_000, uploadMs: 300_000, shutdownMs: 1_000 },
    },
    providers: {
      email: typeof mail === 'object' ? mail : undefined,
      storage: { type: 'local', path: undefined },
    },
    auth: {
      jwtExpirySeconds: 900,
      refreshTokenExpirySeconds: 7 * 86_400,
      allowSignup: true,
      allowAnonymous: true,
      redirectUrls: [],
      email: { verifyEmail: options.verifyEmail ?? false, templates: [] },
      oauth: [],
      ...options.auth,
    },
    tables: [],
    storage: [],
    rpc: [],
    functions: [],
    functionsBundle: undefined,
    migrations: {
      drop: 'retire',
      pruneAfterMs: 0,
      lockTimeoutMs: 1_000,
      lockBudgetMs: 1_000,
      bootBudgetMs: 1_000,
      maxWriteBlockMs: 1_000,
    },
    source: { name: 'svc.yaml', directory: undefined, text: '' },
  };
}
