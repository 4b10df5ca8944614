// grant_type=id_token: a native app got the provider's ID token by itself. Signature, issuer, audience and nonce
// are checked as strictly as in a redirect; refusals have the OAuth shape.
import { must } from '../../../lib/assert.ts';
import { Problem } from '../../../problem/problem.ts';
import type { AuthContext } from '../../auth-context.ts';
import { idsOf, requireUser } from '../../access.ts';
import { resolveIdentity } from '../../accounts/identity-link.ts';
import {
  badRequestOAuth,
  providerDisabled,
  unexpectedFailure,
  userBanned,
  validationFailed,
} from '../../problem.ts';
import { IdTokenRefused, type Provider, type ProviderProfile } from '../../provider/provider.ts';
import { BUCKETS } from '../../rate-limit.ts';
import { json, type Answer, type AuthRequest } from '../../http/request.ts';
import { openSession } from '../../sessions/session.ts';
import { findUserById } from '../../users/user.ts';
import { againOnRace } from '../callback.ts';

export async function tokenByIdToken(auth: AuthContext, request: AuthRequest): Promise<Answer> {
  const { body, now } = request;
  await auth.limiter.byAddress(BUCKETS.token, request);
  const idToken = body.filled('id_token');
  if (idToken === undefined) throw badRequestOAuth('invalid request', 'id_token required');
  const { provider, verifyIdToken } = findProvider(auth, request);
  const profile = await verify(auth, provider.name, verifyIdToken, {
    idToken,
    accessToken: body.filled('access_token'),
    nonce: body.filled('nonce'),
  });
  const linking =
    body.flag('link_identity') === true ? idsOf(await requireUser(auth, request.presented, now)) : undefined;
  const outcome = await againOnRace(() =>
    auth.db.transaction(async (db) => {
      const resolved = await resolveIdentity(auth, db, request, {
        provider: provider.name,
        profile,
        emailOptional: provider.emailOptional,
        linking,
      });
      if (resolved.kind === 'refused') return resolved.problem;
      const user = must(await findUserById(db, resolved.userId), 'the user of an ID token');
      return (
        (await openSession(auth, db, { user, method: 'oauth', device: request, now })) ?? userBanned(403)
      );
    }),
  );
  auth.outbox.wake();
  if (outcome instanceof Problem) throw outcome;
  return json(outcome);
}

function findProvider(
  auth: AuthContext,
  request: AuthRequest,
): { readonly provider: Provider; readonly verifyIdToken: Verify } {
  const { body, settings } = request;
  const name = body.filled('provider') ?? byClientId(request);
  if (name === undefined) {
    if (body.filled('client_id') !== undefined && body.filled('issuer') !== undefined)
      throw providerDisabled('custom');
    throw badRequestOAuth('invalid request', 'provider or client_id and issuer required');
  }
  const provider = auth.providers.find(name);
  if (!provider || !(name in settings.oauth)) throw providerDisabled(name);
  const { verifyIdToken } = provider;
  if (!verifyIdToken) throw validationFailed(`Provider ${name} does not issue ID tokens`);
  return { provider, verifyIdToken };
}

type Verify = NonNullable<Provider['verifyIdToken']>;

/** The older form names the client id and the issuer instead of the provider. */
function byClientId({ body, settings }: AuthRequest): string | undefined {
  const clientId = body.filled('client_id');
  const issuer = body.filled('issuer');
  if (clientId === undefined || issuer === undefined) return undefined;
  return Object.entries(settings.oauth).find(([, one]) => one.clientId.split(',').includes(clientId))?.[0];
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
    if (error instanceof IdTokenRefused) throw badRequestOAuth(error.oauthError, error.message, error);
    auth.log.warn({ err: error, provider: name }, 'an ID token could not be checked');
    throw unexpectedFailure('The ID token could not be checked', error);
  }
}
