// The two targets of a delivery: a code function and an SQL function.
import type { SqlFunction } from '../config/config.ts';
import { databaseFailure, isDatabaseError, sqlstate } from '../postgres/pg-error.ts';
import { toWire, type CallerPool, type Cancellable } from '../postgres/pool/caller-pool.ts';
import { ident, join, quoteIdent, raw, sql, type Sql } from '../postgres/sql.ts';
import { Abort, Problem } from '../problem/problem.ts';
import type { Ended } from './delivery-rows.ts';
import type { Attempt } from './engine.ts';

/** Calls a code function. The server passes it in, because features do not import each other. */
export type CallFunction = (
  name: string,
  call: {
    readonly event: {
      readonly id: string;
      readonly name: string;
      readonly kind: 'schedule';
      readonly attempt: number;
      readonly last: boolean;
      readonly at: string;
    };
    /** JSON text. */
    readonly body: string;
    readonly signal: AbortSignal;
  },
) => Promise<{ readonly status: number; readonly requestId: string; readonly text: string }>;

/** Failures before the handler began. */
const NOT_BEGUN: ReadonlySet<string> = new Set(['saturated', 'no_worker', 'draining', 'function_not_found']);
/** The handler rejects the delivery, so further attempts are useless. */
const UNPROCESSABLE = 422;

export async function callCodeFunction(
  call: CallFunction,
  name: string,
  attempt: Attempt,
  signal: AbortSignal,
): Promise<Ended> {
  const { event_id: id, name: source, body, at, number, isLast } = attempt;
  const event = {
    id,
    name: source,
    kind: 'schedule',
    attempt: number,
    last: isLast,
    at: at.toISOString(),
  } as const;
  try {
    const { status, requestId, text } = await call(name, { event, body, signal });
    if (status >= 200 && status < 300) return { outcome: 'done', status, requestId };
    const outcome = status === UNPROCESSABLE ? 'rejected' : 'failed';
    return { outcome, status, requestId, error: text === '' ? `The function returned ${status}.` : text };
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const problem = error instanceof Error && error.cause !== undefined ? error.cause : error;
    if (problem instanceof Abort || (problem instanceof Problem && NOT_BEGUN.has(problem.code)))
      return { outcome: 'returned', error: message };
    const requestId = error instanceof Error ? readRequestId(error) : undefined;
    // The handler may have begun.
    if (problem instanceof Problem && problem.code === 'worker_died')
      return { outcome: 'lost', requestId, error: message };
    const status = problem instanceof Problem ? problem.status : undefined;
    return { outcome: 'failed', status, requestId, error: message };
  }
}

function readRequestId(error: Error): string | undefined {
  const id: unknown = Reflect.get(error, 'requestId');
  return typeof id === 'string' ? id : undefined;
}

const CLAIMS = JSON.stringify({ role: 'service_role' });

/** Calls an SQL function as `service_role`, with the payload as its arguments. */
export async function callSqlFunction(
  callers: CallerPool,
  fn: SqlFunction,
  payload: string,
  signal: AbortSignal,
): Promise<Ended> {
  const cancellable: { -readonly [Key in keyof Cancellable]: Cancellable[Key] } = { cancel: undefined };
  const cancel = (): void => {
    cancellable.aborted = 'shutdown';
    cancellable.cancel?.();
  };
  signal.addEventListener('abort', cancel);
  const schemas = [...new Set([fn.schema, 'public', 'extensions'])];
  const extra = [['search_path', schemas.map(quoteIdent).join(', ')]] as const;
  // The result is not used.
  const statement = { ...toWire(sqlCall(fn, payload)), onRow: () => {} };
  try {
    await callers.run({ role: 'service_role', claims: CLAIMS, extra }, [statement], { cancellable });
    return { outcome: 'done' };
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const code = isDatabaseError(error) ? sqlstate(error) : undefined;
    return {
      outcome: sqlOutcome(error, signal),
      error: code === undefined ? message : `${code}: ${message}`,
    };
  } finally {
    signal.removeEventListener('abort', cancel);
  }
}

/** Failures of the database before the function ran. */
const NOT_RUN: ReadonlySet<string> = new Set(['unreachable', 'busy', 'read-only']);

function sqlOutcome(error: unknown, signal: AbortSignal): Ended['outcome'] {
  // The pool of connections has no room.
  if (signal.aborted || error instanceof Problem || error instanceof Abort) return 'returned';
  const kind = databaseFailure(error)?.kind;
  if (kind === 'outcome-unknown') return 'lost';
  return kind !== undefined && NOT_RUN.has(kind) ? 'returned' : 'failed';
}

/** The types of the arguments are those of the file, which has created the function with them. */
function sqlCall({ schema, name, args }: SqlFunction, payload: string): Sql {
  const inputs = args.filter(({ mode = 'in' }) => mode !== 'out');
  const [only] = inputs;
  if (only && inputs.length === 1 && only.name === undefined)
    return sql`select ${ident(schema, name)}(${payload}::${raw(only.type)})`;
  const values: unknown = JSON.parse(payload);
  const passed = inputs.flatMap(({ name: arg, type, mode }) =>
    arg !== undefined && typeof values === 'object' && values !== null && Object.hasOwn(values, arg)
      ? [{ name: ident(arg), type: raw(type), prefix: raw(mode === 'variadic' ? 'variadic ' : '') }]
      : [],
  );
  if (passed.length === 0) return sql`select ${ident(schema, name)}()`;
  const columns = join(passed.map((arg) => sql`${arg.name} ${arg.type}`));
  const list = join(passed.map((arg) => sql`${arg.prefix}${arg.name} => p.${arg.name}`));
  return sql`select ${ident(schema, name)}(${list}) from jsonb_to_record(${payload}::jsonb) as p(${columns})`;
}
