// What the environment says about a start. The whole environment is a parameter: only the commands read
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

const HIGHEST_PORT = 65_535;

/** For commander: a port on the command line. */
export function parsePort(text: string): number {
  const port = Number(text);
  if (!/^\d+$/.test(text) || port > HIGHEST_PORT) {
    throw new InvalidArgumentError(`expected a number from 0 to ${HIGHEST_PORT}.`);
  }
  return port;
}

/** For commander: the number of a deployment. */
export function parseDeploySeq(text: string): number {
  const number = parseSequence(text);
  if (number === undefined) throw new InvalidArgumentError('expected a whole number.');
  return number;
}

/** `--port`, then SVC_PORT, then `server.port`. */
export function listenPort(option: number | undefined, env: Environment, config: Config): number {
  if (option !== undefined) return option;
  const text = env['SVC_PORT'];
  if (!text) return config.server.port;
  try {
    return parsePort(text);
  } catch {
    throw new Problem('bad_port', 500, `SVC_PORT is ${JSON.stringify(text)}`, {
      hint: `It must be a number from 0 to ${HIGHEST_PORT}.`,
    });
  }
}

/** `--admin`, then SVC_ADMIN_LISTEN. */
export function adminAddress(option: string | undefined, env: Environment): AdminAddress | undefined {
  const text = option ?? env['SVC_ADMIN_LISTEN'] ?? '';
  return text === '' ? undefined : parseAdminAddress(text);
}

/** SVC_ERROR_WEBHOOK; undefined where it is not set. */
export function errorWebhook(env: Environment): string | undefined {
  const text = env['SVC_ERROR_WEBHOOK'] ?? '';
  if (text === '') return undefined;
  if (/^https:\/\/\S+$|^http:\/\/(?:localhost|127\.0\.0\.1|\[::1\])[:/]\S*$/.test(text) && URL.canParse(text))
    return text;
  // It may hold a token.
  throw new Problem('bad_error_webhook', 500, 'SVC_ERROR_WEBHOOK is no https:// address', {
    hint: 'It is where errors are sent to as JSON; without https:// only programs of this machine are allowed.',
  });
}

const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'];
const LOG_FORMATS = ['json', 'pretty'];

/** SVC_LOG_LEVEL and SVC_LOG_FORMAT. `terminal` is where the log is read, if it is one. */
export function logSettings(
  env: Environment,
  byDefault: 'json' | 'pretty',
  terminal: Pick<Terminal, 'color'>,
): Pick<LogOptions, 'level' | 'pretty'> {
  const level = oneOf(env, 'SVC_LOG_LEVEL', LOG_LEVELS) ?? 'info';
  const format = oneOf(env, 'SVC_LOG_FORMAT', LOG_FORMATS) ?? byDefault;
  return { level, pretty: format === 'json' ? undefined : terminal.color ? 'coloured' : 'plain' };
}

/** SVC_SLOW_MS: from how many milliseconds on a statement is told of in the log; undefined where none is. */
export function slowMs(env: Environment, byDefault: number): number | undefined {
  const text = env['SVC_SLOW_MS'];
  if (!text) return byDefault;
  if (/^\d{1,7}$/.test(text)) return Number(text) || undefined;
  throw new Problem('bad_log_setting', 500, `SVC_SLOW_MS is ${JSON.stringify(text)}`, {
    hint: 'It is a number of milliseconds; 0 tells of no statement.',
  });
}

function oneOf(env: Environment, name: string, words: readonly string[]): string | undefined {
  const text = env[name];
  if (!text || words.includes(text)) return text || undefined;
  throw new Problem('bad_log_setting', 500, `${name} is ${JSON.stringify(text)}`, {
    hint: `It must be one of ${words.join(', ')}.`,
  });
}

const MOST_PROCESSES = 64;

/** For commander: `--processes`. */
export function parseProcesses(text: string): number | 'auto' {
  if (text === 'auto') return text;
  const count = Number(text);
  if (/^\d+$/.test(text) && count >= 1 && count <= MOST_PROCESSES) return count;
  throw new InvalidArgumentError(`expected a number from 1 to ${MOST_PROCESSES}, or auto.`);
}

/** `--processes`, then SVC_PROCESSES, then `server.processes`. */
export function processCount(
  option: number | 'auto' | undefined,
  env: Environment,
  config: {
    readonly server: Pick<Config['server'], 'processes'>;
    readonly database: { readonly pool: Pick<Config['database']['pool'], 'max'> };
  },
): number {
  const asked = option ?? fromEnvironment(env['SVC_PROCESSES']) ?? config.server.processes;
  if (process.platform === 'win32' && asked !== 1) {
    throw new Problem('one_process_only', 500, 'Several processes cannot share a port on Windows', {
      hint: 'Take server.processes out of the file, or set it to 1; several instances behind a proxy work.',
    });
  }
  if (asked !== 'auto') return asked;
  // A processor is left to PostgreSQL and the system, and each process needs connections.
  return Math.max(1, Math.min(availableParallelism() - 1, Math.floor(config.database.pool.max / 4)));
}

function fromEnvironment(text: string | undefined): number | 'auto' | undefined {
  if (!text) return undefined;
  try {
    return parseProcesses(text);
  } catch {
    throw new Problem('bad_processes', 500, `SVC_PROCESSES is ${JSON.stringify(text)}`, {
      hint: `It must be a number from 1 to ${MOST_PROCESSES}, or auto.`,
    });
  }
}

/** Both keys, checked; a start without them is refused. */
export function requireKeys(env: Environment): ApiKeys {
  const publishable = env['SVC_PUBLISHABLE_KEY'];
  const secret = env['SVC_SECRET_KEY'];
  if (!publishable || !secret) {
    const missing = ['SVC_PUBLISHABLE_KEY', 'SVC_SECRET_KEY'].filter((name) => !env[name]);
    throw failure(
      EXIT.badConfiguration,
      `${missing.join(' and ')} ${missing.length === 1 ? 'is' : 'are'} not set`,
      'Make a pair with `svc keys` and put it into the environment or .production.env.',
    );
  }
  const problems = checkApiKeys({ publishable, secret });
  if (problems.length > 0) {
    throw new CommandFailure(EXIT.badConfiguration, problems.map(renderProblem).join('\n'));
  }
  return { publishable, secret };
}

const MOST_PROXIES = 256;

/** SVC_TRUSTED_PROXIES, for platforms that know their proxies; the file wins where it has the key. */
export function trustedProxies(env: Environment, strict: boolean): readonly string[] {
  const entries = (env['SVC_TRUSTED_PROXIES'] ?? '')
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '');
  const wrong = entries.find((entry) => !isAddressEntry(entry));
  if (wrong !== undefined || entries.length > MOST_PROXIES) {
    const message =
      wrong === undefined
        ? `SVC_TRUSTED_PROXIES has more than ${MOST_PROXIES} entries`
        : `SVC_TRUSTED_PROXIES: ${JSON.stringify(wrong)} is no address`;
    throw new Problem('bad_trusted_proxies', 500, message, {
      hint: 'It is a list of addresses (192.0.2.1), ranges (10.0.0.0/8), loopback and private, with commas between.',
    });
  }
  const open = entries.find(isEverything);
  if (open !== undefined && strict) {
    throw new Problem('bad_trusted_proxies', 500, `SVC_TRUSTED_PROXIES: ${open} trusts everybody`, {
      hint: 'Any client could choose the address it is counted by. Name the addresses of your proxies.',
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
    'Set it to your PostgreSQL, for example postgres://user:password@host:5432/database. `svc dev` brings its own.',
  );
}

/** SVC_DATABASE_WAIT: how long a start waits for a database that is not there. */
export function databaseWait(env: Environment, byDefaultMs: number): number {
  const text = env['SVC_DATABASE_WAIT'];
  if (!text) return byDefaultMs;
  const ms = /^\d{1,6}$/.test(text) ? Number(text) * 1000 : parseDuration(text);
  if (ms !== undefined) return ms;
  throw new Problem('bad_database_wait', 500, `SVC_DATABASE_WAIT is ${JSON.stringify(text)}`, {
    hint: 'It is a duration, such as 30s or 2m; 0s does not wait.',
  });
}

/** A platform starts the service and its database at the same time, in any order. */
export const SERVE_WAIT_MS = 30_000;

/**
 * The address the outside world uses: SVC_BASE_URL, or the one registered with an OAuth provider. Never taken
 * from a request's Host header, which anybody can write into a mailed link.
 */
export function publicBaseUrl(env: Environment): (config: Config) => string | undefined {
  const explicit = env['SVC_BASE_URL'];
  if (explicit && !/^https?:\/\/[^/?#]+(\/[^?#]*)?$/.test(explicit)) {
    throw new Problem('bad_base_url', 500, `SVC_BASE_URL is ${JSON.stringify(explicit)}`, {
      hint: 'It looks like https://api.example.com, without a query.',
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
