// Converts PostgreSQL errors to problems: status by SQLSTATE, checks inside the statement, and errors that functions
// raise on purpose.
import { isDatabaseError, sqlstate, type DatabaseError } from '../../postgres/pg-error.ts';
import { Problem } from '../../problem/problem.ts';
import { badRaise, notSingular, notSingularWrite, putMismatch, tooManyAffected } from '../problem.ts';
import { CHECK_PREFIX } from '../sql/render-result.ts';
import { isHeader } from './respond.ts';

export type Asker = {
  /** True without a user token or secret key. A missing privilege is then a 401, which asks for a sign-in. */
  readonly isAnonymous: boolean;
  /** Columns of a relation that the caller may read; unset if all are readable. */
  readonly readableColumns?: ((relation: string) => readonly string[]) | undefined;
};

export function fromDatabase(error: DatabaseError, { isAnonymous, readableColumns }: Asker): Problem {
  const code = sqlstate(error);
  const check = fromCheck(error);
  if (check) return check;
  if (code === 'PGRST') return fromRaise(error);
  const status = databaseStatus(code, error.message, isAnonymous);
  const headers: Record<string, string> = {};
  if (status === 401) headers['www-authenticate'] = 'Bearer';
  if (status === 503) headers['retry-after'] = '1';
  return new Problem(code, status, error.message, {
    details: error.detail,
    hint: error.hint ?? columnsHint(error, readableColumns) ?? nullHint(error) ?? hintFor(code, status),
    headers,
    cause: error,
  });
}

/** Returns the hint for `*`, which requests all columns and fails if one is not readable. */
function columnsHint(
  { code, message }: DatabaseError,
  readableColumns: Asker['readableColumns'],
): string | undefined {
  const relation = /^permission denied for (?:table|view|materialized view) (.+)$/.exec(message)?.[1];
  if (code !== '42501' || relation === undefined) return undefined;
  const columns = readableColumns?.(relation) ?? [];
  if (columns.length === 0) return undefined;
  return `Of ${relation} this caller may read ${columns.join(', ')}: name the columns in select.`;
}

/** `id=eq.null` compares with the word. */
function nullHint({ code, message }: DatabaseError): string | undefined {
  if (code !== '22P02' || !/: "null"$/i.test(message)) return undefined;
  return 'To test for null, write is.null instead of eq.null; in a JSON body, write null without quotes.';
}

const CHECK = new RegExp(`"${CHECK_PREFIX}([a-z-]+):(\\d+)"`);

function fromCheck(error: DatabaseError): Problem | undefined {
  if (!isDatabaseError(error, 'invalid_text_representation')) return undefined;
  const match = CHECK.exec(error.message);
  const rows = match?.[2] ?? '';
  switch (match?.[1] ?? '') {
    case 'singular':
      return notSingular(rows);
    case 'singular-write':
      return notSingularWrite(rows);
    case 'max-affected':
      return tooManyAffected(rows);
    case 'put':
      return putMismatch();
    default:
      return undefined;
  }
}

function databaseStatus(code: string, message: string, isAnonymous: boolean): number {
  const raised = /^PT(\d{3})$/.exec(code);
  if (raised) {
    const status = Number(raised[1]);
    return status >= 200 && status <= 599 ? status : 500;
  }
  switch (code) {
    case '21000':
      if (message.endsWith('requires a WHERE clause')) return 400;
      return message.startsWith('ON CONFLICT DO UPDATE') ? 409 : 500;
    case '22023':
      return /^role .* does not exist$/.test(message) ? 401 : 400;
    case '42501':
      return isAnonymous ? 401 : 403;
    case '55000':
      // The catalog that planned the write was older than the view.
      return /^cannot (?:insert into|update|delete from) view /.test(message) ? 405 : 500;
    case '42883':
      return message.startsWith('function xmlagg(') ? 406 : 404;
    default:
      return STATUS[code] ?? STATUS[code.slice(0, 2)] ?? 400;
  }
}

/** Statuses keyed by SQLSTATE, or by its class. */
const STATUS: Readonly<Record<string, number>> = {
  '23503': 409,
  '23505': 409,
  '23P01': 409,
  '25006': 405,
  '42P01': 404,
  '42P17': 500,
  '53400': 500,
  '55P03': 503,
  '57014': 504,
  '57P01': 503,
  '57P02': 503,
  '57P03': 503,
  P0001: 400,
  '08': 503,
  '09': 500,
  '0L': 403,
  '0P': 403,
  '25': 500,
  '28': 403,
  '2D': 500,
  '38': 500,
  '39': 500,
  '3B': 500,
  '40': 500,
  '53': 503,
  '54': 413,
  '55': 500,
  '57': 500,
  '58': 500,
  F0: 500,
  HV: 500,
  P0: 500,
  PT: 500,
  XX: 500,
};

const HINTS: Readonly<Record<string, string>> = {
  '21000': 'Two rows of the body have the same key: send each row once.',
  '22P02': 'The value does not have the form of the type it is compared with or stored as.',
  '23502': 'Send a value for this column or give it a default.',
  '23503': 'The row it refers to must exist, or rows that refer to it must go first.',
  '23505': 'Use another value, or upsert with Prefer: resolution=merge-duplicates.',
  '23P01': 'It conflicts with a row that is there: an exclusion constraint of the table keeps the two apart.',
  '23514': 'The value breaks a rule of this column or table.',
  '25006': 'Only volatile functions may write, and they are called with POST.',
  '40001': 'Try again: another transaction changed the same rows.',
  '40P01': 'Try again: two transactions waited for each other.',
  '42501': 'A policy or a missing privilege refuses this; sign in as a user who may, or change the policy.',
  '42703': 'Check the name; columns are declared under fields in svc.yaml.',
  '42704': 'Check the name of the type.',
  '42803': 'Select only columns that are grouped, or put an aggregate around the others.',
  '42883': 'The operator or function does not exist for these types: cast the column with ::type.',
  '54001': 'The value is nested too deeply: send or select less of it.',
  '54011': 'Select fewer columns: PostgreSQL takes 1,664 in one result.',
  '54023': 'A function takes 100 arguments at most.',
  '42P01': 'The table must be declared in svc.yaml and migrated.',
  '42P10': 'Name columns of a unique constraint in on_conflict.',
  '42P17':
    'To decide about a row, a policy of this table reads a table whose policies lead back to this one, ' +
    'or reads this table itself: let an SQL function under rpc with security: definer do that reading, ' +
    'and call it in the policy.',
  '53100': 'The disk of the database is full: nothing was done, and the same may succeed once there is room.',
  '55P03': 'Try again: another transaction holds what this one needs.',
  '57014': 'The statement ran too long: narrow it, add an index, or raise server.timeouts.db_query.',
};

function hintFor(code: string, status: number): string {
  const known = HINTS[code];
  if (known) return known;
  if (status === 503) return 'The database is not available at the moment: try again.';
  return status >= 500
    ? 'The database reported an internal error: see its log.'
    : 'The database refused the request: correct the value or the name in the message.';
}

const MESSAGE_HINT =
  "MESSAGE must be a JSON object with obligatory keys: 'code', 'message' and optional keys: 'details', 'hint'.";
const DETAIL_HINT =
  "DETAIL must be a JSON object with obligatory keys: 'status', 'headers' and optional key: 'status_text'.";

/** Converts `RAISE SQLSTATE 'PGRST'`, which contains the whole response as JSON. */
function fromRaise(error: DatabaseError): Problem {
  const body = toObject(error.message);
  if (!body || typeof body['code'] !== 'string' || typeof body['message'] !== 'string') {
    return badRaise(`Invalid JSON value for MESSAGE: '${error.message}'`, MESSAGE_HINT);
  }
  if (error.detail === undefined) return badRaise('DETAIL is missing in the RAISE statement', DETAIL_HINT);
  const detail = toObject(error.detail);
  const status = detail?.['status'];
  const headers = toObject(detail?.['headers']);
  if (typeof status !== 'number' || !Number.isInteger(status) || status < 200 || status > 599 || !headers) {
    return badRaise(`Invalid JSON value for DETAIL: '${error.detail}'`, DETAIL_HINT);
  }
  return new Problem(body['code'], status, body['message'], {
    details: text(body['details']),
    hint: text(body['hint']),
    headers: Object.fromEntries(
      Object.entries(headers).flatMap(([name, value]) => (isHeader(name, value) ? [[name, value]] : [])),
    ),
  });
}

function toObject(value: unknown): Record<string, unknown> | undefined {
  if (typeof value === 'string') {
    try {
      return toObject(JSON.parse(value));
    } catch {
      // Not JSON: the caller reports the error.
      return undefined;
    }
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  return { ...value };
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}
