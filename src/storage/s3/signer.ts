// Whose signature it is. Two kinds of keys: the operator's, from the environment, acts as the service role; the
// project's, with the publishable key as secret and a session token, acts as the token's user under its policies.
import { resolveDataCaller, SERVICE, type Caller } from '../../identity/caller.ts';
import type { StorageContext } from '../storage-context.ts';
import { accessDenied, expiredToken, invalidToken, keysMissing, unknownAccessKey } from './problem.ts';
import { readClaim, sameText, verify, type Claim, type Seal, type SignedRequest } from './signature.ts';

/** The access key id of requests that carry a user's token. */
const PROJECT_KEY_ID = 'svc';
const MIN_SECRET_LENGTH = 32;

export type Signer = { readonly caller: Caller; readonly claim: Claim; readonly seal: Seal };

export async function readSigner(
  context: StorageContext,
  publishableKey: string,
  request: SignedRequest,
): Promise<Signer> {
  const service = serviceKeys(context.env);
  const claim = readClaim(request);
  if (!claim) throw accessDenied('The request is not signed');
  const isService = sameText(claim.accessKeyId, service.id);
  if (!isService && claim.accessKeyId !== PROJECT_KEY_ID) throw unknownAccessKey();
  const seal = verify(claim, request, isService ? service.secret : publishableKey, context.now());
  if (isService) {
    if (claim.sessionToken !== undefined) throw invalidToken('This access key takes no session token');
    return { caller: SERVICE, claim, seal };
  }
  return { caller: await tokenHolder(context, publishableKey, claim.sessionToken), claim, seal };
}

async function tokenHolder(
  context: StorageContext,
  publishableKey: string,
  token: string | undefined,
): Promise<Caller> {
  // Without a user the publishable key would be a secret that everybody knows.
  if (token === undefined) throw accessDenied('A session token is needed with this access key');
  const presented = await context.credentials.read({
    apikey: publishableKey,
    authorization: `Bearer ${token}`,
  });
  if (presented.bearer.kind === 'bad-token' || presented.bearer.kind === 'other') {
    const { fault } = presented.bearer;
    throw fault.message === 'JWT expired' ? expiredToken() : invalidToken(fault.message);
  }
  const resolution = resolveDataCaller(presented);
  if (presented.bearer.kind !== 'token' || !resolution.ok) throw invalidToken();
  return resolution.caller;
}

function serviceKeys(env: StorageContext['env']): { readonly id: string; readonly secret: string } {
  const id = env['SVC_S3_ACCESS_KEY_ID'] ?? '';
  const secret = env['SVC_S3_SECRET_ACCESS_KEY'] ?? '';
  if (!/^[\w.-]{3,128}$/.test(id) || id === PROJECT_KEY_ID || secret.length < MIN_SECRET_LENGTH) {
    throw keysMissing();
  }
  return { id, secret };
}
