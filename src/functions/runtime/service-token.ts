// Short-lived `service_role` tokens for `ctx.serviceClient`, shared by all requests for one minute.
import type { SigningKeys } from '../../identity/signing-keys.ts';
import { signToken } from '../../identity/token.ts';

const LIFETIME_SECONDS = 300;
const RENEW_AFTER_SECONDS = 60;

export function serviceTokens(keys: Pick<SigningKeys, 'signing'>, now: () => Date): () => Promise<string> {
  let known: { readonly text: Promise<string>; readonly issuedAt: number; readonly kid: string } | undefined;
  return () => {
    const seconds = Math.floor(now().getTime() / 1000);
    const key = keys.signing;
    if (known?.kid === key.kid && seconds - known.issuedAt < RENEW_AFTER_SECONDS) return known.text;
    const text = signToken(
      { role: 'service_role', iss: 'svc-functions', iat: seconds, exp: seconds + LIFETIME_SECONDS },
      key,
    );
    known = { text, issuedAt: seconds, kid: key.kid };
    return text;
  };
}
