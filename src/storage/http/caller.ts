// The caller of a storage request, as its route requires one.
import type { FastifyRequest } from 'fastify';
import { resolveDataCaller, resolveToken, type Caller, type Resolution } from '../../identity/caller.ts';
import type { CallerSettings } from '../../postgres/pool/caller-pool.ts';
import type { CredentialReader, Presented } from '../../identity/credentials.ts';
import { badToken, noCredentials, sessionEnded, sessionRestricted } from '../problem.ts';

/** Refuses a request without usable credentials. */
export async function requireCaller(credentials: CredentialReader, request: FastifyRequest): Promise<Caller> {
  const resolution = resolve(await credentials.read(request.headers));
  if (resolution.ok) return resolution.caller;
  const { refusal } = resolution;
  if (refusal.reason === 'bad-token') throw badToken(refusal.fault.message);
  if (refusal.reason === 'restricted') throw sessionRestricted();
  if (refusal.reason === 'session-ended') throw sessionEnded();
  throw noCredentials();
}

/**
 * Accepts a user token without an API key, unlike the data API. The token proves more than the publishable key, and
 * tus clients configured for Supabase send nothing else.
 */
function resolve(presented: Presented): Resolution {
  const { apikey, bearer } = presented;
  if (apikey.kind === 'none' && bearer.kind === 'token') return resolveToken(bearer);
  if (apikey.kind === 'none' && bearer.kind === 'bad-token') {
    return { ok: false, refusal: { reason: 'bad-token', fault: bearer.fault } };
  }
  return resolveDataCaller(presented);
}

/** Undefined without usable credentials, so that the address of a public object always works. */
export async function optionalCaller(
  credentials: CredentialReader,
  request: FastifyRequest,
): Promise<Caller | undefined> {
  const resolution = resolve(await credentials.read(request.headers));
  return resolution.ok ? resolution.caller : undefined;
}

/** Objects are owned by users; an API key owns nothing. */
export function callerOwner(caller: Caller): string | null {
  return caller.user?.sub ?? null;
}

/** The caller, with the settings that policies can read about the request. */
export function during<C extends CallerSettings>(caller: C, operation: string, request: FastifyRequest): C {
  return {
    ...caller,
    extra: [
      ['storage.operation', operation],
      ['request.method', request.method],
      ['request.path', request.url.split('?')[0] ?? ''],
    ],
  };
}
