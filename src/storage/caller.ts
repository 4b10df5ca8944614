// Who calls, route by route. Three kinds of door: closed (a key is needed), lenient (an unusable credential is an
// anonymous caller, so that a link to a public object always works) and open (a token in the URL is the grant).
import type { FastifyRequest } from 'fastify';
import { resolveDataCaller, type Caller } from '../identity/caller.ts';
import type { CallerSettings } from '../postgres/caller-pool.ts';
import type { CredentialReader } from '../identity/credentials.ts';
import { badToken, invalidRole, noCredentials } from './problem.ts';

export async function closedCaller(credentials: CredentialReader, request: FastifyRequest): Promise<Caller> {
  const resolution = resolveDataCaller(await credentials.read(request.headers));
  if (resolution.ok) return resolution.caller;
  const { refusal } = resolution;
  if (refusal.reason === 'bad-token') throw badToken(refusal.fault.message);
  throw noCredentials();
}

/** Undefined when nothing usable was presented. */
export async function lenientCaller(
  credentials: CredentialReader,
  request: FastifyRequest,
): Promise<Caller | undefined> {
  const resolution = resolveDataCaller(await credentials.read(request.headers));
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
