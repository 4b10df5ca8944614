// Converts errors from building the shadow schema to problems with a position in the file.
import { problem, type MigrationProblem } from '../../problem.ts';
import { scanSql } from '../../../lib/sql/sql-text.ts';
import { unknownTypeHint } from './unknown-type.ts';

/** SQL text of the user, with its path in the file. */
export type Piece = { readonly sql: string; readonly written: string; readonly at: string };

export type ShadowStatement = {
  readonly sql: string;
  readonly at: string;
  /** Part of the statement that the user wrote. */
  readonly piece: Piece | null;
  /** The statement may succeed in a second pass, because it may depend on a later statement. */
  readonly retry: boolean;
};

export function toProblem(
  statement: ShadowStatement,
  error: Error,
  types: readonly string[] = [],
): MigrationProblem {
  const position = 'position' in error ? Number(error.position) : Number.NaN;
  const caret = statement.piece ? caretLines(statement, statement.piece, position, error.message) : '';
  const written = statement.piece?.written ?? statement.sql;
  const hint =
    fileHint(error, written) ??
    ('hint' in error && typeof error.hint === 'string'
      ? error.hint
      : (unknownTypeHint(error, types) ?? volatileHint(error, statement.piece?.written ?? '')));
  return problem('MIG-101', statement.at, `${error.message}${caret}`, hint);
}

/** Returns a hint with a line for svc.yaml, if the hint of the server would suggest SQL instead. */
function fileHint({ message }: Error, written: string): string | null {
  if (/no default operator class for access method "gist"/.test(message))
    return 'Add extensions: [btree_gist], which compares such values in an exclusion constraint.';
  if (/^function (?:\w+\.)?(?:uuid_generate_v[14]|uuidv?4?)\(\) does not exist/.test(message))
    return 'Write gen_random_uuid(), or default: uuid_v4().';
  const sequence = /^relation "(.+)" does not exist/.exec(message)?.[1];
  if (sequence !== undefined && /\b(?:next|curr|set)val\s*\(/i.test(written))
    return `Declare it under sequences: sequences: { ${sequence.replace(/^public\./, '')}: {} }.`;
  return null;
}

/** Lists all called functions, because the message does not name the one that is not immutable. */
function volatileHint(error: Error, written: string): string | null {
  if (!error.message.includes('must be marked IMMUTABLE')) return null;
  const calls = [...new Set([...written.matchAll(/([\w.]+)\s*\(/g)].map(([, name]) => name))];
  const callNames = calls.length === 0 ? 'Its functions and casts' : `${calls.join(', ')} and its casts`;
  return (
    `${callNames} must return the same result for the same value, independent of session ` +
    'settings. If they do, wrap them in a function with volatility: immutable.'
  );
}

function caretLines(statement: ShadowStatement, piece: Piece, position: number, message: string): string {
  const offset = positionOffset(statement, piece, position) ?? nameOffset(piece.written, message);
  if (offset === null || offset < 0 || offset > piece.written.length) return '';
  const start = piece.written.lastIndexOf('\n', offset - 1) + 1;
  const line = piece.written.slice(start).split('\n')[0] ?? '';
  return `\n    ${line}\n    ${' '.repeat(offset - start)}^`;
}

// The server reports a position in the whole statement. The user wrote only a part of it.
function positionOffset(statement: ShadowStatement, piece: Piece, position: number): number | null {
  if (Number.isNaN(position) || piece.sql !== piece.written) return null;
  return position - 1 - statement.sql.indexOf(piece.sql);
}

// For policies the server reports no position, but the message contains the missing name.
function nameOffset(written: string, message: string): number | null {
  const name = /"([^"]+)"|column ([\w.]+) does not|function ([\w.]+)\(/.exec(message);
  const last = (name?.[1] ?? name?.[2] ?? name?.[3])?.split('.').at(-1);
  if (last === undefined) return null;
  const token = scanSql(written).tokens.find(
    (candidate) => candidate.text.toLowerCase() === last.toLowerCase() || candidate.text === `"${last}"`,
  );
  return token?.start ?? null;
}

/** Removes problems that follow from a table that could not be created. */
export function withoutConsequences(problems: readonly MigrationProblem[]): MigrationProblem[] {
  const broken = problems
    .filter((failure) => /^tables\.[^.]+$/.test(failure.at))
    .map((failure) => failure.at);
  return problems.filter((failure) => !broken.some((at) => failure.at.startsWith(`${at}.`)));
}
