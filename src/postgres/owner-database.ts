// The product's own access as `svc_owner`: auth, storage bookkeeping, catalog, migrations. Never on behalf of a
// caller: what a caller may see is decided by row-level security, and the owner is above it.
import pg from 'pg';
import { clientConfig, type ConnectionSettings } from './connection.ts';
import type { Sql } from './sql.ts';
import { statementName } from './statement-name.ts';

export type Row = Record<string, unknown>;

/** Something that runs SQL: the database itself, or one transaction of it. */
export interface Queryable {
  /**
   * `name` has the server keep the plan for this connection: for statements of hot paths, whose text is always the
   * same under that name.
   */
  query<R extends Row = Row>(statement: Sql, name?: string): Promise<R[]>;
}

export class OwnerDatabase implements Queryable {
  readonly #pool: pg.Pool;

  constructor(settings: ConnectionSettings & { readonly max: number; readonly idleTimeoutMs: number }) {
    this.#pool = new pg.Pool({
      ...clientConfig(settings),
      max: settings.max,
      idleTimeoutMillis: settings.idleTimeoutMs,
      // An idle pool must not keep a finished process alive.
      allowExitOnIdle: true,
    });
    // A connection that breaks while idle is replaced at its next use; the next statement reports real trouble.
    this.#pool.on('error', () => {});
  }

  async query<R extends Row = Row>(statement: Sql, name?: string): Promise<R[]> {
    const result = await this.#pool.query<R>(toQuery(statement, name));
    return result.rows;
  }

  /** The first row, or undefined. */
  async maybeOne<R extends Row = Row>(statement: Sql): Promise<R | undefined> {
    const [row] = await this.query<R>(statement);
    return row;
  }

  /** Commits when `work` returns, rolls back when it throws. */
  async transaction<T>(work: (transaction: Queryable) => Promise<T>): Promise<T> {
    const client = await this.#pool.connect();
    client.on('error', ignore);
    let broken = false;
    try {
      await client.query('begin');
      const result = await work(onClient(client));
      await client.query('commit');
      return result;
    } catch (error) {
      await client.query('rollback').catch(() => {
        broken = true;
      });
      throw error;
    } finally {
      client.off('error', ignore);
      client.release(broken);
    }
  }

  /** One session for work that needs session state: advisory locks, LISTEN, CREATE INDEX CONCURRENTLY. */
  async session<T>(work: (session: Queryable) => Promise<T>): Promise<T> {
    const client = await this.#pool.connect();
    client.on('error', ignore);
    try {
      return await work(onClient(client));
    } finally {
      // Session state must not leak to the next user of a pooled connection.
      client.release(true);
    }
  }

  async close(): Promise<void> {
    await this.#pool.end();
  }
}

/**
 * A connection that dies while it is lent rejects the statement under way, which says it; the event beside that would
 * end the process if nobody listened.
 */
function ignore(): void {}

function onClient(client: pg.PoolClient): Queryable {
  return {
    async query<R extends Row = Row>(statement: Sql, name?: string): Promise<R[]> {
      const result = await client.query<R>(toQuery(statement, name));
      return result.rows;
    },
  };
}

function toQuery(statement: Sql, name: string | undefined): pg.QueryConfig {
  const query = statement.compile();
  return name === undefined ? query : { ...query, name: ownName(name, query.text) };
}

const ownNames = new Map<string, { readonly text: string; readonly name: string }>();

/** What the text is at the server: two versions of the product may mean different statements by one name. */
function ownName(name: string, text: string): string {
  const known = ownNames.get(name);
  if (known?.text === text) return known.name;
  const made = statementName('', text);
  ownNames.set(name, { text, name: made });
  return made;
}
