// The row that connects the start of a flow with its end: an OAuth redirect, or a mailed link that ends in an
// authorization code. State and code are random, stored only as hashes, and work once.
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Queryable } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import type { AuthContext } from '../auth-context.ts';
import type { Fields } from '../fields.ts';
import { problems } from '../problem.ts';
import type { ProviderProfile, ProviderTokens } from '../provider/provider.ts';
import type { SignInMethod } from './session.ts';
import type { Problem } from '../../problem/problem.ts';

export type Challenge = { readonly challenge: string; readonly method: 's256' | 'plain' };

export type FlowRow = {
  id: string;
  user_id: string | null;
  provider_type: string;
  authentication_method: SignInMethod;
  code_challenge: string | null;
  code_challenge_method: 's256' | 'plain' | null;
  auth_code_issued_at: Date | null;
  failures: number;
  provider_secrets: Buffer | null;
  provider_access_token: Buffer | null;
  provider_refresh_token: Buffer | null;
  referrer: string | null;
  invite_token: string | null;
  linking_target_id: string | null;
  /** The session that began the linking. The flow ends with it. */
  linking_session_id: string | null;
  email_optional: boolean;
  /** The code opens a restricted session, unless the address has been proven by then. */
  opens_restricted: boolean;
  created_at: Date;
};

/** Returns whether the client exchanges a code, and so reads the query of the final redirect. */
export function isPkce(flow: FlowRow): boolean {
  return flow.code_challenge !== null;
}

const COLUMNS = sql`id, user_id, provider_type, authentication_method, code_challenge, code_challenge_method,
  auth_code_issued_at, failures, provider_secrets, provider_access_token, provider_refresh_token, referrer,
  invite_token, linking_target_id, linking_session_id, email_optional, opens_restricted, created_at`;

/** Time between the redirect to the provider and the callback. */
export const OAUTH_FLOW_MS = 600_000;
/** Time between the redirect with the code and its exchange. */
const CODE_LIFETIME_MS = 300_000;
const MAX_FAILURES = 5;

/** Reads the PKCE challenge. Both fields must be present, or neither. `null` counts as absent. */
export function parseChallenge(fields: Fields): Challenge | undefined {
  const challenge = fields.filled('code_challenge');
  const method = fields.filled('code_challenge_method');
  if (challenge === undefined && method === undefined) return undefined;
  if (challenge === undefined || method === undefined) {
    throw problems.validationFailed('PKCE flow requires code_challenge_method and code_challenge');
  }
  if (!/^[A-Za-z0-9._~-]{43,128}$/.test(challenge)) {
    throw problems.validationFailed(
      'code challenge has to be between 43 and 128 characters of A-Z, a-z, 0-9, -, ., _ and ~',
    );
  }
  const lower = method.toLowerCase();
  if (lower !== 's256' && lower !== 'plain')
    throw problems.validationFailed('Unsupported code_challenge_method');
  return { challenge, method: lower };
}

export type NewFlow = {
  readonly providerType: string;
  readonly method: SignInMethod;
  readonly challenge: Challenge | undefined;
  readonly referrer?: string | undefined;
  readonly userId?: string | undefined;
  readonly state?: string | undefined;
  readonly providerSecrets?: Buffer | undefined;
  readonly inviteToken?: string | undefined;
  readonly linking?: { readonly userId: string; readonly sessionId: string } | undefined;
  readonly emailOptional?: boolean | undefined;
};

export async function insertFlow(db: Queryable, id: string, now: Date, flow: NewFlow): Promise<void> {
  await db.query(sql`
    insert into auth.flow_state (id, user_id, provider_type, authentication_method, code_challenge,
      code_challenge_method,
      state_hash, provider_secrets, referrer, invite_token, linking_target_id, linking_session_id, email_optional,
      created_at, updated_at)
    values (${id}, ${flow.userId ?? null}, ${flow.providerType}, ${flow.method}, ${flow.challenge?.challenge ?? null},
      ${flow.challenge?.method ?? null}, ${flow.state === undefined ? null : hashSecret(flow.state)},
      ${flow.providerSecrets ?? null}, ${flow.referrer ?? null}, ${flow.inviteToken ?? null},
      ${flow.linking?.userId ?? null}, ${flow.linking?.sessionId ?? null}, ${flow.emailOptional ?? false},
      ${now}, ${now})`);
}

export type SpentState =
  | { readonly kind: 'flow' | 'used'; readonly flow: FlowRow }
  | { readonly kind: 'unknown' };

/**
 * Uses up the state of a flow. The first callback gets the row; later ones get `used`. This happens before
 * the provider
 * is called, so that two parallel callbacks cannot both continue. On another provider's path the state is
 * unknown and
 * stays unused.
 */
export async function spendState(
  db: Queryable,
  state: string,
  provider: string | undefined,
): Promise<SpentState> {
  const hash = hashSecret(state);
  const isItsPath = sql`(${provider ?? null}::text is null or provider_type = ${provider ?? null})`;
  const [flow] = await db.query<FlowRow>(sql`
    update auth.flow_state set state_hash = ${`used:${hash}`} where state_hash = ${hash} and ${isItsPath}
      returning ${COLUMNS}`);
  if (flow) return { kind: 'flow', flow };
  const [used] = await db.query<FlowRow>(sql`
    select ${COLUMNS} from auth.flow_state where state_hash = ${`used:${hash}`} and ${isItsPath}`);
  return used ? { kind: 'used', flow: used } : { kind: 'unknown' };
}

export type CodeOrder = {
  readonly flowId: string;
  readonly userId: string;
  readonly now: Date;
  readonly tokens?: ProviderTokens | undefined;
  /** The profile of an identity that is linked when the code is exchanged. */
  readonly profile?: ProviderProfile | undefined;
  readonly isRestricted?: boolean | undefined;
};

/**
 * Issues the flow's authorization code and stores its hash. Returns undefined if the flow no longer
 * exists.
 */
export async function issueCode(
  auth: AuthContext,
  db: Queryable,
  { flowId, userId, now, tokens, profile, isRestricted = false }: CodeOrder,
): Promise<string | undefined> {
  const code = randomBytes(32).toString('base64url');
  const seal = (token: string | undefined, part: string): Buffer | null =>
    token === undefined ? null : auth.boxes.providerToken.seal(Buffer.from(token), `${flowId} ${part}`);
  const [issued] = await db.query(sql`
    update auth.flow_state set auth_code = ${hashSecret(code)}, auth_code_issued_at = ${now}, user_id = ${userId},
      provider_access_token = ${seal(tokens?.accessToken, 'access')},
      provider_refresh_token = ${seal(tokens?.refreshToken, 'refresh')},
        provider_secrets = ${seal(profile && JSON.stringify(profile), 'profile')},
      opens_restricted = ${isRestricted}, updated_at = ${now}
    where id = ${flowId} returning 1`);
  return issued ? code : undefined;
}

/**
 * Returns the provider's profile, which is stored until the client that began the flow exchanges the code.
 */
export function openProfile(auth: AuthContext, flow: FlowRow): ProviderProfile | undefined {
  const opened =
    flow.provider_secrets && auth.boxes.providerToken.open(flow.provider_secrets, `${flow.id} profile`);
  return opened ? (JSON.parse(opened.toString('utf8')) as ProviderProfile) : undefined;
}

/**
 * Deletes and returns the linking flow that waits for the answer to its confirm page. Works once per code.
 */
export async function consumePendingLink(
  db: Queryable,
  code: string,
  now: Date,
): Promise<FlowRow | undefined> {
  const oldest = new Date(now.getTime() - CODE_LIFETIME_MS);
  const [flow] = await db.query<FlowRow>(sql`
    delete from auth.flow_state
    where auth_code = ${hashSecret(code)} and code_challenge is null and linking_target_id is not null
      and auth_code_issued_at >= ${oldest}
    returning ${COLUMNS}`);
  return flow;
}

export function openProviderTokens(auth: AuthContext, flow: FlowRow): ProviderTokens {
  const open = (sealed: Buffer | null, part: string): string | undefined =>
    sealed ? auth.boxes.providerToken.open(sealed, `${flow.id} ${part}`)?.toString('utf8') : undefined;
  return {
    accessToken: open(flow.provider_access_token, 'access'),
    refreshToken: open(flow.provider_refresh_token, 'refresh'),
  };
}

export type ExchangedFlow = FlowRow & { user_id: string };

/**
 * Exchanges a code: locks its row, checks it, and deletes it if it is valid. A wrong verifier is counted,
 * which the caller
 * must commit. Therefore problems are returned, not thrown.
 */
export async function redeemCode(
  db: Queryable,
  code: string,
  verifier: string,
  now: Date,
): Promise<ExchangedFlow | Problem> {
  const [flow] = await db.query<FlowRow>(sql`
    select ${COLUMNS} from auth.flow_state where auth_code = ${hashSecret(code)} for update`);
  if (!flow || flow.user_id === null || !flow.auth_code_issued_at) return problems.flowStateNotFound();
  if (now.getTime() - flow.auth_code_issued_at.getTime() > CODE_LIFETIME_MS)
    return problems.flowStateExpired();
  if (!isVerifiedBy(flow, verifier)) {
    if (flow.failures + 1 >= MAX_FAILURES)
      await db.query(sql`delete from auth.flow_state where id = ${flow.id}`);
    else await db.query(sql`update auth.flow_state set failures = failures + 1 where id = ${flow.id}`);
    return problems.badCodeVerifier();
  }
  await db.query(sql`delete from auth.flow_state where id = ${flow.id}`);
  return { ...flow, user_id: flow.user_id };
}

function isVerifiedBy(flow: FlowRow, verifier: string): boolean {
  if (flow.code_challenge === null) return false;
  const computed =
    flow.code_challenge_method === 'plain'
      ? verifier
      : createHash('sha256').update(verifier).digest('base64url');
  const [a, b] = [Buffer.from(computed), Buffer.from(flow.code_challenge)];
  return a.length === b.length && timingSafeEqual(a, b);
}

export function hashSecret(secret: string): string {
  return createHash('sha256').update(secret).digest('hex');
}
