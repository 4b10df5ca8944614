// Detects a pooler between svc and PostgreSQL, and session parameters that differ from the requested ones. One batch
// on an unused connection prepares a statement under a random name. The statement returns the process id of the
// server, its own prepared name and the parameters. A pooler sends an invented process id at the start; a transparent
// proxy does not.
import { randomUUID } from 'node:crypto';
import type pg from 'pg';
import { clientInternals } from '../pg-internals.ts';
import { quoteLiteral } from '../sql.ts';
import { CLIENT_CHECK, missingParameters, type SessionParameters } from './session-parameters.ts';

export type Verdict = 'direct' | 'pooled' | 'pooled, tracks names';

export type LinkState = {
  readonly verdict: Verdict;
  /** Requested parameters that the session lacks. Each batch sets them. */
  readonly lacking: SessionParameters;
};

/** Properties that the server reports. */
export type Findings = {
  readonly pid: number;
  /** Names under which the server knows the running statement. */
  readonly names: readonly string[];
  /** Settings keyed by lower-case name. */
  readonly settings: Readonly<Record<string, string>>;
  readonly onWindows: boolean;
};

/** `pid` and `name` are ours: of the connection's start, and that of the statement. */
export function linkState(
  findings: Findings,
  ours: { readonly pid: number; readonly name: string },
  parameters: SessionParameters,
): LinkState {
  const lacking = missingParameters(parameters, findings.settings);
  return {
    verdict: decideVerdict(findings, ours),
    lacking: findings.onWindows ? lacking.filter(([name]) => name !== CLIENT_CHECK) : lacking,
  };
}

function decideVerdict(
  { pid, names }: Findings,
  ours: { readonly pid: number; readonly name: string },
): Verdict {
  if (pid === ours.pid) return 'direct';
  const [name] = names;
  return name === undefined || name === ours.name ? 'pooled' : 'pooled, tracks names';
}

/** Closes the connection if there is no response within `withinMs`. */
export async function measureLink(
  client: pg.ClientBase,
  parameters: SessionParameters,
  withinMs: number,
): Promise<LinkState> {
  const name = `svc_${randomUUID()}`;
  const experiment = new Experiment(name, question(name, parameters));
  const { processID: pid, connection } = clientInternals(client);
  const silent = setTimeout(() => connection.stream.destroy(), withinMs);
  try {
    client.query(experiment);
    return linkState(await experiment.findings, { pid, name }, parameters);
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
 * Prepares, runs and closes one statement under one Sync, so that a shared session keeps none of it. Implements the
 * methods that `pg` calls on a query.
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
