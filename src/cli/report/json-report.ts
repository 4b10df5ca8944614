// `--json`: prints the findings of a command as one object, and nothing else, on standard output. All commands have the
// same shape; only `data` differs.
import { packageVersion } from '../../lib/package-files.ts';
import { Problem } from '../../problem/problem.ts';
import { CommandFailure, EXIT, explain } from '../exit.ts';
import type { Terminal } from '../terminal.ts';
import type { JsonProblem } from './json-problem.ts';

export type JsonFindings<Data = unknown> = {
  readonly data: Data;
  readonly problems?: readonly JsonProblem[];
  /** Default: 0, or 1 if a problem is an error. */
  readonly exitCode?: number;
};

/**
 * Prints `{ ok, command, version, data, problems }`. An exception becomes a problem and keeps its exit
 * code.
 */
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
    const { exitCode: code, problems: known } = failure;
    return { data: null, problems: known ?? [toJsonProblem(error, failure)], exitCode: code };
  });
  const code = exitCode ?? (problems.some(({ severity }) => severity === 'error') ? EXIT.problem : 0);
  const report = { ok: code === 0, command, version: packageVersion(), data, problems };
  terminal.print(JSON.stringify(report, undefined, 2));
  if (code !== 0) throw new CommandFailure(code, '');
}

function toJsonProblem(error: unknown, { exitCode, report, problem }: CommandFailure): JsonProblem {
  const code = exitCode === EXIT.fault ? 'internal_error' : 'command_failed';
  if (error instanceof Problem) {
    return { code: error.code, severity: 'error', message: error.message, hint: error.hint ?? null };
  }
  return { code, severity: 'error', message: problem?.message ?? report, hint: problem?.hint ?? null };
}
