// Who a channel acts for: the token that it was joined with or was given later, else the key of its connection.
import type { Credential, CredentialReader } from '../../identity/credentials.ts';
import { ANON, SERVICE, tokenCaller, type Caller } from '../../identity/caller.ts';
import { badToken, JoinRefused } from '../problem.ts';

/** Throws `JoinRefused`. A key in the place of a token is a key. */
export async function callerOf(
  token: string | undefined,
  ofConnection: Caller,
  credentials: CredentialReader,
): Promise<Caller> {
  if (token === undefined) return ofConnection;
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

/** When the caller's token ends, in milliseconds since 1970; keys do not. */
export function endOf({ expiresAt }: Caller): number | undefined {
  return expiresAt === null ? undefined : expiresAt * 1000;
}
