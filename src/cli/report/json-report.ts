// `--json`: what a command found, as one object on standard output and nothing beside it. Programs read it, so the shape
// is the same for all commands; only `data` differs.
import { byPosition, renderPath, type Mistake, type Severity } from '../../config/mistakes/mistake.ts';
import { packageVersion } from '../../lib/own-files.ts';
import { Problem } from '../../problem/problem.ts';
import { CommandFailure, EXIT, explain } from '../exit.ts';
import type { Terminal } from '../terminal.ts';

/** `line` and `column` count from 1. */
export type JsonProblem = {
  readonly code: string;
  readonly severity: Severity;
  readonly message: string;
  readonly hint: string | null;
  readonly file?: string;
  readonly line?: number;
  readonly column?: number;
  /** Of the key in svc.yaml: `tables.todos.fields[2].type`. */
  readonly path?: string;
};

export type JsonFindings = {
  readonly data: unknown;
  readonly problems?: readonly JsonProblem[];
  /** Default: 0, or 1 when a problem is an error. */
  readonly exitCode?: number;
};

/** `{ ok, command, version, data, problems }`. What is thrown is a problem too, and ends the command as it always does. */
export async function asJson(
  command: string,
  terminal: Terminal,
  find: () => Promise<JsonFindings>,
): Promise<void> {
  const {
    data,
    problems = [],
    exitCode,
  } = await find().catch((error: unknown): JsonFindings => {
    const failure = explain(error);
    return { data: null, problems: [problemOf(error, failure)], exitCode: failure.exitCode };
  });
  const code = exitCode ?? (problems.some(({ severity }) => severity === 'error') ? EXIT.problem : 0);
  const report = { ok: code === 0, command, version: packageVersion(), data, problems };
  terminal.print(JSON.stringify(report, undefined, 2));
  if (code !== 0) throw new CommandFailure(code, '');
}

/** In the order of the file; `file` is the name of svc.yaml. */
export function mistakeProblems(mistakes: readonly Mistake[], file: string): JsonProblem[] {
  return [...mistakes].sort(byPosition).map(({ code, severity, message, hint, position, path }) => ({
    code,
    severity,
    message,
    hint: hint ?? null,
    file: position.file ?? file,
    line: position.line,
    column: position.column,
    path: renderPath(path),
  }));
}

function problemOf(error: unknown, { exitCode, report, said }: CommandFailure): JsonProblem {
  const code = exitCode === EXIT.fault ? 'internal_error' : 'command_failed';
  if (error instanceof Problem) {
    return { code: error.code, severity: 'error', message: error.message, hint: error.hint ?? null };
  }
  return { code, severity: 'error', message: said?.message ?? report, hint: said?.hint ?? null };
}
