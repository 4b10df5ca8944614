// The first connection of a start: waits for a database that is not there yet, and says what is wrong with one that
// cannot be entered.
import { setTimeout as pause } from 'node:timers/promises';
import { formatDuration } from '../lib/duration.ts';
import type { Log } from '../log/log.ts';
import { Abort, Problem } from '../problem/problem.ts';
import type { DatabaseAddress } from '../postgres/address/database-address.ts';
import { isFinal, NoHost } from '../postgres/connect/host-failure.ts';
import { isDatabaseError } from '../postgres/pg-error.ts';

export type Patience = {
  readonly log: Log;
  /** How long a database that is not there is waited for. */
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
      if (!isNotThere(error) || performance.now() + PAUSE_MS > deadline) throw notReached(address, error);
      if (attempt === 1) {
        log.warn(
          { database: address.describe(), reasons: reasonsOf(error) },
          `the database cannot be reached yet; trying for ${formatDuration(waitMs)}`,
        );
      }
      await pause(PAUSE_MS);
    }
  }
}

/** Why a database could not be entered, of the error that says so. */
export function notReached(address: DatabaseAddress, error: unknown): Problem {
  return isNotThere(error) ? unreachable(address, error) : loginProblem(address, error);
}

/** It may come: down, starting, full, not found, or nothing there that takes writes. */
function isNotThere(error: unknown): boolean {
  if (isDatabaseError(error, 'too_many_connections')) return true;
  return !isFinal(error) && !isCertificateError(error);
}

function isCertificateError(error: unknown): boolean {
  return error instanceof Error && error.name === 'TlsFailure';
}

const reasonsOf = (error: unknown): readonly string[] =>
  error instanceof NoHost ? error.reasons : [messageOf(error)];

const messageOf = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error);
  return error.message === '' ? ((error as NodeJS.ErrnoException).code ?? error.name) : error.message;
};

function unreachable(address: DatabaseAddress, cause: unknown): Problem {
  const reasons = reasonsOf(cause);
  const isWrongKind = cause instanceof NoHost && cause.isWrongKind;
  return new Problem(
    'database_unreachable',
    503,
    `Cannot connect to the database at ${address.describe()}: ${reasons.length === 1 ? reasons[0] : 'no host can be used'}`,
    {
      cause,
      details: reasons.length === 1 ? undefined : reasons.join('\n  '),
      hint: isWrongKind
        ? `A start needs a server that takes writes. Check ${address.variable}, and which of its hosts is the primary.`
        : `Check ${address.variable}, and that the server is running and reachable from here.`,
    },
  );
}

/** The server is there and does not let us in. */
function loginProblem(address: DatabaseAddress, cause: unknown): Problem {
  if (cause instanceof Problem) return cause;
  const message = messageOf(cause);
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
    return `Check the user and the password in ${variable}; in a password @ : / ? # % are written %40 %3A %2F %3F %23 %25.`;
  if (isCertificateError(cause)) return `Check sslmode and sslrootcert in ${variable}.`;
  return `Check ${variable}, and what the server's pg_hba.conf says about "${user}" from this machine.`;
}
