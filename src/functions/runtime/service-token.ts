// Short-lived `service_role` tokens for `ctx.serviceClient`, shared by all requests for one minute.
import type { SigningKeys } from '../../identity/signing-keys.ts';
import { signToken } from '../../identity/token.ts';

const LIFETIME_SECONDS = 300;
const RENEW_AFTER_SECONDS = 60;

export class ServiceTokens {
  readonly #keys: SigningKeys;
  readonly #now: () => Date;
  #token: { readonly text: Promise<string>; readonly issuedAt: number; readonly kid: string } | undefined;

  constructor(keys: SigningKeys, now: () => Date) {
    this.#keys = keys;
    this.#now = now;
  }

  current(): Promise<string> {
    const seconds = Math.floor(this.#now().getTime() / 1000);
    const key = this.#keys.signing;
    const known = this.#token;
    if (known?.kid === key.kid && seconds - known.issuedAt < RENEW_AFTER_SECONDS) return known.text;
    const text = signToken(
      { role: 'service_role', iss: 'svc-functions', iat: seconds, exp: seconds + LIFETIME_SECONDS },
      key,
    );
    this.#token = { text, issuedAt: seconds, kid: key.kid };
    return text;
  }
}
