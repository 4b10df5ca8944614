// The log of a serving process and its readers: the dashboard and an error collector.
import { packageVersion } from '../../lib/package-files.ts';
import { ErrorReports } from '../../log/error-reports.ts';
import { createLog, type Log } from '../../log/log.ts';
import { RecentLines } from '../../log/recent-lines.ts';
import type { ParentLink } from '../../supervisor/parent-link.ts';
import { errorWebhook, logSettings, type Environment } from '../environment.ts';
import { EXIT } from '../exit.ts';
import type { Terminal } from '../terminal.ts';

export type ServeLog = {
  readonly log: Log;
  /** Recent lines for the dashboard, of this process or of all processes of the machine. */
  readonly recentLines: RecentLines | ParentLink;
  readonly errorReports: ErrorReports | undefined;
};

type LogOptions = {
  readonly env: Environment;
  readonly terminal: Terminal;
  readonly parent: ParentLink | undefined;
  readonly hasDashboard: boolean;
};

export function createServeLog({ env, terminal, parent, hasDashboard }: LogOptions): ServeLog {
  const recentLines = parent ?? new RecentLines();
  const webhook = errorWebhook(env);
  const errorReports =
    webhook === undefined ? undefined : new ErrorReports({ url: webhook, release: packageVersion() });
  const log = createLog({
    ...logSettings(env, 'json', terminal),
    sinks: [...(hasDashboard ? [recentLines] : []), ...(errorReports ? [errorReports] : [])],
    process: parent?.process,
  });
  return { log, recentLines, errorReports };
}

/** Logs an uncaught exception and exits, because the state of the process is unknown after it. */
export function exitOnUncaughtException({ log, errorReports }: ServeLog): void {
  process.once('uncaughtException', (error) => {
    log.fatal({ err: error }, 'uncaught exception, exiting');
    void Promise.resolve(errorReports?.settled()).finally(() => process.exit(EXIT.fault));
  });
}
