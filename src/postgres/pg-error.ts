// Maps database failures to their meaning for the client: one table for all features, which translate it into their
// own formats. It excludes errors of the statement itself (a violated constraint, a missing privilege).
import pg from 'pg';
import { Problem } from '../problem/problem.ts';

export type DatabaseFailure = {
  readonly kind:
    | 'unreachable'
    | 'busy'
    | 'locked'
    | 'timeout'
    | 'read-only'
    | 'full'
    | 'broken'
    | 'outcome-unknown';
  readonly status: 500 | 503 | 504;
  /** Absent where trying again may do something twice, or nothing better. */
  readonly retryAfterSeconds: number | undefined;
  readonly message: string;
  readonly hint: string;
};

/**
 * SQLSTATEs under PostgreSQL's names (manual, appendix A). Two characters represent a whole class. Only tables that
 * translate codes for an API contain further codes.
 */
const SQLSTATE = {
  connection_exception: '08',
  feature_not_supported: '0A000',
  data_exception: '22',
  division_by_zero: '22012',
  invalid_argument_for_power_function: '2201F',
  invalid_text_representation: '22P02',
  integrity_constraint_violation: '23',
  foreign_key_violation: '23503',
  unique_violation: '23505',
  read_only_sql_transaction: '25006',
  invalid_sql_statement_name: '26000',
  invalid_authorization_specification: '28',
  invalid_password: '28P01',
  dependent_objects_still_exist: '2BP01',
  invalid_catalog_name: '3D000',
  serialization_failure: '40001',
  deadlock_detected: '40P01',
  syntax_error_or_access_rule_violation: '42',
  insufficient_privilege: '42501',
  undefined_column: '42703',
  cannot_coerce: '42846',
  undefined_function: '42883',
  undefined_object: '42704',
  undefined_table: '42P01',
  duplicate_object: '42710',
  datatype_mismatch: '42804',
  duplicate_prepared_statement: '42P05',
  insufficient_resources: '53',
  out_of_memory: '53200',
  too_many_connections: '53300',
  lock_not_available: '55P03',
  query_canceled: '57014',
  shutdown: '57P',
  raise_exception: 'P0001',
  internal_error: 'XX000',
} as const;

/**
 * SQLSTATEs that a PostgreSQL release has renamed, with the code of earlier releases. Callers get the older code, so
 * that a file causes the same response on every release.
 */
const RENAMED: ReadonlyMap<string, string> = new Map([
  // PostgreSQL 18 reports this for rows that are referenced by a RESTRICT foreign key.
  ['23001', SQLSTATE.foreign_key_violation],
]);

type Condition = keyof typeof SQLSTATE;
export type DatabaseError<Code extends string = string> = pg.DatabaseError & { readonly code: Code };

/** Whether the error comes from the server or a pooler. With conditions: whether it is one of them. */
export function isDatabaseError(error: unknown): error is DatabaseError;
export function isDatabaseError<C extends Condition>(
  error: unknown,
  ...conditions: readonly C[]
): error is DatabaseError<`${(typeof SQLSTATE)[C]}${string}`>;
export function isDatabaseError(error: unknown, ...conditions: readonly Condition[]): boolean {
  if (!(error instanceof pg.DatabaseError)) return false;
  if (error.code === undefined) return false;
  if (conditions.length === 0) return true;
  const code = renamed(error.code, error.constraint);
  return conditions.some((condition) => code.startsWith(SQLSTATE[condition]));
}

/** The code of an error, the same on every release of PostgreSQL. */
export function sqlstate({ code, constraint }: DatabaseError): string {
  return renamed(code, constraint);
}

/** Keeps the code if there is no constraint: a user's function raised it on purpose. */
function renamed(code: string, constraint: string | undefined): string {
  return constraint === undefined ? code : (RENAMED.get(code) ?? code);
}

/**
 * Whether a failed statement can have taken effect. `never-sent`: the server has not received it. `rolled-back`: the
 * server has undone it. `unknown`: its end was not reported.
 */
export type FailureClass = 'never-sent' | 'rolled-back' | 'unknown';

/** The statement was not sent: no connection could be opened, or it was lost before. */
export class NeverSent extends Error {
  override name = 'NeverSent';

  constructor(cause: unknown) {
    super(`no connection to PostgreSQL: ${cause instanceof Error ? cause.message : String(cause)}`, {
      cause,
    });
  }
}

/** The connection ended after a statement had been sent, so its outcome is unknown. */
export class ConnectionLost extends Error {
  override name = 'ConnectionLost';
}

/** The database stayed unreachable until the time limit. Nothing was done. Features report it to their callers. */
export class DatabaseUnavailable extends Error {
  override name = 'DatabaseUnavailable';

  constructor(cause: unknown) {
    super('the database cannot be reached; nothing was done', { cause });
  }
}

/**
 * The outcome of a write is unknown: it may have committed, so a blind retry could apply it twice. Features report it
 * to their callers.
 */
export class OutcomeUnknown extends Error {
  override name = 'OutcomeUnknown';

  constructor(cause: unknown) {
    super('the connection to the database was lost in the middle of a write', { cause });
  }
}

/** A write refused because the database is read-only, for example a standby. */
export class DatabaseReadOnly extends Error {
  override name = 'DatabaseReadOnly';

  constructor(cause: Error) {
    super(cause.message, { cause });
  }
}

/** Converts 25006 of a write outside a READ ONLY transaction: the server is read-only, not the statement. */
export function writeError(error: Error): Error {
  if (isDatabaseError(error, 'read_only_sql_transaction')) return new DatabaseReadOnly(error);
  return error instanceof ConnectionLost ? new OutcomeUnknown(error) : error;
}

/**
 * Classifies an error that came after sending, by its type and never by its text (except for `pg`'s own errors, which
 * have only a text). Returns undefined for errors outside the conversation with the server: a fault, a `Problem`.
 */
export function failureClass(error: unknown): FailureClass | undefined {
  if (!(error instanceof Error)) return undefined;
  if (error instanceof ConnectionLost || error instanceof OutcomeUnknown) return 'unknown';
  if (error instanceof NeverSent || error instanceof DatabaseUnavailable) return 'never-sent';
  if (error instanceof DatabaseReadOnly) return 'rolled-back';
  if (error instanceof pg.DatabaseError) return classOfReported(error);
  if (/^(?:Connection terminated(?: unexpectedly)?|Query read timeout)$/.test(error.message))
    return 'unknown';
  if (isReset(error)) return 'unknown';
  return databaseFailure(error) === undefined ? undefined : 'never-sent';
}

/**
 * PostgreSQL reports the routine that raised an error. An error without a routine is a pooler's own: the pooler may
 * have lost its server during a commit. Only an unknown statement name precedes execution. Class 08 means a lost
 * connection from any reporter.
 */
function classOfReported(error: pg.DatabaseError): FailureClass {
  if (isDatabaseError(error, 'invalid_sql_statement_name', 'duplicate_prepared_statement'))
    return 'rolled-back';
  return error.routine === undefined || isDatabaseError(error, 'connection_exception')
    ? 'unknown'
    : 'rolled-back';
}

/** Whether the server may have executed the statement. */
export function isOutcomeUnknown(error: unknown): boolean {
  return failureClass(error) === 'unknown';
}

/** `pg` reports a connection that broke while opening under the same codes, with the name of the system call. */
function isReset(error: Error): boolean {
  const { code, syscall } = error as NodeJS.ErrnoException;
  return (code === 'ECONNRESET' || code === 'EPIPE') && syscall !== 'connect';
}

const UNREACHABLE: DatabaseFailure = {
  kind: 'unreachable',
  status: 503,
  retryAfterSeconds: 2,
  message: 'The database cannot be reached; nothing was done',
  hint: 'Try again in a moment.',
};
const BUSY: DatabaseFailure = {
  kind: 'busy',
  status: 503,
  retryAfterSeconds: 1,
  hint: 'Nothing was done: try again in a moment.',
  message: 'The database has no free connection',
};
const LOCKED: DatabaseFailure = {
  ...BUSY,
  kind: 'locked',
  message: 'Something else holds what this needs in the database',
};
const TIMEOUT: DatabaseFailure = {
  ...BUSY,
  kind: 'timeout',
  status: 504,
  message: 'The database took too long',
};
const READ_ONLY: DatabaseFailure = {
  kind: 'read-only',
  status: 503,
  retryAfterSeconds: 5,
  message: 'The database takes no writes at the moment',
  hint: 'It is in recovery or read-only: try again when it is writable.',
};
const FULL: DatabaseFailure = {
  kind: 'full',
  status: 503,
  retryAfterSeconds: 60,
  message: 'The database has no room left',
  hint: 'Its disk or memory is used up: nothing was done, and the same may succeed once there is room.',
};
const BROKEN: DatabaseFailure = {
  kind: 'broken',
  status: 500,
  retryAfterSeconds: undefined,
  message: 'The database server reports an internal fault',
  hint: 'See the log of PostgreSQL for the cause: a damaged or incomplete installation, a missing library or file.',
};
const OUTCOME_UNKNOWN: DatabaseFailure = {
  kind: 'outcome-unknown',
  status: 504,
  retryAfterSeconds: undefined,
  message:
    'The connection to the database was lost after the request had been sent: it may have been carried out',
  hint: 'Read before sending it again, or upsert with a key of your own.',
};

/** Failures keyed by SQLSTATE, by its first two or three characters, or by system error code. */
const BY_CODE: Readonly<Record<string, DatabaseFailure>> = {
  '25006': READ_ONLY,
  '28P01': UNREACHABLE,
  '3D000': UNREACHABLE,
  '53': BUSY,
  '53100': FULL,
  '53200': FULL,
  '55P03': LOCKED,
  '57014': TIMEOUT,
  '57P': UNREACHABLE,
  '40001': LOCKED,
  '40P01': LOCKED,
  '08': UNREACHABLE,
  '58': BROKEN,
  F0: BROKEN,
  XX: BROKEN,
  EAI_AGAIN: UNREACHABLE,
  ECONNABORTED: UNREACHABLE,
  ECONNREFUSED: UNREACHABLE,
  ECONNRESET: UNREACHABLE,
  EHOSTDOWN: UNREACHABLE,
  EHOSTUNREACH: UNREACHABLE,
  ENETDOWN: UNREACHABLE,
  ENETUNREACH: UNREACHABLE,
  ENOTFOUND: UNREACHABLE,
  EPIPE: UNREACHABLE,
  ETIMEDOUT: UNREACHABLE,
};

/** Messages of `pg` and its pool, whose errors have no code. */
const BY_TEXT: ReadonlyArray<readonly [RegExp, DatabaseFailure]> = [
  [/^timeout exceeded when trying to connect$/, BUSY],
  [
    /^(?:timeout expired|Connection terminated.*|the connection to PostgreSQL was closed.*|the pool is closed|Cannot use a pool after calling end on the pool|Client has encountered a connection error and is not queryable|The server does not support SSL connections)$/,
    UNREACHABLE,
  ],
];

/** Returns undefined if the error is not a database failure. */
export function databaseFailure(error: unknown): DatabaseFailure | undefined {
  if (!(error instanceof Error)) return undefined;
  if (error instanceof OutcomeUnknown) return OUTCOME_UNKNOWN;
  if (error instanceof DatabaseReadOnly) return READ_ONLY;
  if (error instanceof DatabaseUnavailable || error instanceof ConnectionLost) return UNREACHABLE;
  if (error instanceof NeverSent) return databaseFailure(error.cause) ?? UNREACHABLE;
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  if (error instanceof pg.DatabaseError)
    return BY_CODE[code] ?? BY_CODE[code.slice(0, 3)] ?? BY_CODE[code.slice(0, 2)];
  // A missing Unix socket. Any other ENOENT concerns a local file.
  if (code === 'ENOENT' || code === 'EACCES') {
    return 'syscall' in error && error.syscall === 'connect' ? UNREACHABLE : undefined;
  }
  // Several addresses of one name failed.
  if (error instanceof AggregateError) return databaseFailure(error.errors[0]);
  return BY_CODE[code] ?? BY_TEXT.find(([text]) => text.test(error.message))?.[1];
}

export function retryAfter({ retryAfterSeconds }: DatabaseFailure): Record<string, string> {
  return retryAfterSeconds === undefined ? {} : { 'retry-after': String(retryAfterSeconds) };
}

/** Builds the problem for features without specific error codes. */
export function failureProblem(failure: DatabaseFailure, cause: unknown): Problem {
  const { kind, status, message, hint } = failure;
  const code = `database_${kind.replaceAll('-', '_')}`;
  return new Problem(code, status, message, { hint, cause, headers: retryAfter(failure) });
}
