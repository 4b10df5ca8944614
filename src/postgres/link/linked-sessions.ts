// The sessions of a pool of `pg` whose way to the database may lead through a pooler: each is measured when it is
// opened, and its statements are sent as that allows.
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

  /** What the pool is given for its connections. */
  get poolConfig(): pg.PoolConfig {
    const config = poolConfig(this.#settings);
    if (this.#settings.link === undefined) return config;
    return {
      ...config,
      // Not `verify`: if a statement gives up waiting in the midst of that, the pool forgets the connection for ever.
      // oxlint-disable-next-line typescript/no-misused-promises -- The pool waits for it; its type does not say so.
      onConnect: async (client) => {
        this.#states.set(client, (await measured(client, this.#settings)) ?? DIRECT);
      },
    };
  }

  connect(pool: pg.Pool): Promise<pg.PoolClient> {
    return connecting(this.#settings, () => pool.connect());
  }

  /** A statement that is a transaction of its own. */
  async run<R extends pg.QueryResultRow>(client: pg.ClientBase, query: Config): Promise<pg.QueryResult<R>> {
    const settings = this.settingsFor(client);
    const sent = this.asSent(client, query);
    return settings === undefined
      ? await client.query<R>(sent)
      : await queryWithSettings<R>(client, settings, sent);
  }

  /** Without a name where sessions do not keep it. */
  asSent(client: pg.ClientBase, query: Config): Config {
    return query.name !== undefined && this.#stateOf(client).verdict === 'pooled'
      ? { ...query, name: undefined }
      : query;
  }

  /** The statement at the head of a transaction that gives the session what it lacks. */
  settingsFor(client: pg.ClientBase): string | undefined {
    const { lacking } = this.#stateOf(client);
    return lacking.length === 0 ? undefined : settingsStatement(lacking);
  }

  /** Locks, LISTEN and temporary tables would be left to whoever gets the session next. */
  assertOwn(client: pg.ClientBase): void {
    if (this.#stateOf(client).verdict !== 'direct')
      throw new Error('work that needs a session of its own was started through a pooler');
  }

  #stateOf(client: pg.ClientBase): LinkState {
    return this.#states.get(client) ?? DIRECT;
  }
}
