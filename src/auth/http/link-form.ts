// Signs the form on the page of a mailed link. A copy of the page in a scanner or a cache cannot be posted after ten
// minutes, and a form that did not come from the page is rejected.
import type { AuthRequest } from './request.ts';

export const LINK_FORM_FIELD = 'form';
const LINK_FORM_MS = 600_000;

/** Returns the form value for the link of this request. */
export function signLinkForm(request: AuthRequest): string {
  const until = request.now.getTime() + LINK_FORM_MS;
  return `${until}.${request.auth.linkForms.sign(signedMessage(request, until)).toString('base64url')}`;
}

/** Returns true if the posted form has a value for this link that has not expired. */
export function hasValidLinkForm(request: AuthRequest): boolean {
  const [time = '', mac = ''] = (request.body.filled(LINK_FORM_FIELD) ?? '').split('.', 2);
  const until = Number(time);
  if (!(until > request.now.getTime())) return false;
  return request.auth.linkForms.verify(signedMessage(request, until), Buffer.from(mac, 'base64url'));
}

function signedMessage({ query }: AuthRequest, until: number): string {
  return [until, query.filled('type') ?? '', query.filled('token') ?? ''].join('\0');
}
