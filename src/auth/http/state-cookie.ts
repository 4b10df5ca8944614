// Binds a flow to the browser that began it: otherwise an attacker could have a victim finish the attacker's own
// flow and be signed in as the attacker. One cookie per flow, so that two tabs do not disturb each other.
import { hashSecret } from '../sessions/flow-state.ts';
import type { AuthRequest } from './request.ts';

const LIFETIME_SECONDS = 600;

export function stateCookie(state: string, authUrl: string): string {
  // Apple posts back from its own site, which Lax would not send the cookie along with.
  const site = authUrl.startsWith('https:') ? 'Secure; SameSite=None' : 'SameSite=Lax';
  return `${cookieName(state)}=1; Path=${new URL(authUrl).pathname}/callback; Max-Age=${LIFETIME_SECONDS}; HttpOnly; ${site}`;
}

/**
 * Whether this callback may finish the flow. A browser that navigates here without the cookie did not begin it.
 * What does not say that it navigates is a program: nobody can trick it into following a link.
 */
export function isSameBrowser(request: AuthRequest, state: string): boolean {
  if (hasCookie(request, cookieName(state))) return true;
  return request.header('sec-fetch-mode') !== 'navigate';
}

/** For a linking flow: only a cookie counts, since an image on a page elsewhere does not say that it navigates. */
export function beganHere(request: AuthRequest, state: string): boolean {
  return hasCookie(request, cookieName(state));
}

/** Goes with the page that asks; strict, because only that page's own button may send it. */
export function askedCookie(code: string, authUrl: string): string {
  const secure = authUrl.startsWith('https:') ? 'Secure; ' : '';
  return `${askedName(code)}=1; Path=${new URL(authUrl).pathname}/user/identities/confirm; Max-Age=300; HttpOnly; ${secure}SameSite=Strict`;
}

export function isAskedBrowser(request: AuthRequest, code: string): boolean {
  return hasCookie(request, askedName(code));
}

function hasCookie(request: AuthRequest, name: string): boolean {
  const cookies = (request.header('cookie') ?? '').split(';').map((cookie) => cookie.trim());
  return cookies.includes(`${name}=1`);
}

function askedName(code: string): string {
  return `svc_link_${hashSecret(code).slice(0, 16)}`;
}

function cookieName(state: string): string {
  return `svc_flow_${hashSecret(state).slice(0, 16)}`;
}
