// Detects a transaction pooler, which may run each transaction on another session. Locks, notifications, migrations and
// deadlines need one session: a lock taken on one could never be released on another.
import type pg from 'pg';
import { Problem } from '../problem/problem.ts';

const ROUNDS = 3;

/** `client` is connected; `open` opens another one to the same address. */
export async function assertOwnSession(client: pg.Client, open: () => Promise<pg.Client>): Promise<void> {
  // A pooler invents the process id that it sends at the start.
  if ((await backendOf(client)) === processOf(client)) return;
  const other = await open();
  try {
    for (let round = 0; round < ROUNDS; round++) {
      const before = await backendOf(client);
      // Occupies a free session: the one we have just used, if a pooler lent it to us.
      await other.query('begin');
      await backendOf(other);
      const after = await backendOf(client);
      await other.query('rollback');
      if (before !== after)
        throw pooled(
          'SVC_DATABASE_URL leads to a pooler that shares sessions between transactions',
          'Migrations, notifications and locks need sessions of their own: set SVC_DATABASE_URL to PostgreSQL itself. Each instance opens database.pool.max connections and a few of its own.',
        );
    }
  } finally {
    await other.end().catch(() => {});
  }
}

/** SVC_DATABASE_URL has to lead to PostgreSQL itself. */
export function pooled(message: string, hint: string, cause?: unknown): Problem {
  return new Problem('pooled_database', 500, message, { hint, cause });
}

async function backendOf(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
  return rows[0]?.pid ?? 0;
}

/** What the server said when the connection was opened; not in `pg`'s type declarations. */
function processOf(client: pg.Client): number {
  return (client as unknown as { readonly processID: number }).processID;
}
