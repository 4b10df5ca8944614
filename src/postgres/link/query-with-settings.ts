// A `pg` query whose batch starts with settings, for sessions that lack parameters. Both share one Sync and therefore
// one implicit transaction, so the settings end with it.
import pg from 'pg';

/** Methods that `pg` calls on a query and that its type declarations lack. */
type Handlers = {
  submit(connection: pg.Connection): Error | null;
  handleDataRow(message: unknown): void;
  handleCommandComplete(message: unknown, connection: pg.Connection): void;
};

export type Config = pg.QueryConfig & { readonly query_timeout?: number | undefined };

/** `settings` is a single statement without parameters. The query has values, or is a single statement too. */
export async function queryWithSettings<R extends pg.QueryResultRow>(
  client: pg.ClientBase,
  settings: string,
  config: Config,
): Promise<pg.QueryResult<R>> {
  // `pg` sends a query without values as plain text, so the settings can precede it.
  if ((config.values ?? []).length === 0 && config.name === undefined) {
    const results: unknown = await client.query({ ...config, text: `${settings}; ${config.text}` });
    return (Array.isArray(results) ? results.at(-1) : results) as pg.QueryResult<R>;
  }
  return await new Promise((resolve, reject) => {
    const query = new pg.Query<R>(config, (error, result) => (error ? reject(error) : resolve(result)));
    prepend(query as unknown as Handlers, settings);
    // `pg` reads the time limit from the query object.
    client.query(Object.assign(query, { query_timeout: config.query_timeout }));
  });
}

/** Forwards the messages after those of the settings to the query. */
function prepend(query: Handlers, settings: string): void {
  const own: Handlers = {
    submit: query.submit.bind(query),
    handleDataRow: query.handleDataRow.bind(query),
    handleCommandComplete: query.handleCommandComplete.bind(query),
  };
  let areSet = false;
  query.submit = (connection) => {
    connection.stream.cork();
    try {
      connection.parse({ name: '', text: settings, types: [] }, true);
      connection.bind({}, true);
      connection.execute({}, true);
      return own.submit(connection);
    } finally {
      connection.stream.uncork();
    }
  };
  query.handleDataRow = (message) => {
    if (areSet) own.handleDataRow(message);
  };
  query.handleCommandComplete = (message, connection) => {
    if (areSet) own.handleCommandComplete(message, connection);
    areSet = true;
  };
}
