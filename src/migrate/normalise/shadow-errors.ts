// A statement the server refused while the shadow schema was built, as a problem at its place in the file.
import { problem, type MigrationProblem } from '../problem.ts';
import { scanSql } from '../../lib/sql/sql-text.ts';
import { unknownTypeHint } from './unknown-type.ts';

/** A piece of SQL text with its origin. */
export type Piece = { readonly sql: string; readonly written: string; readonly at: string };

export type ShadowStatement = {
  readonly sql: string;
  readonly at: string;
  /** The part of the statement that the user wrote. */
  readonly piece: Piece | null;
  /** A function may need another one that comes later; everything else must work at once. */
  readonly retry: boolean;
};

export function toProblem(
  statement: ShadowStatement,
  error: Error,
  types: readonly string[] = [],
): MigrationProblem {
  const position = 'position' in error ? Number(error.position) : Number.NaN;
  const caret = statement.piece ? caretLines(statement, statement.piece, position, error.message) : '';
  const hint =
    'hint' in error && typeof error.hint === 'string'
      ? error.hint
      : (unknownTypeHint(error, types) ?? volatileHint(error, statement.piece?.written ?? ''));
  return problem('MIG-101', statement.at, `${error.message}${caret}`, hint);
}

/** The message does not say which of them it is. */
function volatileHint(error: Error, written: string): string | null {
  if (!error.message.includes('must be marked IMMUTABLE')) return null;
  const calls = [...new Set([...written.matchAll(/([\w.]+)\s*\(/g)].map(([, name]) => name))];
  const which = calls.length === 0 ? 'Its functions and casts' : `${calls.join(', ')} and its casts`;
  return `${which} must give the same result for the same value whatever the settings of a session are; wrap them in a function of volatility immutable if they do.`;
}

function caretLines(statement: ShadowStatement, piece: Piece, position: number, message: string): string {
  const offset = offsetOf(statement, piece, position) ?? offsetOfName(piece.written, message);
  if (offset === null || offset < 0 || offset > piece.written.length) return '';
  const start = piece.written.lastIndexOf('\n', offset - 1) + 1;
  const line = piece.written.slice(start).split('\n')[0] ?? '';
  return `\n    ${line}\n    ${' '.repeat(offset - start)}^`;
}

// The server counts characters of the whole statement; the user wrote only the expression inside it.
function offsetOf(statement: ShadowStatement, piece: Piece, position: number): number | null {
  if (Number.isNaN(position) || piece.sql !== piece.written) return null;
  return position - 1 - statement.sql.indexOf(piece.sql);
}

// For policies the server gives no position, but its message names what it did not find.
function offsetOfName(written: string, message: string): number | null {
  const name = /"([^"]+)"|column ([\w.]+) does not|function ([\w.]+)\(/.exec(message);
  const last = (name?.[1] ?? name?.[2] ?? name?.[3])?.split('.').at(-1);
  if (last === undefined) return null;
  const token = scanSql(written).tokens.find(
    (one) => one.text.toLowerCase() === last.toLowerCase() || one.text === `"${last}"`,
  );
  return token?.start ?? null;
}

/** Without what only fails because its table could not be built. */
export function withoutConsequences(problems: readonly MigrationProblem[]): MigrationProblem[] {
  const broken = problems.filter((one) => /^tables\.[^.]+$/.test(one.at)).map((one) => one.at);
  return problems.filter((one) => !broken.some((at) => one.at.startsWith(`${at}.`)));
}
