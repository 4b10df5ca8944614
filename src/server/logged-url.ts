// URLs as the log may show them: some APIs carry credentials in the query string, because a link can carry
// nothing else.
import { REDACTED } from '../lib/secret-mask.ts';

const SECRET_PARAMETERS =
  /([?&](?:apikey|state|token|token_hash|code|access_token|refresh_token|auth_code|x-amz-signature|x-amz-security-token)=)[^&]*/gi;

export function loggedUrl(url: string): string {
  return url.includes('?') ? url.replaceAll(SECRET_PARAMETERS, `$1${REDACTED}`) : url;
}
