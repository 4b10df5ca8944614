// The way to the project that is imported: why it does not get there, in the words of the page that shows the address;
// and whether the session at its end is ours for as long as the import reads.
import type pg from 'pg';
import { errorCode } from '../lib/error-code.ts';
import type { DatabaseAddress } from '../postgres/address/database-address.ts';
import { endClient, openClient } from '../postgres/connection.ts';
import { DatabaseLink } from '../postgres/link/database-link.ts';
import { isDatabaseError } from '../postgres/pg-error.ts';
import { clientInternals } from '../postgres/pg-internals.ts';
import { sql } from '../postgres/sql.ts';
import { Problem } from '../problem/problem.ts';

/** Port of the transaction pooler, both hosted and self-hosted. */
const TRANSACTION_POOLER_PORT = 6543;

const USE_SESSION_POOLER =
  'Use the connection string that Supabase shows under Connect as Session pooler (port 5432) or Direct connection.';

/**
 * Converts an error of the connection attempt. Returns a Problem unchanged if it already explains the cause.
 */
export function unreachable(address: DatabaseAddress, error: unknown): unknown {
  if (error instanceof Problem || !(error instanceof Error)) return error;
  return new Problem(
    'IMP-402',
    503,
    `The source ${address.describe()} cannot be reached: ${errorMessage(error)}`,
    {
      hint: connectionHint(address, error),
      cause: error,
    },
  );
}

/** An error that covers several addresses of one name has no message. */
const errorMessage = (error: Error): string =>
  error instanceof AggregateError
    ? error.errors.map((inner) => (inner instanceof Error ? inner.message : String(inner))).join(', ')
    : error.message;

const UNREACHABLE_CODES = new Set(['ENOTFOUND', 'EAI_AGAIN', 'ENETUNREACH', 'EHOSTUNREACH']);

function connectionHint(address: DatabaseAddress, error: Error): string {
  if (isDatabaseError(error, 'invalid_authorization_specification'))
    return (
      'Put the password of the database in place of [YOUR-PASSWORD], with characters such as @ : ' +
      '/ ? # % encoded as %40 %3A %2F %3F %23 %25. Behind a pooler the user is postgres.<project>.'
    );
  if (isDatabaseError(error, 'invalid_catalog_name')) return 'The database of a project is called postgres.';
  if (address.targets.some(({ port }) => port === TRANSACTION_POOLER_PORT))
    return `Port ${TRANSACTION_POOLER_PORT} is that of the transaction pooler. ${USE_SESSION_POOLER}`;
  if (UNREACHABLE_CODES.has(errorCode(error) ?? ''))
    return (
      'Check the name of the host. The direct address of a hosted project needs IPv6: without it, ' +
      'use the Session pooler.'
    );
  return 'Check host and port, and whether the project is running: one that is paused has to be resumed first.';
}

/** The role of the source lacks a right. */
export const readDenied = (message: string): Problem =>
  new Problem('IMP-410', 500, `The source cannot be read: ${message}`, {
    hint:
      'Connect as its role postgres, or as one that may read all of the schemas auth and storage. ' +
      'Nothing was written.',
  });

/** Throws for a transaction pooler, because an import needs one long transaction. */
export async function requireOwnSession(address: DatabaseAddress, source: pg.Client): Promise<void> {
  // A pooler has invented the process id that it sent at the start.
  if ((await readSession(source)) === clientInternals(source).processID) return;
  if (!(await lendsByTransaction(address))) return;
  throw new Problem('IMP-404', 500, `The source ${address.describe()} is behind a transaction pooler`, {
    hint: `An import reads everything in one long transaction. ${USE_SESSION_POOLER}`,
  });
}

/** Two connections that are open at once have the same session only where it is lent for a transaction. */
async function lendsByTransaction(address: DatabaseAddress): Promise<boolean> {
  const clients: pg.Client[] = [];
  const sessions: Array<number | undefined> = [];
  try {
    for (let count = 0; count < 2; count += 1) {
      const client = await openClient({ address, applicationName: 'svc-import', link: new DatabaseLink() });
      client.on('error', () => {});
      clients.push(client);
      sessions.push(await readSession(client));
    }
    return sessions[0] === sessions[1];
  } catch {
    // A session pooler may have no second connection available.
    return false;
  } finally {
    await Promise.all(clients.map(endClient));
  }
}

/** The process of the server that answers. */
async function readSession(client: pg.Client): Promise<number | undefined> {
  const { rows } = await client.query<{ pid: number }>(sql`select pg_backend_pid() as pid`.compile());
  return rows[0]?.pid;
}
