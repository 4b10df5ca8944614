// A query of `pg` whose batch begins with settings, for sessions that lack their parameters: both are under one Sync, so
// they are one implicit transaction, and the settings end with it.
import pg from 'pg';

/** The methods that `pg` calls on a query; not in its type declarations. */
type Handlers = {
  submit(connection: pg.Connection): Error | null;
  handleDataRow(message: unknown): void;
  handleCommandComplete(message: unknown, connection: pg.Connection): void;
};

export type Config = pg.QueryConfig & { readonly query_timeout?: number | undefined };

/** `settings` is one statement without parameters, and the query has values or is one statement too. */
export async function queryWithSettings<R extends pg.QueryResultRow>(
  client: pg.ClientBase,
  settings: string,
  config: Config,
): Promise<pg.QueryResult<R>> {
  // Without values `pg` sends the text as it is; then the settings can stand before it.
  if ((config.values ?? []).length === 0 && config.name === undefined) {
    const results: unknown = await client.query({ ...config, text: `${settings}; ${config.text}` });
    return (Array.isArray(results) ? results.at(-1) : results) as pg.QueryResult<R>;
  }
  return await new Promise((resolve, reject) => {
    const query = new pg.Query<R>(config, (error, result) => (error ? reject(error) : resolve(result)));
    prepend(query as unknown as Handlers, settings);
    // `pg` looks for the time limit on the query itself.
    client.query(Object.assign(query, { query_timeout: config.query_timeout }));
  });
}

/** Lets the query have the messages that follow those about the settings. */
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
