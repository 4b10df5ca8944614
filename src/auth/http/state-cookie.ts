// Cookies that bind a flow to the browser that began it. Without them an attacker could make a victim finish the
// attacker's flow (login CSRF, RFC 6749 10.12). One cookie per flow, so that two tabs do not interfere.
import { hashSecret } from '../sessions/flow-state.ts';
import type { AuthRequest } from './request.ts';

const LIFETIME_SECONDS = 600;

export function stateCookie(state: string, authUrl: string): string {
  // Apple posts back from another site, and a browser does not send a Lax cookie with such a request.
  const site = authUrl.startsWith('https:') ? 'Secure; SameSite=None' : 'SameSite=Lax';
  return (
    `${cookieName('flow', state)}=1; Path=${new URL(authUrl).pathname}/callback; ` +
    `Max-Age=${LIFETIME_SECONDS}; HttpOnly; ${site}`
  );
}

/**
 * Returns whether this callback may finish the flow. A browser that navigates here without the cookie did not
 * begin it. A
 * request that is not a navigation comes from a program, which cannot be tricked into following a link.
 */
export function isSameBrowser(request: AuthRequest, state: string): boolean {
  if (hasStateCookie(request, state)) return true;
  return request.header('sec-fetch-mode') !== 'navigate';
}

/**
 * Returns whether the request has the flow's cookie. A linking flow needs it: an image on another page is
 * not a navigation.
 */
export function hasStateCookie(request: AuthRequest, state: string): boolean {
  return hasCookie(request, cookieName('flow', state));
}

/** Returns the cookie of the confirm page. It is strict, because only the button on that page may send it. */
export function linkCookie(code: string, authUrl: string): string {
  const secure = authUrl.startsWith('https:') ? 'Secure; ' : '';
  return (
    `${cookieName('link', code)}=1; Path=${new URL(authUrl).pathname}/user/identities/confirm; Max-Age=300; ` +
    `HttpOnly; ${secure}SameSite=Strict`
  );
}

export function hasLinkCookie(request: AuthRequest, code: string): boolean {
  return hasCookie(request, cookieName('link', code));
}

function hasCookie(request: AuthRequest, name: string): boolean {
  const cookies = (request.header('cookie') ?? '').split(';').map((cookie) => cookie.trim());
  return cookies.includes(`${name}=1`);
}

function cookieName(kind: 'flow' | 'link', secret: string): string {
  return `svc_${kind}_${hashSecret(secret).slice(0, 16)}`;
}
