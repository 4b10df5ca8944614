// `svc serve --config database`: this process serves the applied row and follows later ones.
import { readModeVariables } from '../../config/read/env-file.ts';
import type { Mode } from '../../config/mode.ts';
import type { Config } from '../../config/config.ts';
import type { Log } from '../../log/log.ts';
import { silentLog } from '../../log/log.ts';
import { SERVE_POLICY } from '../../migrate/apply/policy.ts';
import { finishBackground } from '../../migrate/commands/finish-background.ts';
import type { MigrationProblem } from '../../migrate/problem.ts';
import type { DatabaseAddresses } from '../../postgres/address/database-addresses.ts';
import { OwnerDatabase } from '../../postgres/owner-database.ts';
import { Problem } from '../../problem/problem.ts';
import { provision } from '../../provision/provision.ts';
import { applyConfig } from '../../shared-config/apply-config.ts';
import { readApplied, type ConfigRow } from '../../shared-config/config-rows.ts';
import { describeStates, readStates } from '../../shared-config/instance-states.ts';
import { ConfigWatch } from '../../shared-config/config-watch.ts';
import { assertShareable, loadRow, toSource, valueMask } from '../../shared-config/shared-source.ts';
import type { Environment } from '../environment.ts';
import { CommandFailure, EXIT, failure } from '../exit.ts';
import { loadProject, type Project } from '../project/project.ts';
import type { Terminal } from '../terminal.ts';

export type RowsOptions = {
  readonly database: DatabaseAddresses;
  readonly waitMs: number;
  readonly signal: AbortSignal;
  /** File for the first row, if there is none. */
  readonly initialConfig: string | undefined;
  /** Selects the overlay of that file. */
  readonly mode: Mode;
  readonly strict: boolean | undefined;
  readonly instance: string;
};

/** The configuration rows, as one process follows them. */
export class FollowedRows {
  readonly #options: RowsOptions;
  readonly #owner: OwnerDatabase;
  #row: ConfigRow;
  #watch: ConfigWatch | undefined;
  /** Aborts long steps of saves in this process. */
  readonly #ended = new AbortController();

  private constructor(options: RowsOptions, owner: OwnerDatabase, row: ConfigRow) {
    this.#options = options;
    this.#owner = owner;
    this.#row = row;
  }

  /** Prepares the database and finds the row to serve. Throws if there is none. */
  static async open(options: RowsOptions, terminal: Terminal): Promise<FollowedRows> {
    const { database, waitMs, signal } = options;
    const { owner: role } = await provision(database, { waitMs, signal });
    const owner = new OwnerDatabase({
      address: role.direct,
      applicationName: 'svc-config',
      max: 3,
      idleTimeoutMs: 5_000,
    });
    try {
      const row = (await readApplied(owner)) ?? (await applyInitial(owner, options, terminal));
      if (row) return new FollowedRows(options, owner, row);
      throw failure(
        EXIT.badConfiguration,
        'no configuration has been applied in this database',
        'Run `svc config push svc.yaml` first, or start with --initial-config svc.yaml, ' +
          'which applies only if there is none.',
      );
    } catch (error) {
      await owner.close();
      throw error;
    }
  }

  get row(): ConfigRow {
    return this.#watch?.served ?? this.#row;
  }

  project(terminal: Terminal): Promise<Project> {
    const { strict } = this.#options;
    return loadProject({ mode: 'production', strict, source: toSource(this.#row) }, terminal);
  }

  /** Sequence number of the row to serve, which orders deployments. */
  get sequence(): number {
    return this.#row.sequence;
  }

  /** Follows the rows from now on. `reload` is the reload of a SIGHUP. */
  follow(reload: (config: Config) => Promise<void>, log: Log, onState: (reason?: string) => void): void {
    const { strict, instance } = this.#options;
    this.#watch = new ConfigWatch({
      owner: this.#owner,
      instance,
      served: this.#row,
      load: (row) => loadRow(row, { variables: this.variables(), strict }),
      apply: async (config, row) => {
        const former = this.#row;
        this.#row = row;
        try {
          await reload(config);
        } catch (error) {
          this.#row = former;
          throw error;
        }
      },
      explain: (error) => this.#explain(error),
      onState,
      log,
    });
    this.#watch.start();
  }

  /** Checks for another applied row. */
  ask(): void {
    this.#watch?.ask();
  }

  async followNewest(): Promise<void> {
    await this.#watch?.follow();
  }

  variables(): Environment {
    return readModeVariables(undefined, 'production', process.env);
  }

  /** Saves a change from the dashboard. Throws `config_conflict` if another row than `base` is applied. */
  async save(
    text: string,
    config: Config,
    base: string,
    log: Log,
  ): Promise<{ readonly id: string; readonly problems: readonly MigrationProblem[] }> {
    assertShareable(config);
    const { instance } = this.#options;
    const migration = { owner: this.#owner, instance, log, policy: SERVE_POLICY, signal: this.#ended.signal };
    const outcome = await applyConfig({ text, author: 'dashboard', base }, config, migration);
    if (outcome.kind === 'refused') return { id: base, problems: outcome.problems };
    if (outcome.kind === 'applied') {
      void finishBackground(outcome.migration, { ...migration, config });
      await this.followNewest();
    }
    return { id: outcome.row.id, problems: [] };
  }

  read(): Promise<ConfigRow | undefined> {
    return readApplied(this.#owner);
  }

  async status(id: string): Promise<string[]> {
    return describeStates(await readStates(this.#owner), id);
  }

  async close(): Promise<void> {
    this.#ended.abort();
    await this.#watch?.close();
    await this.#owner.close();
  }

  #explain(error: unknown): string {
    const text =
      error instanceof CommandFailure
        ? error.report
        : error instanceof Problem
          ? [error.message, error.details ?? ''].join(' ')
          : error instanceof Error
            ? error.message
            : String(error);
    return valueMask(this.#row.text, this.variables())(text.replace(/\s+/g, ' ').trim()).slice(0, 1_000);
  }
}

/** Applies the initial file. If several instances start with their own files, the first one wins. */
async function applyInitial(
  owner: OwnerDatabase,
  { initialConfig: file, strict, instance, mode }: RowsOptions,
  terminal: Terminal,
): Promise<ConfigRow | undefined> {
  if (file === undefined) return undefined;
  const { config } = await loadProject({ config: file, strict, mode }, terminal);
  assertShareable(config);
  const proposal = { text: config.source.text, author: 'svc serve', note: 'the first one', base: null };
  try {
    const outcome = await applyConfig(proposal, config, {
      owner,
      instance,
      log: silentLog,
      policy: SERVE_POLICY,
    });
    if (outcome.kind !== 'refused') return outcome.row;
    throw failure(
      EXIT.problem,
      `the database cannot be migrated to ${file}: ${outcome.problems.map(({ message }) => message).join('; ')}`,
    );
  } catch (error) {
    if (error instanceof Problem && error.code === 'config_conflict') return await readApplied(owner);
    throw error;
  }
}
