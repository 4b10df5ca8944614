// Who calls, route by route. Three kinds of door: closed (a key is needed), lenient (an unusable credential is an
// anonymous caller, so that a link to a public object always works) and open (a token in the URL is the grant).
import type { FastifyRequest } from 'fastify';
import { resolveDataCaller, tokenCaller, type Caller, type Resolution } from '../../identity/caller.ts';
import type { CallerSettings } from '../../postgres/pool/caller-pool.ts';
import type { CredentialReader, Presented } from '../../identity/credentials.ts';
import { badToken, invalidRole, noCredentials } from '../problem.ts';

export async function closedCaller(credentials: CredentialReader, request: FastifyRequest): Promise<Caller> {
  const resolution = resolve(await credentials.read(request.headers));
  if (resolution.ok) return resolution.caller;
  const { refusal } = resolution;
  if (refusal.reason === 'bad-token') throw badToken(refusal.fault.message);
  throw noCredentials();
}

/**
 * As everywhere, except that a token needs no key beside it: it proves more than the publishable key does, and tus
 * clients set up for the hosted original send nothing else.
 */
function resolve(presented: Presented): Resolution {
  const { apikey, bearer } = presented;
  if (apikey.kind === 'none' && bearer.kind === 'token') return { ok: true, caller: tokenCaller(bearer) };
  if (apikey.kind === 'none' && bearer.kind === 'bad-token') {
    return { ok: false, refusal: { reason: 'bad-token', fault: bearer.fault } };
  }
  return resolveDataCaller(presented);
}

/** Undefined when nothing usable was presented. */
export async function lenientCaller(
  credentials: CredentialReader,
  request: FastifyRequest,
): Promise<Caller | undefined> {
  const resolution = resolve(await credentials.read(request.headers));
  return resolution.ok ? resolution.caller : undefined;
}

export async function serviceCaller(credentials: CredentialReader, request: FastifyRequest): Promise<Caller> {
  const caller = await closedCaller(credentials, request);
  if (caller.role !== 'service_role') throw invalidRole();
  return caller;
}

/** Object owners are users: a key has no owner. */
export function ownerOf(caller: Caller): string | null {
  return caller.user?.sub ?? null;
}

/** The caller with what policies may ask about the request. Names of operations are written in code. */
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
