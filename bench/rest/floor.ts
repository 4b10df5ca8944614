// Returns the same responses without svc: node:http, a few string operations and hand-written SQL on connections of
// `pg`, with settings and statement in one write. The difference is the cost of svc's layers.
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import pg from 'pg';

const url = process.env['BENCH_DATABASE_URL'];
if (!url) throw new Error('BENCH_DATABASE_URL is not set');
const claims = process.env['BENCH_CLAIMS'] ?? '{}';

type Answer = { readonly status: number; readonly body: string; readonly range?: string | undefined };
type Fields = ReadonlyArray<string | null>;
type Route = {
  readonly name: string;
  readonly text: string;
  readonly status: number;
  readonly readOnly: boolean;
  values(query: URLSearchParams, body: string): string[];
};

/** Messages that `pg` writes for a prepared statement; its type declarations omit them. */
type RawConnection = {
  readonly stream: { cork(): void; uncork(): void };
  parse(message: { name: string; text: string }): void;
  bind(message: { statement: string; values: readonly string[] }): void;
  execute(message: object): void;
  sync(): void;
};

const SETTINGS =
  `select set_config('role', 'authenticated', true), set_config('request.jwt.claims', $1, true), ` +
  `set_config('transaction_read_only', $2, true)`;

class Batch {
  readonly #prepared: Set<string>;
  readonly #route: Route;
  readonly #values: readonly string[];
  readonly #done: (error: Error | undefined, row: Fields) => void;
  #row: Fields = [];
  #error: Error | undefined;

  constructor(
    prepared: Set<string>,
    route: Route,
    values: readonly string[],
    done: (error: Error | undefined, row: Fields) => void,
  ) {
    this.#prepared = prepared;
    this.#route = route;
    this.#values = values;
    this.#done = done;
  }

  submit(connection: RawConnection): void {
    connection.stream.cork();
    this.#add(connection, 'settings', SETTINGS, [claims, this.#route.readOnly ? 'on' : 'off']);
    this.#add(connection, this.#route.name, this.#route.text, this.#values);
    connection.sync();
    connection.stream.uncork();
  }

  #add(connection: RawConnection, name: string, text: string, values: readonly string[]): void {
    if (!this.#prepared.has(name)) {
      this.#prepared.add(name);
      connection.parse({ name, text });
    }
    connection.bind({ statement: name, values });
    connection.execute({});
  }

  handleDataRow(message: { readonly fields: Fields }): void {
    this.#row = message.fields;
  }
  handleError(error: Error): void {
    this.#error = error;
  }
  handleReadyForQuery(): void {
    this.#done(this.#error, this.#row);
  }
  handleCommandComplete(): void {}
  handleEmptyQuery(): void {}
  handleRowDescription(): void {}
}

const after = (query: URLSearchParams, name: string): string => (query.get(name) ?? '').replace(/^eq\./, '');
const json = (rows: string): string => `select coalesce(json_agg(t), '[]') from (${rows}) t`;

const ROUTES = {
  W1: {
    text: json('select * from posts where id = $1'),
    values: (query) => [after(query, 'id')],
  },
  W2: {
    text: json(
      'select id, title, score, created_at from posts where author_id = $1 order by created_at desc limit 20',
    ),
    values: (query) => [after(query, 'author_id')],
  },
  W3: {
    text: json(`select id, title, (select row_to_json(u) from (select id, name from users
      where users.id = posts.author_id) u) users,
      (select coalesce(json_agg(c), '[]') from (select id, body from comments where post_id = posts.id
        order by created_at desc limit 3) c) comments
      from posts where author_id = $1 order by created_at desc limit 20`),
    values: (query) => [after(query, 'author_id')],
  },
  W4: {
    text: `insert into posts (author_id, title, body, category) select author_id, title, body, category
      from json_to_record($1::json) as t(author_id uuid, title text, body text, category int)`,
    values: (_query, body) => [body],
  },
  W5: {
    text: 'update posts set score = t.score from json_to_record($1::json) as t(score int) where id = $2',
    values: (query, body) => [body, after(query, 'id')],
  },
  W6: {
    text: json('select * from posts order by id limit 1000 offset $1'),
    values: (query) => [query.get('offset') ?? '0'],
  },
  W7: {
    text: `select coalesce(json_agg(t), '[]'), (select count(*) from posts where category = $1)
      from (select id, title from posts where category = $1 order by created_at desc limit 20) t`,
    values: (query) => [after(query, 'category')],
  },
  W8: {
    text: 'select to_json(add_up(a, b)) from json_to_record($1::json) as t(a int, b int)',
    values: (_query, body) => [body],
  },
} satisfies Record<string, Pick<Route, 'text' | 'values'>>;

const STATUS: Readonly<Record<string, number>> = { W4: 201, W5: 204 };
const routes = new Map<string, Route>(
  Object.entries(ROUTES).map(([name, route]) => [
    name,
    { ...route, name, status: STATUS[name] ?? 200, readOnly: STATUS[name] === undefined },
  ]),
);

function findRoute({ method, url: target = '' }: IncomingMessage): Route | undefined {
  if (target.startsWith('/rpc/')) return routes.get('W8');
  if (method === 'POST') return routes.get('W4');
  if (method === 'PATCH') return routes.get('W5');
  if (target.startsWith('/posts?id=')) return routes.get('W1');
  if (target.includes('comments(')) return routes.get('W3');
  if (target.includes('author_id=')) return routes.get('W2');
  return routes.get(target.includes('category=') ? 'W7' : 'W6');
}

const clients = await Promise.all(
  Array.from({ length: 20 }, async () => {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    return { client, prepared: new Set<string>() };
  }),
);
const idle = [...clients];
const waiting: Array<(connection: (typeof clients)[number]) => void> = [];

function run(route: Route, values: readonly string[]): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const start = (connection: (typeof clients)[number]): void => {
      const batch = new Batch(connection.prepared, route, values, (error, [body, count]) => {
        const next = waiting.shift();
        if (next) next(connection);
        else idle.push(connection);
        if (error) reject(error);
        else
          resolve({
            status: route.status,
            body: body ?? '',
            range: `0-19/${route.name === 'W7' ? count : '*'}`,
          });
      });
      (connection.client as unknown as { query(batch: Batch): void }).query(batch);
    };
    const connection = idle.pop();
    if (connection) start(connection);
    else waiting.push(start);
  });
}

const server = createServer((request, response) => {
  const route = findRoute(request);
  if (!route) {
    response.writeHead(404).end();
    return;
  }
  let body = '';
  request.setEncoding('utf8').on('data', (chunk: string) => (body += chunk));
  request.on('end', () => {
    const target = request.url ?? '';
    const query = new URLSearchParams(target.slice(target.indexOf('?') + 1));
    run(route, route.values(query, body)).then(
      (answer) => {
        const headers = { 'content-type': 'application/json; charset=utf-8', 'content-range': answer.range };
        const length = answer.status === 204 ? {} : { 'content-length': Buffer.byteLength(answer.body) };
        response.writeHead(answer.status, { ...headers, ...length });
        response.end(answer.body);
      },
      (error: Error) => response.writeHead(500).end(error.message),
    );
  });
});
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo;
  process.stdout.write(`${JSON.stringify({ url: `http://127.0.0.1:${port}` })}\n`);
});
process.once('SIGTERM', () => process.exit(0));
