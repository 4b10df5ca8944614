// Replaces the messages of errors from expressions on rows. PostgreSQL quotes values in messages (`invalid input syntax
// for type integer: "…"`), and a function can raise any text. Plans appear in logs and are read by assistants, so they
// contain only the error condition.
import pg from 'pg';
import type { Queryable } from '../../../postgres/owner-database.ts';
import { isDatabaseError, type DatabaseError } from '../../../postgres/pg-error.ts';

/** SQLSTATE classes of errors about the server or the connection. */
const SERVER_CLASSES: ReadonlySet<string> = new Set(['08', '25', '28', '3D', '40', '53', '55', '57', '58']);
/** SQLSTATE classes of errors about the text of a statement, if they occur outside of a function. */
const STATEMENT_CLASSES: ReadonlySet<string> = new Set(['0A', '2B', '3F', '42']);

const CONDITIONS: Readonly<Record<string, string>> = {
  '22001': 'a value is too long',
  '22003': 'a number is out of range',
  '22004': 'a null is not allowed',
  '22007': 'a text is not a date or time',
  '22008': 'a date or time is out of range',
  '22012': 'division by zero',
  '22P02': 'a text is not a value of the type',
  '21000': 'a sub-select returns more than one row',
  P0001: 'a function raised an error',
};

/** Returns the session with replaced messages for errors that can contain values of rows. */
export function withholdValues(session: Queryable): Queryable {
  return {
    query: async (statement, name) => {
      try {
        return await session.query(statement, name);
      } catch (error) {
        throw isDatabaseError(error) && canContainValues(error) ? withheld(error) : error;
      }
    },
  };
}

/** Returns whether the message of this error was replaced. */
export function isWithheld(error: unknown): error is WithheldError {
  return error instanceof WithheldError;
}

class WithheldError extends pg.DatabaseError {}

/** Server function that checks the options of a sequence. Its messages contain only options. */
const SEQUENCE_OPTIONS = 'init_params';

/** Returns whether the message of the error can contain values of rows. */
export function canContainValues({ code, where, routine }: DatabaseError): boolean {
  if (routine === SEQUENCE_OPTIONS) return false;
  const kind = code.slice(0, 2);
  if (SERVER_CLASSES.has(kind)) return false;
  // `where` is set if the error occurred inside of a function.
  return !STATEMENT_CLASSES.has(kind) || (where !== undefined && where !== '');
}

/** Returns the replacement for the server's message: `a value is too long (SQLSTATE 22001)`. */
export function describeCondition(code: string): string {
  return `${CONDITIONS[code] ?? 'an expression fails'} (SQLSTATE ${code})`;
}

function withheld({ code, name, length, position }: DatabaseError): WithheldError {
  const error = new WithheldError(describeCondition(code), length, name);
  error.code = code;
  if (position !== undefined) error.position = position;
  return error;
}
