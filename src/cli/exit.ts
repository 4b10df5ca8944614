// How a command ends. Commands throw; `explain` turns whatever was thrown into text and an exit code.
import { databaseFailure, failureProblem } from '../postgres/pg-error.ts';
import { Abort, Problem } from '../problem/problem.ts';
import type { JsonProblem } from './report/json-problem.ts';

export const EXIT = {
  /** A problem was found: invalid file, refused plan. */
  problem: 1,
  /** The command line itself is wrong. */
  misuse: 2,
  /** The database is not there, or takes no writes. */
  unavailable: 69,
  /** Our own fault. */
  fault: 70,
  /** The configuration or environment does not allow a start. */
  badConfiguration: 78,
} as const;

/** Ends the command with this code. `report` is complete text for the terminal. */
export class CommandFailure extends Error {
  readonly exitCode: number;
  readonly report: string;
  /** The same in parts, where there is one sentence. */
  readonly said: Pick<Problem, 'message' | 'hint'> | undefined;

  /** The same for programs, where it is made of several. */
  readonly problems: readonly JsonProblem[] | undefined;

  constructor(
    exitCode: number,
    report: string,
    said?: Pick<Problem, 'message' | 'hint'>,
    problems?: readonly JsonProblem[],
  ) {
    super(report);
    this.said = said;
    this.problems = problems;
    this.name = 'CommandFailure';
    this.exitCode = exitCode;
    this.report = report;
  }
}

/** A failure that one line and a hint explain. */
export function failure(exitCode: number, message: string, hint?: string): CommandFailure {
  return new CommandFailure(exitCode, renderProblem({ message, hint, details: undefined }), {
    message,
    hint,
  });
}

/** Work that was begun, or refused, for what was found and not for how this machine is set up. */
const FOUND =
  /^(?:no_backup|bad_backup|backup_\w+|restore_(?!wrong_key)\w+|clone_\w+|nothing_applied|schema_\w+|migration_under_way)$/;
const MISUSED = /^bad_(?:backup_target|clone_choice|identity|keep|recipient)$/;

function codeOfWork(code: string): number | undefined {
  if (MISUSED.test(code)) return EXIT.misuse;
  return FOUND.test(code) ? EXIT.problem : undefined;
}

/** The database of svc, or the one that is imported from. */
const AWAY: ReadonlySet<string> = new Set(['database_unreachable', 'database_read_only', 'IMP-402']);

export function explain(error: unknown): CommandFailure {
  if (error instanceof CommandFailure) return error;
  // A start that was stopped while it waited for its database: what was asked for.
  if (error instanceof Abort && error.reason === 'shutdown') return new CommandFailure(0, '');
  if (error instanceof Problem) {
    const code = AWAY.has(error.code) ? EXIT.unavailable : (codeOfWork(error.code) ?? EXIT.badConfiguration);
    return new CommandFailure(code, renderProblem(error), error);
  }
  const database = databaseFailure(error);
  if (database) {
    const said = error instanceof Error && error.message !== '' ? `: ${error.message}` : '';
    return explain(failureProblem({ ...database, message: database.message + said }, error));
  }
  const trace = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return new CommandFailure(
    EXIT.fault,
    `${trace}\n\nThis is a fault of svc itself. Please report it with the lines above.`,
  );
}

/** What happened, details, and what to do next. */
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
