// Opens the first connection of a start. It waits for a database that is not available yet, and explains why a login
// fails.
import { setTimeout as pause } from 'node:timers/promises';
import { formatDuration } from '../lib/duration.ts';
import type { Log } from '../log/log.ts';
import { Abort, Problem } from '../problem/problem.ts';
import type { DatabaseAddress } from '../postgres/address/database-address.ts';
import { isFinal, NoHost } from '../postgres/connect/host-failure.ts';
import { isDatabaseError } from '../postgres/pg-error.ts';

export type Patience = {
  readonly log: Log;
  /** Maximum time to wait for an unavailable database. */
  readonly waitMs: number;
  readonly signal?: AbortSignal | undefined;
};

const PAUSE_MS = 500;

export async function reachDatabase<T>(
  address: DatabaseAddress,
  connect: () => Promise<T>,
  { log, waitMs, signal }: Patience,
): Promise<T> {
  const deadline = performance.now() + waitMs;
  for (let attempt = 1; ; attempt++) {
    try {
      return await connect();
    } catch (error) {
      if (signal?.aborted) throw new Abort('shutdown');
      if (!isTemporary(error) || performance.now() + PAUSE_MS > deadline)
        throw connectionProblem(address, error);
      if (attempt === 1) {
        log.warn(
          { database: address.describe(), reasons: errorReasons(error) },
          `the database cannot be reached yet; trying for ${formatDuration(waitMs)}`,
        );
      }
      await pause(PAUSE_MS);
    }
  }
}

/** Returns the Problem that explains a failed connection. */
export function connectionProblem(address: DatabaseAddress, error: unknown): Problem {
  return isTemporary(error) ? unreachable(address, error) : loginProblem(address, error);
}

/** Returns true for failures that may be temporary: the server is down, starting, full, not found, or read-only. */
function isTemporary(error: unknown): boolean {
  if (isDatabaseError(error, 'too_many_connections')) return true;
  return !isFinal(error) && !isCertificateError(error);
}

function isCertificateError(error: unknown): boolean {
  return error instanceof Error && error.name === 'TlsFailure';
}

const errorReasons = (error: unknown): readonly string[] =>
  error instanceof NoHost ? error.reasons : [errorMessage(error)];

const errorMessage = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error);
  return error.message === '' ? ((error as NodeJS.ErrnoException).code ?? error.name) : error.message;
};

function unreachable(address: DatabaseAddress, cause: unknown): Problem {
  const reasons = errorReasons(cause);
  const reason = reasons.length === 1 ? reasons[0] : 'no host can be used';
  const isWrongKind = cause instanceof NoHost && cause.isWrongKind;
  return new Problem(
    'database_unreachable',
    503,
    `Cannot connect to the database at ${address.describe()}: ${reason}`,
    {
      cause,
      details: reasons.length === 1 ? undefined : reasons.join('\n  '),
      hint: isWrongKind
        ? 'A start needs a server that accepts writes. ' +
          `Check ${address.variable}, and which of its hosts is the primary.`
        : `Check ${address.variable}, and that the server is running and reachable from this machine.`,
    },
  );
}

/** Returns the Problem for a server that rejects the login. */
function loginProblem(address: DatabaseAddress, cause: unknown): Problem {
  if (cause instanceof Problem) return cause;
  const message = errorMessage(cause);
  return new Problem(
    'database_refused',
    500,
    `Cannot log in to the database at ${address.describe()}: ${message}`,
    { cause, hint: loginHint(address, cause) },
  );
}

function loginHint({ variable, database, user }: DatabaseAddress, cause: unknown): string {
  if (isDatabaseError(cause, 'invalid_catalog_name'))
    return `Create it as a superuser: create database "${database}"; or name another one in ${variable}.`;
  if (isDatabaseError(cause, 'invalid_password'))
    return (
      `Check the user and the password in ${variable}. ` +
      'In a password, write @ : / ? # % as %40 %3A %2F %3F %23 %25.'
    );
  if (isCertificateError(cause)) return `Check sslmode and sslrootcert in ${variable}.`;
  return `Check ${variable}, and the entries of the server's pg_hba.conf for "${user}" from this machine.`;
}
