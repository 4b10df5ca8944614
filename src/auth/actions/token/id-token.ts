// grant_type=id_token: for native apps that got the provider's ID token themselves. Signature, issuer, audience and
// nonce are checked as strictly as in a redirect. Refusals have the form of OAuth errors.
import type { AuthContext } from '../../auth-context.ts';
import { signedInIds, requireUser } from '../../access.ts';
import { signInWithProfile, transactionWithRetry } from '../../accounts/provider-sign-in.ts';
import { orThrow, problems } from '../../problem.ts';
import { IdTokenRefused, type Provider, type ProviderProfile } from '../../provider/provider.ts';
import { BUCKETS } from '../../rate-limit.ts';
import { json, type Answer, type AuthRequest } from '../../http/request.ts';
import { issueTokens } from '../../sessions/session.ts';

export async function tokenByIdToken(request: AuthRequest): Promise<Answer> {
  const { auth, body } = request;
  await auth.limiter.byAddress(BUCKETS.token, request);
  const idToken = body.filled('id_token');
  if (idToken === undefined) throw problems.badRequestOAuth('invalid request', 'id_token required');
  const { provider, verifyIdToken } = findProvider(request);
  const profile = await verify(auth, provider.name, verifyIdToken, {
    idToken,
    accessToken: body.filled('access_token'),
    nonce: body.filled('nonce'),
  });
  const linking = body.flag('link_identity') === true ? signedInIds(await requireUser(request)) : undefined;
  const order = { provider: provider.name, profile, emailOptional: provider.emailOptional, linking };
  const opened = await transactionWithRetry(auth, (db) => signInWithProfile(db, request, order));
  return json(await issueTokens(request, orThrow(opened)));
}

function findProvider(request: AuthRequest): { readonly provider: Provider; readonly verifyIdToken: Verify } {
  const { auth, body, settings } = request;
  const name = body.filled('provider') ?? byClientId(request);
  if (name === undefined) {
    if (body.filled('client_id') !== undefined && body.filled('issuer') !== undefined)
      throw problems.providerDisabled('custom');
    throw problems.badRequestOAuth('invalid request', 'provider or client_id and issuer required');
  }
  const provider = auth.findProvider(name);
  if (!provider || !(provider.name in settings.oauth)) throw problems.providerDisabled(name);
  const { verifyIdToken } = provider;
  if (!verifyIdToken) throw problems.validationFailed(`Provider ${name} does not issue ID tokens`);
  return { provider, verifyIdToken };
}

type Verify = NonNullable<Provider['verifyIdToken']>;

/**
 * Finds the provider by client id and issuer, which an older form of the request sends instead of its
 * name.
 */
function byClientId({ body, settings }: AuthRequest): string | undefined {
  const clientId = body.filled('client_id');
  const issuer = body.filled('issuer');
  if (clientId === undefined || issuer === undefined) return undefined;
  return Object.entries(settings.oauth).find(([, provider]) =>
    provider.clientId.split(',').includes(clientId),
  )?.[0];
}

async function verify(
  auth: AuthContext,
  name: string,
  verifyIdToken: Verify,
  order: Parameters<Verify>[0],
): Promise<ProviderProfile> {
  try {
    return await verifyIdToken(order);
  } catch (error) {
    if (error instanceof IdTokenRefused)
      throw problems.badRequestOAuth(error.oauthError, error.message, error);
    auth.log.warn({ err: error, provider: name }, 'an ID token could not be checked');
    throw problems.unexpectedFailure('The ID token could not be checked', error);
  }
}
