// Fields of an error in a log line. PostgreSQL quotes values of rows in messages, details and contexts, so they are
// omitted from every line.
import pg from 'pg';
import pino from 'pino';

/**
 * SQLSTATE classes whose messages name objects, privileges, locks and the state of the server, and never a value:
 * connections, transactions, authorization, access rules, resources, cancellation, faults of the server.
 */
const CLASSES_WITHOUT_VALUES = new Set([
  '08',
  '25',
  '26',
  '28',
  '3D',
  '40',
  '42',
  '53',
  '55',
  '57',
  '58',
  'XX',
]);

const WITHHELD = 'message withheld: it can contain values of rows';

type ErrorFields = Readonly<Record<string, unknown>>;

/** Serializes `err` of a log line. */
export function errorFields(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  if (error instanceof pg.DatabaseError) return databaseErrorFields(error);
  const database = collectCauses(error).find((cause) => cause instanceof pg.DatabaseError);
  if (!database) return pino.stdSerializers.err(error);
  // A wrapper often repeats the text of its cause.
  const message =
    database.message === ''
      ? error.message
      : error.message.replaceAll(database.message, renderError(database));
  const code = 'code' in error ? { code: error.code } : {};
  return {
    type: error.name,
    message,
    stack: renderStack(error, message),
    ...code,
    cause: databaseErrorFields(database),
  };
}

/** Returns the message of an error for the text of a log line. */
export function loggedMessage(error: unknown): string {
  if (error instanceof pg.DatabaseError) return renderError(error);
  return error instanceof Error ? error.message : String(error);
}

function databaseErrorFields(error: pg.DatabaseError): ErrorFields {
  const { code, severity, schema, table, column, constraint, routine } = error;
  const message = renderError(error);
  return {
    type: 'DatabaseError',
    message,
    stack: renderStack(error, message),
    code,
    severity,
    schema,
    table,
    column,
    constraint,
    routine,
    functions: raisedIn(error),
  };
}

/**
 * The functions that were running, for example `PL/pgSQL function handle_new_user() line 3 at RAISE`. Other lines of a
 * context can quote values.
 */
function raisedIn({ where = '' }: pg.DatabaseError): readonly string[] | undefined {
  const lines = where
    .split('\n')
    .filter((line) => /^PL\/pgSQL function [\w." ]+\([\w.,"[\] ]*\) line \d+ at [A-Za-z ]+$/.test(line));
  return lines.length === 0 ? undefined : lines;
}

/** The message of a database error without values of rows. */
function renderError({ code = '', message, where }: pg.DatabaseError): string {
  // A context means that a function raised the error: its text is the user's, or quotes a statement of the function.
  const isSafe = where === undefined && CLASSES_WITHOUT_VALUES.has(code.slice(0, 2));
  return isSafe ? message : `SQLSTATE ${code} (${WITHHELD})`;
}

function renderStack({ name, stack = '' }: Error, message: string): string {
  const frames = stack.split('\n').filter((line) => /^\s+at .+:\d+:\d+\)?$/.test(line));
  return [`${name}: ${message}`, ...frames].join('\n');
}

/** The causes of an error and its aggregated errors, at most ten levels deep. */
function collectCauses(error: Error, depth = 0): Error[] {
  if (depth > 10) return [];
  const next: unknown[] = [
    error.cause,
    ...(error instanceof AggregateError ? (error.errors as unknown[]) : []),
  ];
  return next.flatMap((cause) => (cause instanceof Error ? [cause, ...collectCauses(cause, depth + 1)] : []));
}
