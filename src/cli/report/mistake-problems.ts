// Converts mistakes of the file for the JSON output.
import { byPosition, renderPath, type Mistake } from '../../config/mistakes/mistake.ts';
import type { JsonProblem } from './json-problem.ts';

/** Returns the problems in the order of the file. `file` is the name of svc.yaml. */
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
