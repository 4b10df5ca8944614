// The sessions of a `pg` pool whose connections may lead through a pooler. Each is measured when it is opened, and
// its statements are adapted to the result.
import type pg from 'pg';
import { connecting, measured, poolConfig, type ConnectionSettings } from '../connection.ts';
import type { LinkState } from './measure-link.ts';
import { queryWithSettings, type Config } from './query-with-settings.ts';
import { settingsStatement } from './session-parameters.ts';

const DIRECT: LinkState = { verdict: 'direct', lacking: [] };

export class LinkedSessions {
  readonly #settings: ConnectionSettings;
  readonly #states = new WeakMap<pg.ClientBase, LinkState>();

  constructor(settings: ConnectionSettings) {
    this.#settings = settings;
  }

  /** The `pg.Pool` configuration with a measurement of each connection. */
  get poolConfig(): pg.PoolConfig {
    const config = poolConfig(this.#settings);
    if (this.#settings.link === undefined) return config;
    return {
      ...config,
      // Not `verify`: if a statement times out during `verify`, the pool leaks the connection.
      // oxlint-disable-next-line typescript/no-misused-promises -- The pool awaits it; its type lacks that.
      onConnect: async (client) => {
        this.#states.set(client, (await measured(client, this.#settings)) ?? DIRECT);
      },
    };
  }

  connect(pool: pg.Pool): Promise<pg.PoolClient> {
    return connecting(this.#settings, () => pool.connect());
  }

  /** Runs one statement as its own transaction. */
  async run<R extends pg.QueryResultRow>(client: pg.ClientBase, query: Config): Promise<pg.QueryResult<R>> {
    const settings = this.settingsFor(client);
    const sent = this.asSent(client, query);
    return settings === undefined
      ? await client.query<R>(sent)
      : await queryWithSettings<R>(client, settings, sent);
  }

  /** Returns the query without a name if sessions do not keep prepared statements. */
  asSent(client: pg.ClientBase, query: Config): Config {
    return query.name !== undefined && this.#sessionState(client).verdict === 'pooled'
      ? { ...query, name: undefined }
      : query;
  }

  /** Returns the statement that starts a transaction with the parameters that the session lacks. */
  settingsFor(client: pg.ClientBase): string | undefined {
    const { lacking } = this.#sessionState(client);
    return lacking.length === 0 ? undefined : settingsStatement(lacking);
  }

  /** Rejects pooled sessions: locks, LISTEN and temporary tables would leak to the next client. */
  assertOwn(client: pg.ClientBase): void {
    if (this.#sessionState(client).verdict !== 'direct')
      throw new Error('work that needs a dedicated session was started through a pooler');
  }

  #sessionState(client: pg.ClientBase): LinkState {
    return this.#states.get(client) ?? DIRECT;
  }
}
