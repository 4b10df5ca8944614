// Resolves the token of a channel to its caller. Without a token, the API key of the connection decides.
import type { Credential, CredentialReader } from '../../identity/credentials.ts';
import {
  ANON,
  isRestricted,
  SERVICE,
  SESSION_RESTRICTED,
  tokenCaller,
  type Caller,
} from '../../identity/caller.ts';
import { badToken, JoinRefused } from '../problem.ts';

/** Accepts an API key in place of a token. Throws `JoinRefused`. */
export async function resolveCaller(
  token: string | undefined,
  connectionCaller: Caller,
  credentials: CredentialReader,
): Promise<Caller> {
  if (token === undefined) return connectionCaller;
  const { apikey: credential } = await credentials.read({ apikey: token });
  return toCaller(credential);
}

/** Throws `JoinRefused`. */
export function toCaller(credential: Credential): Caller {
  switch (credential.kind) {
    case 'publishable':
      return ANON;
    case 'secret':
      return SERVICE;
    case 'token':
      if (credential.claims.expiresAt === null || credential.claims.payload['role'] === undefined) {
        throw badToken('Fields `role` and `exp` are required in JWT');
      }
      if (credential.hasEnded) throw badToken('Session has ended');
      if (isRestricted(credential.claims)) throw new JoinRefused('Unauthorized', SESSION_RESTRICTED);
      return tokenCaller(credential);
    case 'bad-token':
      if (credential.fault.kind === 'claims') throw badToken(credential.fault.message);
      throw new JoinRefused('JwtSignatureError', 'Failed to validate JWT signature');
    case 'none':
    case 'keylike':
    case 'other':
      throw new JoinRefused('MalformedJWT', 'The token provided is not a valid JWT');
  }
}

/** Returns the expiry of the caller's token in milliseconds since 1970. API keys do not expire. */
export function tokenExpiryMs({ expiresAt }: Caller): number | undefined {
  return expiresAt === null ? undefined : expiresAt * 1000;
}
