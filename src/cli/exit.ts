// How a command ends. Commands throw; `explain` turns the error into text and an exit code.
import { databaseFailure, failureProblem } from '../postgres/pg-error.ts';
import { Abort, Problem } from '../problem/problem.ts';
import type { JsonProblem } from './report/json-problem.ts';

export const EXIT = {
  /** A problem was found, such as an invalid file or a refused plan. */
  problem: 1,
  /** The command line is wrong. */
  misuse: 2,
  /** The database does not respond, or accepts no writes. */
  unavailable: 69,
  /** A fault of svc. */
  fault: 70,
  /** The configuration or the environment does not allow a start. */
  badConfiguration: 78,
} as const;

/** Ends the command with this code. `report` is complete text for the terminal. */
export class CommandFailure extends Error {
  readonly exitCode: number;
  readonly report: string;
  /** Message and hint, if the failure consists of one problem. */
  readonly problem: Pick<Problem, 'message' | 'hint'> | undefined;

  /** The problems for `--json`, if the failure consists of several. */
  readonly problems: readonly JsonProblem[] | undefined;

  constructor(
    exitCode: number,
    report: string,
    problem?: Pick<Problem, 'message' | 'hint'>,
    problems?: readonly JsonProblem[],
  ) {
    super(report);
    this.problem = problem;
    this.problems = problems;
    this.name = 'CommandFailure';
    this.exitCode = exitCode;
    this.report = report;
  }
}

/** Creates a failure with one line and a hint. */
export function failure(exitCode: number, message: string, hint?: string): CommandFailure {
  return new CommandFailure(exitCode, renderProblem({ message, hint, details: undefined }), {
    message,
    hint,
  });
}

/** Codes of problems that the command found. They do not concern the set-up of this machine. */
const FOUND =
  /^(?:no_backup|bad_backup|backup_\w+|restore_(?!wrong_key)\w+|clone_\w+|nothing_applied|schema_\w+|migration_under_way)$/;
const MISUSED = /^bad_(?:backup_target|clone_choice|identity|keep|recipient)$/;

function workExitCode(code: string): number | undefined {
  if (MISUSED.test(code)) return EXIT.misuse;
  return FOUND.test(code) ? EXIT.problem : undefined;
}

/** Codes for an unavailable database, of svc or of an import. */
const UNAVAILABLE: ReadonlySet<string> = new Set(['database_unreachable', 'database_read_only', 'IMP-402']);

export function explain(error: unknown): CommandFailure {
  if (error instanceof CommandFailure) return error;
  // A requested stop of a start that waited for its database is not a failure.
  if (error instanceof Abort && error.reason === 'shutdown') return new CommandFailure(0, '');
  if (error instanceof Problem) {
    const code = UNAVAILABLE.has(error.code)
      ? EXIT.unavailable
      : (workExitCode(error.code) ?? EXIT.badConfiguration);
    return new CommandFailure(code, renderProblem(error), error);
  }
  const database = databaseFailure(error);
  if (database) {
    const problem = error instanceof Error && error.message !== '' ? `: ${error.message}` : '';
    return explain(failureProblem({ ...database, message: database.message + problem }, error));
  }
  const trace = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return new CommandFailure(
    EXIT.fault,
    `${trace}\n\nThis is a fault of svc itself. Please report it with the lines above.`,
  );
}

/** Renders the message, the details and the hint. */
export function renderProblem({
  message,
  details,
  hint,
}: Pick<Problem, 'message' | 'details' | 'hint'>): string {
  const lines = [`error: ${message}`];
  if (details) lines.push(`  ${details}`);
  if (hint) lines.push(`  → ${hint}`);
  return lines.join('\n');
}
