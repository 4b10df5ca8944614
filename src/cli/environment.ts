// Reads the settings of a start from the environment. The environment is a parameter: only the commands read
// process.env.
import { availableParallelism } from 'node:os';
import { InvalidArgumentError } from 'commander';
import type { Config } from '../config/config.ts';
import { isAddressEntry, isEverything } from '../lib/ip-address.ts';
import { checkApiKeys, type ApiKeys } from '../identity/api-key.ts';
import { parseSequence } from '../deploy/deploy-number.ts';
import { databaseAddresses, type DatabaseAddresses } from '../postgres/address/database-addresses.ts';
import { parseDuration } from '../lib/duration.ts';
import { Problem } from '../problem/problem.ts';
import { type AdminAddress, parseAdminAddress } from '../server/health/admin-address.ts';
import type { LogOptions } from '../log/log.ts';
import type { Terminal } from './terminal.ts';
import { CommandFailure, EXIT, failure, renderProblem } from './exit.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

const MAX_PORT = 65_535;

/** Parses a port option for commander. */
export function parsePort(text: string): number {
  const port = Number(text);
  if (!/^\d+$/.test(text) || port > MAX_PORT) {
    throw new InvalidArgumentError(`expected a number from 0 to ${MAX_PORT}.`);
  }
  return port;
}

/** Parses the number of a deployment for commander. */
export function parseDeploySeq(text: string): number {
  const number = parseSequence(text);
  if (number === undefined) throw new InvalidArgumentError('expected a whole number.');
  return number;
}

/** Returns the port from `--port`, else SVC_PORT, else `server.port`. */
export function listenPort(option: number | undefined, env: Environment, config: Config): number {
  if (option !== undefined) return option;
  const text = env['SVC_PORT'];
  if (!text) return config.server.port;
  try {
    return parsePort(text);
  } catch {
    throw new Problem('bad_port', 500, `SVC_PORT is ${JSON.stringify(text)}`, {
      hint: `It must be a number from 0 to ${MAX_PORT}.`,
    });
  }
}

/** Returns the address from `--admin`, else SVC_ADMIN_LISTEN. */
export function adminAddress(option: string | undefined, env: Environment): AdminAddress | undefined {
  const text = option ?? env['SVC_ADMIN_LISTEN'] ?? '';
  return text === '' ? undefined : parseAdminAddress(text);
}

/** Returns SVC_ERROR_WEBHOOK, or undefined if it is not set. */
export function errorWebhook(env: Environment): string | undefined {
  const text = env['SVC_ERROR_WEBHOOK'] ?? '';
  if (text === '') return undefined;
  if (/^https:\/\/\S+$|^http:\/\/(?:localhost|127\.0\.0\.1|\[::1\])[:/]\S*$/.test(text) && URL.canParse(text))
    return text;
  // The message does not contain the URL, because it may contain a token.
  throw new Problem('bad_error_webhook', 500, 'SVC_ERROR_WEBHOOK is not an https:// URL', {
    hint: 'svc sends errors to it as JSON. Without https:// the URL must be a loopback URL.',
  });
}

const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'];
const LOG_FORMATS = ['json', 'pretty'];

/** Reads SVC_LOG_LEVEL and SVC_LOG_FORMAT. `terminal`: the output of the log. */
export function logSettings(
  env: Environment,
  byDefault: 'json' | 'pretty',
  terminal: Pick<Terminal, 'color'>,
): Pick<LogOptions, 'level' | 'pretty'> {
  const level = readChoice(env, 'SVC_LOG_LEVEL', LOG_LEVELS) ?? 'info';
  const format = readChoice(env, 'SVC_LOG_FORMAT', LOG_FORMATS) ?? byDefault;
  return { level, pretty: format === 'json' ? undefined : terminal.color ? 'coloured' : 'plain' };
}

/** Reads SVC_SLOW_MS: minimum duration of a logged statement, in milliseconds. Undefined: none are logged. */
export function slowMs(env: Environment, byDefault: number): number | undefined {
  const text = env['SVC_SLOW_MS'];
  if (!text) return byDefault;
  if (/^\d{1,7}$/.test(text)) return Number(text) || undefined;
  throw new Problem('bad_log_setting', 500, `SVC_SLOW_MS is ${JSON.stringify(text)}`, {
    hint: 'Use a number of milliseconds, or 0 to log no statements.',
  });
}

function readChoice(env: Environment, name: string, words: readonly string[]): string | undefined {
  const text = env[name];
  if (!text || words.includes(text)) return text || undefined;
  throw new Problem('bad_log_setting', 500, `${name} is ${JSON.stringify(text)}`, {
    hint: `It must be one of ${words.join(', ')}.`,
  });
}

const MAX_PROCESSES = 64;

/** Parses `--processes` for commander. */
export function parseProcesses(text: string): number | 'auto' {
  if (text === 'auto') return text;
  const count = Number(text);
  if (/^\d+$/.test(text) && count >= 1 && count <= MAX_PROCESSES) return count;
  throw new InvalidArgumentError(`expected a number from 1 to ${MAX_PROCESSES}, or auto.`);
}

/** Returns the number from `--processes`, else SVC_PROCESSES, else `server.processes`. */
export function processCount(
  option: number | 'auto' | undefined,
  env: Environment,
  config: {
    readonly server: Pick<Config['server'], 'processes'>;
    readonly database: { readonly pool: Pick<Config['database']['pool'], 'max'> };
  },
): number {
  const requested = option ?? fromEnvironment(env['SVC_PROCESSES']) ?? config.server.processes;
  if (process.platform === 'win32' && requested !== 1) {
    throw new Problem('one_process_only', 500, 'Several processes cannot share a port on Windows', {
      hint: 'Remove server.processes from the file, or set it to 1. Run several instances behind a proxy instead.',
    });
  }
  if (requested !== 'auto') return requested;
  // Leaves one CPU to PostgreSQL and the system. Each process also needs connections.
  return Math.max(1, Math.min(availableParallelism() - 1, Math.floor(config.database.pool.max / 4)));
}

function fromEnvironment(text: string | undefined): number | 'auto' | undefined {
  if (!text) return undefined;
  try {
    return parseProcesses(text);
  } catch {
    throw new Problem('bad_processes', 500, `SVC_PROCESSES is ${JSON.stringify(text)}`, {
      hint: `It must be a number from 1 to ${MAX_PROCESSES}, or auto.`,
    });
  }
}

/** Returns both keys. Throws if one is missing or invalid. */
export function requireKeys(env: Environment): ApiKeys {
  const publishable = env['SVC_PUBLISHABLE_KEY'];
  const secret = env['SVC_SECRET_KEY'];
  if (!publishable || !secret) {
    const missing = ['SVC_PUBLISHABLE_KEY', 'SVC_SECRET_KEY'].filter((name) => !env[name]);
    throw failure(
      EXIT.badConfiguration,
      `${missing.join(' and ')} ${missing.length === 1 ? 'is' : 'are'} not set`,
      'Create a pair with `svc keys` and put it into the environment or .production.env.',
    );
  }
  const problems = checkApiKeys({ publishable, secret });
  if (problems.length > 0) {
    throw new CommandFailure(EXIT.badConfiguration, problems.map(renderProblem).join('\n'));
  }
  return { publishable, secret };
}

const MAX_PROXIES = 256;

/**
 * Reads SVC_TRUSTED_PROXIES, for platforms that know their proxies. `server.trusted_proxies` takes
 * precedence.
 */
export function trustedProxies(env: Environment, strict: boolean): readonly string[] {
  const entries = (env['SVC_TRUSTED_PROXIES'] ?? '')
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '');
  const wrong = entries.find((entry) => !isAddressEntry(entry));
  if (wrong !== undefined || entries.length > MAX_PROXIES) {
    const message =
      wrong === undefined
        ? `SVC_TRUSTED_PROXIES has more than ${MAX_PROXIES} entries`
        : `SVC_TRUSTED_PROXIES: ${JSON.stringify(wrong)} is not an address`;
    throw new Problem('bad_trusted_proxies', 500, message, {
      hint: 'Use a comma-separated list of addresses (192.0.2.1), ranges (10.0.0.0/8), loopback and private.',
    });
  }
  const open = entries.find(isEverything);
  if (open !== undefined && strict) {
    throw new Problem('bad_trusted_proxies', 500, `SVC_TRUSTED_PROXIES: ${open} trusts all clients`, {
      hint: 'Any client could choose its own address. List the addresses of your proxies.',
    });
  }
  return entries;
}

export function requireDatabase(env: Environment): DatabaseAddresses {
  const addresses = databaseAddresses(env);
  if (addresses) return addresses;
  throw failure(
    EXIT.badConfiguration,
    'SVC_DATABASE_URL is not set',
    'Set it to your PostgreSQL, for example postgres://user:password@host:5432/database. ' +
      'Only `svc dev` has an embedded one.',
  );
}

/** Reads SVC_DATABASE_WAIT: how long a start waits for a database that does not respond. */
export function databaseWait(env: Environment, byDefaultMs: number): number {
  const text = env['SVC_DATABASE_WAIT'];
  if (!text) return byDefaultMs;
  const ms = /^\d{1,6}$/.test(text) ? Number(text) * 1000 : parseDuration(text);
  if (ms !== undefined) return ms;
  throw new Problem('bad_database_wait', 500, `SVC_DATABASE_WAIT is ${JSON.stringify(text)}`, {
    hint: 'Use a duration, such as 30s or 2m, or 0s to not wait.',
  });
}

/** Default wait. A platform may start the service and its database at the same time, in any order. */
export const SERVE_WAIT_MS = 30_000;

/**
 * Returns the public URL: SVC_BASE_URL, or the URL registered with an OAuth provider. Never uses the Host
 * header of a
 * request, because any client could put another host into a mailed link.
 */
export function publicBaseUrl(env: Environment): (config: Config) => string | undefined {
  const explicit = env['SVC_BASE_URL'];
  if (explicit && !/^https?:\/\/[^/?#]+(\/[^?#]*)?$/.test(explicit)) {
    throw new Problem('bad_base_url', 500, `SVC_BASE_URL is ${JSON.stringify(explicit)}`, {
      hint: 'Use a URL such as https://api.example.com, without a query.',
    });
  }
  return (config) => {
    if (explicit) return explicit.replace(/\/+$/, '');
    for (const provider of config.auth.oauth) {
      const at = provider.redirectUrl?.indexOf('/auth/v1/callback/') ?? -1;
      if (provider.redirectUrl && at > 0) return provider.redirectUrl.slice(0, at);
    }
    return undefined;
  };
}
