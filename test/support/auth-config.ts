// A complete auth configuration for tests and benchmarks, with the settings they vary.
import type { AuthConfig, Config, EmailProvider } from '../../src/config/config.ts';
import { aConfig } from './config.ts';

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
  return aConfig({
    project: { name: 'Test', description: undefined, cloudProjectId: undefined },
    server: {
      maxBodyBytes: options.maxBodyBytes,
      cors: options.corsOrigins && { origins: options.corsOrigins },
    },
    providers: { email: typeof mail === 'object' ? mail : undefined },
    auth: { email: { verifyEmail: options.verifyEmail ?? false, templates: [] }, ...options.auth },
  });
}
