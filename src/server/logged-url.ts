// Redacts URLs for the log. Some APIs accept credentials in the query string, because a link cannot carry them any
// other way.
import { originForm } from '../http/request-target.ts';
import { REDACTED } from '../lib/secret-mask.ts';

const SECRET_PARAMETERS =
  /([?&](?:apikey|state|token|token_hash|code|access_token|refresh_token|auth_code|x-amz-signature|x-amz-security-token)=)[^&]*/gi;
/** Parameters of the data API are columns, which often have names such as `state` and `code`. */
const SECRET_IN_DATA_API = /([?&](?:apikey|token_hash|access_token|refresh_token|auth_code)=)[^&]*/gi;
const DATA_API = /^\/rest\/v1(?:[/?]|$)/;

export function loggedUrl(url: string): string {
  if (!url.includes('?')) return url;
  const secret = DATA_API.test(originForm(url)) ? SECRET_IN_DATA_API : SECRET_PARAMETERS;
  return url.replaceAll(secret, `$1${REDACTED}`);
}
