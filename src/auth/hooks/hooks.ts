// Calls the hooks of the file: SQL functions as the owner, code functions in a worker. A hook runs once, outside of any
// transaction, with a deadline. An action whose hook fails does not succeed. The log never contains the payload or the
// answer.
import { randomUUID } from 'node:crypto';
import type { AuthHook, AuthHooks } from '../../config/config.ts';
import type { FeatureContext } from '../../http/feature.ts';
import { clientNetwork } from '../../lib/ip-address.ts';
import { FairShare } from '../../lib/limits/fair-share.ts';
import type { Log } from '../../log/log.ts';
import type { OwnerDatabase } from '../../postgres/owner-database.ts';
import { databaseFailure, isDatabaseError, sqlstate, type DatabaseError } from '../../postgres/pg-error.ts';
import { ident, sql } from '../../postgres/sql.ts';
import type { Origin } from '../audit.ts';
import { isJsonObject, type JsonObject } from '../fields.ts';
import { problems } from '../problem.ts';
import { MAX_ANSWER_BYTES, readAnswer } from './answer.ts';
import { checkClaims, type TokenClaims } from './claims.ts';

/** Names in the `metadata` of a payload, as in Supabase's auth server. */
const METADATA_NAMES = { custom_access_token: 'customize-access-token' } as const;
export type HookName = keyof typeof METADATA_NAMES;

/** How long a sign-in waits for a connection that other hooks use. */
const MAX_WAIT_MS = 5_000;

export type HookRequest = Origin & {
  readonly requestId?: string | undefined;
  /** The client can send the same request again. A failure is then a 503, because other statuses sign the user out. */
  readonly isRepeatable?: boolean | undefined;
};

export type HooksOptions = {
  readonly db: OwnerDatabase;
  readonly hooks: () => AuthHooks;
  readonly log: Log;
  readonly callFunction: FeatureContext['callFunction'];
};

export class Hooks {
  readonly #options: HooksOptions;
  /** Slow hooks leave half of the connections to the rest of auth. */
  readonly #connections: FairShare;

  constructor(options: HooksOptions) {
    this.#options = options;
    this.#connections = new FairShare({
      total: () => Math.max(1, Math.floor(options.db.max / 2)),
      maxWaitMs: MAX_WAIT_MS,
      refusal: problems.hooksBusy,
    });
  }

  /** Returns the claims to sign: those of the hook, or the given claims if the file has no hook. */
  async customizeToken(
    request: HookRequest,
    claims: TokenClaims & { readonly sub: string; readonly exp: number },
    method: string,
  ): Promise<TokenClaims & { readonly exp: number }> {
    const name = 'custom_access_token';
    const hook = this.#options.hooks()[name];
    if (!hook) return claims;
    const payload = { user_id: claims.sub, claims, authentication_method: method };
    const { client, now, requestId } = request;
    const from = { client, now, requestId, isRepeatable: method === 'token_refresh' };
    const { claims: returned } = await this.#run(name, hook, from, payload);
    if (!isJsonObject(returned)) throw this.#fail(name, from, 'the answer has no object "claims"');
    const checked = checkClaims(claims, returned);
    if ('fault' in checked) throw this.#fail(name, from, checked.fault);
    return checked.claims;
  }

  async #run(name: HookName, hook: AuthHook, request: HookRequest, payload: JsonObject): Promise<JsonObject> {
    const metadata = {
      uuid: randomUUID(),
      time: request.now.toISOString(),
      name: METADATA_NAMES[name],
      ip_address: request.client.address,
    };
    const body = JSON.stringify({ metadata, ...payload });
    const text =
      'rpc' in hook
        ? await this.#callSql(name, hook, request, body)
        : await this.#callCode(name, hook, request, body);
    const answer = readAnswer(text);
    if (answer.kind === 'fault') throw this.#fail(name, request, answer.why);
    if (answer.kind === 'refusal') throw problems.hookRefused(answer.status, answer.message);
    return answer.body;
  }

  async #callSql(
    name: HookName,
    { rpc, timeoutMs }: Extract<AuthHook, { rpc: unknown }>,
    request: HookRequest,
    body: string,
  ): Promise<string> {
    const { db } = this.#options;
    const release = await this.#connections.acquire(clientNetwork(request.client.address));
    try {
      const statement = sql`
        with answer as materialized (select ${ident(rpc.schema, rpc.name)}(${body}::jsonb)::text as text)
        select case when octet_length(text) <= ${MAX_ANSWER_BYTES}::integer then text end as text,
          text is null as is_null
        from answer`;
      const [row] = await db.transaction(
        (transaction) => transaction.query<{ text: string | null; is_null: boolean }>(statement),
        { statement_timeout: timeoutMs },
      );
      if (typeof row?.text === 'string') return row.text;
      throw this.#fail(name, request, row?.is_null === true ? 'the function returned null' : TOO_LARGE);
    } catch (error) {
      if (isDatabaseError(error, 'query_canceled')) throw this.#timeOut(name, request, timeoutMs);
      if (!isDatabaseError(error) || (databaseFailure(error)?.status ?? 500) !== 500) throw error;
      throw this.#fail(name, request, describeSqlError(error));
    } finally {
      release();
    }
  }

  async #callCode(
    name: HookName,
    { function: called, timeoutMs }: Extract<AuthHook, { function: unknown }>,
    request: HookRequest,
    body: string,
  ): Promise<string> {
    const { callFunction } = this.#options;
    if (!callFunction) throw this.#fail(name, request, 'code functions are not available');
    const outcome = await callFunction({
      name: called,
      body,
      // Separate from the calls of the same client over HTTP, which cannot use up the share of its sign-in.
      caller: `hook ${clientNetwork(request.client.address)}`,
      clientAddress: request.client.address,
      requestId: request.requestId,
      timeoutMs,
      maxBytes: MAX_ANSWER_BYTES,
    });
    switch (outcome.kind) {
      case 'answer':
        return outcome.status >= 200 && outcome.status <= 299
          ? outcome.text || '{}'
          : (readErrorStatus(outcome) ?? this.#throwStatus(name, request, outcome.status));
      case 'timeout':
        throw this.#timeOut(name, request, timeoutMs);
      case 'busy':
        throw problems.hooksBusy();
      case 'too-large':
        throw this.#fail(name, request, TOO_LARGE);
      case 'failed':
        throw this.#fail(name, request, outcome.why);
    }
  }

  #throwStatus(name: HookName, request: HookRequest, status: number): never {
    throw this.#fail(name, request, `the function answered with status ${status}`);
  }

  #fail(name: HookName, { requestId, isRepeatable }: HookRequest, why: string): Error {
    this.#options.log.error({ hook: name, requestId, why }, 'a hook failed');
    return problems.hookFailed(name, isRepeatable);
  }

  #timeOut(name: HookName, { requestId, isRepeatable }: HookRequest, timeoutMs: number): Error {
    this.#options.log.error({ hook: name, requestId, timeoutMs }, 'a hook did not answer in time');
    return problems.hookTimeout(name, isRepeatable);
  }
}

const TOO_LARGE = `the answer is larger than ${MAX_ANSWER_BYTES} bytes`;

/** Returns the body of an error answer if it is an error object, which names its own status. */
function readErrorStatus({ text }: { readonly text: string }): string | undefined {
  return readAnswer(text).kind === 'refusal' ? text : undefined;
}

/** Messages of PostgreSQL can quote values of the payload. Only a message that the function itself raised is logged. */
function describeSqlError(error: DatabaseError): string {
  const [line] = /line \d+ at [\w ]+/.exec(error.where ?? '') ?? [];
  const message = isDatabaseError(error, 'raise_exception') ? `: ${error.message}` : '';
  return `SQLSTATE ${sqlstate(error)}${line === undefined ? '' : `, ${line}`}${message}`;
}
