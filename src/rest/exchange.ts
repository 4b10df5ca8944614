// One request on its way through the stages, and the one place where a statement is run for it.
import type { FastifyReply } from 'fastify';
import pg from 'pg';
import { Cache } from '../lib/cache.ts';
import type { FeatureContext } from '../http/feature.ts';
import type { RequestScope } from '../http/request-scope.ts';
import type { Caller } from '../identity/caller.ts';
import type { CallerSettings } from '../postgres/pool/caller-pool.ts';
import { quoteIdent } from '../postgres/sql.ts';
import type { OnRow, WireResult, WireStatement, WireValue } from '../postgres/wire/wire.ts';
import type { Exposed } from './plan/exposed.ts';
import { invalidJson } from './problem.ts';
import type { ApiRequest } from './request/api-request.ts';
import type { Page } from './request/page.ts';
import type { Slot } from './request/query.ts';
import type { ResultColumn } from './sql/render-result.ts';
import { BODY, FIELD, LIMIT, OFFSET } from './request/slots.ts';
import type { Statement } from './sql/statement.ts';

export type Exchange = {
  readonly context: FeatureContext;
  readonly exposed: Exposed;
  readonly plans: PlanCache;
  readonly request: ApiRequest;
  readonly caller: Caller;
  readonly reply: FastifyReply;
  readonly scope: RequestScope;
  /** The stream the server handed through. */
  readonly body: unknown;
};

/** Plans by the shape of their request. Values are no part of it, so one entry serves all of them. */
export class PlanCache {
  static readonly #LONGEST_KEY = 4_000;
  readonly #plans = new Cache<string, object>(2_000);
  #version = -1;

  /** `T` is decided by the first part of the key: each action makes one type of plan. */
  get<T extends object>(exposed: Exposed, key: string, make: () => T): T {
    if (exposed.version !== this.#version) {
      this.#plans.clear();
      this.#version = exposed.version;
    }
    const known = this.#plans.get(key);
    if (known) return known as T;
    const made = make();
    if (key.length <= PlanCache.#LONGEST_KEY) this.#plans.set(key, made);
    return made;
  }
}

/** Values behind the slots that are not part of the query string. */
export type Bindings = {
  readonly values: readonly string[];
  readonly page?: Page | undefined;
  readonly body?: Buffer | undefined;
  readonly fields?: ReadonlyArray<string | null> | undefined;
};

export type RunMode = {
  readonly readOnly: boolean;
  /** One answer at a time, however often it is asked. */
  readonly repeatable?: boolean | undefined;
  /** Takes the rows of the first statement one by one. */
  readonly onRow?: OnRow | undefined;
};

export function runStatements(
  exchange: Exchange,
  statements: readonly Statement[],
  bindings: Bindings,
  { readOnly, repeatable, onRow }: RunMode,
): Promise<WireResult[]> {
  const { context, request, scope } = exchange;
  const maxRowBytes = context.snapshot().config.server.maxResponseBytes;
  const batch: WireStatement[] = [];
  for (const { text, slots } of statements) {
    const values: WireValue[] = [];
    for (const slot of slots) values.push(valueOf(slot, bindings));
    batch.push({ text, values, onRow: batch.length === 0 ? onRow : undefined, maxRowBytes });
  }
  const rollback = request.preferences.tx === 'rollback';
  const results = context.callers.run(settingsOf(exchange), batch, {
    readOnly,
    repeatable,
    rollback,
    cancellable: scope,
  });
  const { body } = bindings;
  if (!body) return results;
  return results.catch((error: unknown) => {
    throw isAboutJson(error) && !isJson(body) ? invalidJson() : error;
  });
}

/** PostgreSQL is the strict reader of the body; a filter on a JSON column fails with the same code, though. */
function isAboutJson(error: unknown): boolean {
  return (
    error instanceof pg.DatabaseError &&
    error.code === '22P02' &&
    error.message.startsWith('invalid input syntax for type json')
  );
}

function isJson(bytes: Buffer): boolean {
  try {
    JSON.parse(bytes.toString('utf8'));
    return true;
  } catch {
    return false;
  }
}

function valueOf(slot: Slot, { values, page, body, fields }: Bindings): WireValue {
  if (slot >= 0) return values[slot] ?? null;
  switch (slot) {
    case BODY:
      return body ?? null;
    case LIMIT:
      return String(page?.limit ?? 0);
    case OFFSET:
      return String(page?.offset ?? 0);
    default:
      return fields?.[FIELD - slot] ?? null;
  }
}

/** Settings beyond role and claims are sent only when this request or some SQL in the database needs them. */
function settingsOf({ caller, exposed, request }: Exchange): CallerSettings {
  const extra: Array<readonly [string, string]> = [];
  if (request.schema !== 'public') {
    extra.push(['search_path', `${quoteIdent(request.schema)}, public`]);
  }
  const { timezone } = request.preferences;
  if (timezone !== undefined) extra.push(['timezone', timezone]);
  const used = exposed.catalog.usedSettings;
  if (used.size > 0) {
    if (used.has('request.method')) extra.push(['request.method', request.method]);
    if (used.has('request.path')) extra.push(['request.path', request.path]);
    if (used.has('request.headers')) extra.push(['request.headers', headersJson(request)]);
    if (used.has('request.cookies')) extra.push(['request.cookies', cookiesJson(request.headers.cookie)]);
  }
  return extra.length === 0 ? caller : { ...caller, extra };
}

export function usesResponseSettings(exposed: Exposed): boolean {
  const used = exposed.catalog.usedSettings;
  return used.has('response.headers') || used.has('response.status');
}

function headersJson({ headers }: ApiRequest): string {
  const shown: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (name === 'cookie' || value === undefined) continue;
    shown[name] = Array.isArray(value) ? (value.at(-1) ?? '') : value;
  }
  return JSON.stringify(shown);
}

function cookiesJson(header: string | undefined): string {
  const cookies: Record<string, string> = Object.create(null);
  for (const pair of (header ?? '').split(';')) {
    const equals = pair.indexOf('=');
    if (equals > 0) cookies[pair.slice(0, equals).trim()] = pair.slice(equals + 1).trim();
  }
  return JSON.stringify(cookies);
}

/** The one row of a result, by name. */
export class ResultRow {
  readonly #row: ReadonlyArray<Buffer | null>;
  readonly #columns: readonly ResultColumn[];

  constructor(result: WireResult | undefined, columns: readonly ResultColumn[]) {
    this.#row = result?.rows[0] ?? [];
    this.#columns = columns;
  }

  bytes(column: ResultColumn): Buffer | undefined {
    const at = this.#columns.indexOf(column);
    return at < 0 ? undefined : (this.#row[at] ?? undefined);
  }

  text(column: ResultColumn): string | undefined {
    return this.bytes(column)?.toString('utf8');
  }

  number(column: ResultColumn): number | undefined {
    const text = this.bytes(column)?.toString('latin1');
    return text === undefined ? undefined : Number(text);
  }
}
