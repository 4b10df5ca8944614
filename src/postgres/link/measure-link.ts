// Finds out by experiment what stands between us and PostgreSQL, and whether the session is as it was asked for. One
// batch on a connection that nobody else has used: a statement is prepared under a random name and asks the server who
// it is, under which name it knows this very statement, and how its parameters are set. Whatever hands out sessions of
// its own (a pooler) has invented the process id that it sent us at the start; a proxy that passes bytes on has not.
import { randomUUID } from 'node:crypto';
import type pg from 'pg';
import { internalsOf } from '../pg-internals.ts';
import { quoteLiteral } from '../sql.ts';
import { CLIENT_CHECK, lackingOf, type SessionParameters } from './session-parameters.ts';

export type Verdict = 'direct' | 'pooled' | 'pooled, tracks names';

export type LinkState = {
  readonly verdict: Verdict;
  /** What the session was asked for and does not have: to be set in each batch. */
  readonly lacking: SessionParameters;
};

/** What the server says of itself. */
export type Findings = {
  readonly pid: number;
  /** Under which it knows the statement that asks. */
  readonly names: readonly string[];
  /** By name in lower case. */
  readonly settings: Readonly<Record<string, string>>;
  readonly onWindows: boolean;
};

/** `pid` and `name` are ours: of the connection's start, and that of the statement. */
export function stateOf(
  findings: Findings,
  ours: { readonly pid: number; readonly name: string },
  parameters: SessionParameters,
): LinkState {
  const lacking = lackingOf(parameters, findings.settings);
  return {
    verdict: verdictOf(findings, ours),
    lacking: findings.onWindows ? lacking.filter(([name]) => name !== CLIENT_CHECK) : lacking,
  };
}

function verdictOf({ pid, names }: Findings, ours: { readonly pid: number; readonly name: string }): Verdict {
  if (pid === ours.pid) return 'direct';
  const [name] = names;
  return name === undefined || name === ours.name ? 'pooled' : 'pooled, tracks names';
}

/** The connection ends if there is no answer within `withinMs`. */
export async function measureLink(
  client: pg.ClientBase,
  parameters: SessionParameters,
  withinMs: number,
): Promise<LinkState> {
  const name = `svc_${randomUUID()}`;
  const experiment = new Experiment(name, question(name, parameters));
  const { processID: pid, connection } = internalsOf(client);
  const silent = setTimeout(() => connection.stream.destroy(), withinMs);
  try {
    client.query(experiment);
    return stateOf(await experiment.findings, { pid, name }, parameters);
  } finally {
    clearTimeout(silent);
  }
}

function question(name: string, parameters: SessionParameters): string {
  const names = parameters.map(([parameter]) => quoteLiteral(parameter)).join(', ');
  return `select json_build_object('pid', pg_backend_pid(),
    'names', (select coalesce(json_agg(name), '[]') from pg_prepared_statements
      where position(${quoteLiteral(name)} in statement) > 0),
    'settings', (select coalesce(json_object_agg(lower(name), setting), '{}') from pg_settings
      where lower(name) in (${names})),
    'onWindows', version() ~* 'mingw|visual c')`;
}

/**
 * Prepares, runs and closes one statement under one Sync, so that nothing of it stays on a session that others get
 * next. The methods are those that `pg` calls on a query.
 */
class Experiment implements pg.Submittable {
  readonly #name: string;
  readonly #text: string;
  readonly #done = Promise.withResolvers<Findings>();
  #row: string | null = null;

  constructor(name: string, text: string) {
    this.#name = name;
    this.#text = text;
  }

  get findings(): Promise<Findings> {
    return this.#done.promise;
  }

  submit(connection: pg.Connection): void {
    const { stream } = connection;
    stream.cork();
    connection.parse({ name: this.#name, text: this.#text, types: [] }, true);
    connection.bind({ statement: this.#name }, true);
    connection.execute({}, true);
    connection.close({ type: 'S', name: this.#name }, true);
    connection.sync();
    stream.uncork();
  }

  handleDataRow({ fields }: { readonly fields: ReadonlyArray<string | null> }): void {
    this.#row = fields[0] ?? null;
  }

  handleCommandComplete(): void {}

  handleReadyForQuery(): void {
    this.#done.resolve(JSON.parse(this.#row ?? '{}') as Findings);
  }

  handleError(error: Error): void {
    this.#done.reject(error);
  }
}
