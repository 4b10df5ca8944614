// The source of a serving process's configuration: a file, or database rows that all instances share.
import { readModeVariables } from '../../config/read/env-file.ts';
import type { Source } from '../../config/read/source.ts';
import { fencePolicy } from '../../deploy/deploy-number.ts';
import { SerialQueue } from '../../lib/limits/serial-queue.ts';
import type { Log } from '../../log/log.ts';
import { SERVE_POLICY, type MigrationPolicy } from '../../migrate/apply/policy.ts';
import type { Backend } from '../../server/backend.ts';
import { IN_DATABASE } from '../config/in-database.ts';
import { FollowedRows } from '../config/rows.ts';
import { databaseWait, requireDatabase, SERVE_WAIT_MS, type Environment } from '../environment.ts';
import { loadProject, type Project } from '../project/project.ts';
import type { Terminal } from '../terminal.ts';
import { serveMode, type ServeOptions } from './serve-options.ts';

type Opened = {
  readonly options: ServeOptions;
  readonly terminal: Terminal;
  /** Name of this process in locks and in the history. */
  readonly instance: string;
  /** Ends the wait for the database of the rows. */
  readonly signal: AbortSignal;
};

export class ServedConfiguration {
  /** Undefined if the configuration is a file. */
  readonly rows: FollowedRows | undefined;
  readonly #opened: Opened;
  /** Runs one reload at a time: a slow read must not restore an older file. */
  readonly #reloads = new SerialQueue();

  private constructor(opened: Opened, rows: FollowedRows | undefined) {
    this.#opened = opened;
    this.rows = rows;
  }

  static async open(opened: Opened): Promise<ServedConfiguration> {
    const isShared = opened.options.config === IN_DATABASE;
    return new ServedConfiguration(opened, isShared ? await openRows(opened) : undefined);
  }

  /**
   * Reads the configuration. `quiet`: prints no warnings, because another process of this machine prints
   * them.
   */
  load(quiet = false): Promise<Project> {
    const { options, terminal } = this.#opened;
    const output = quiet ? { ...terminal, printError: () => {} } : terminal;
    if (this.rows) return this.rows.project(output);
    return loadProject({ ...options, mode: serveMode(options) }, output);
  }

  /** Returns the part of the migration policy that decides whether this configuration may replace the applied one. */
  fence(source: Source, env: Environment): Partial<MigrationPolicy> {
    const { deploySeq, allowRollback } = this.#opened.options;
    // The row number orders deployments. The last row that this instance served does not: another instance
    // may have applied it.
    const order = this.rows
      ? { deploySeq: this.rows.sequence, replaces: null }
      : fencePolicy(source, { deploySeq, allowRollback, env });
    return { ...SERVE_POLICY, ...order };
  }

  /**
   * Reads the configuration again and serves it. Throws if it is refused; the backend then keeps serving
   * the old one.
   */
  reload(
    backend: Backend | undefined,
    { log, quiet }: { log: Log; quiet?: boolean | undefined },
  ): Promise<void> {
    return this.#reloads.run(async () => {
      if (this.rows) return await this.rows.followNewest();
      const next = await this.load(quiet);
      await backend?.reload(next.config);
      log.info({ config: next.source, overlay: next.overlay }, 'reloaded');
    });
  }

  /** Serves each new row. Does nothing if the configuration is a file. */
  follow(backend: Backend, log: Log): void {
    this.rows?.follow(
      (next) => backend.reload(next),
      log,
      (reason) =>
        reason === undefined
          ? backend.degraded.clear('config_not_taken')
          : backend.degraded.report('config_not_taken', reason),
    );
  }

  async close(): Promise<void> {
    await this.rows?.close();
  }
}

async function openRows({ options, terminal, instance, signal }: Opened): Promise<FollowedRows> {
  const { initialConfig, strict } = options;
  const env = readModeVariables(undefined, 'production', process.env);
  return await FollowedRows.open(
    {
      database: requireDatabase(env),
      waitMs: databaseWait(env, SERVE_WAIT_MS),
      signal,
      initialConfig,
      strict,
      instance,
      mode: serveMode(options),
    },
    terminal,
  );
}
