// `--json`: what a command found, as one object on standard output and nothing beside it. Programs read it, so the shape
// is the same for all commands; only `data` differs.
import { packageVersion } from '../../lib/own-files.ts';
import { Problem } from '../../problem/problem.ts';
import { CommandFailure, EXIT, explain } from '../exit.ts';
import type { Terminal } from '../terminal.ts';
import type { JsonProblem } from './json-problem.ts';

export type JsonFindings<Data = unknown> = {
  readonly data: Data;
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
    const { exitCode: code, problems: known } = failure;
    return { data: null, problems: known ?? [problemOf(error, failure)], exitCode: code };
  });
  const code = exitCode ?? (problems.some(({ severity }) => severity === 'error') ? EXIT.problem : 0);
  const report = { ok: code === 0, command, version: packageVersion(), data, problems };
  terminal.print(JSON.stringify(report, undefined, 2));
  if (code !== 0) throw new CommandFailure(code, '');
}

function problemOf(error: unknown, { exitCode, report, said }: CommandFailure): JsonProblem {
  const code = exitCode === EXIT.fault ? 'internal_error' : 'command_failed';
  if (error instanceof Problem) {
    return { code: error.code, severity: 'error', message: error.message, hint: error.hint ?? null };
  }
  return { code, severity: 'error', message: said?.message ?? report, hint: said?.hint ?? null };
}
