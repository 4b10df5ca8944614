// Decides where a browser may be sent after a flow: to an origin of `auth.redirect_urls`, or to our own. The check runs
// when a flow starts and when it ends, because the list may have changed in between.
import type { AuthSettings } from '../settings.ts';

/** Schemes that run code or read files in the browser. They are rejected even if the list contains them. */
const DANGEROUS: ReadonlySet<string> = new Set([
  'javascript:',
  'data:',
  'vbscript:',
  'file:',
  'blob:',
  'about:',
  'filesystem:',
  'view-source:',
]);

const HIERARCHICAL: ReadonlySet<string> = new Set(['http:', 'https:']);

/** Returns the candidate if it is allowed, else the first of the list. Undefined means a JSON response. */
export function chooseTarget(
  candidate: string | undefined,
  settings: Pick<AuthSettings, 'redirectUrls'>,
  authUrl: string,
): string | undefined {
  if (candidate !== undefined && isAllowed(candidate, settings.redirectUrls, authUrl)) return candidate;
  return settings.redirectUrls[0];
}

export function isAllowed(candidate: string, list: readonly string[], authUrl: string): boolean {
  const target = parseTarget(candidate);
  if (!target) return false;
  const own = parseTarget(authUrl);
  const isOwn = own !== undefined && loopbackOrigin(own) === loopbackOrigin(target);
  // Applies even if the list contains our own origin: any user may have uploaded the content of these paths.
  if (isOwn && servesOthersContent(target)) return false;
  if (own && urlOrigin(own) === urlOrigin(target)) return true;
  return list.some((entry) => {
    const allowed = parseTarget(entry);
    return allowed !== undefined && urlOrigin(allowed) === urlOrigin(target);
  });
}

/** Returns scheme, host and port, with one name for all loopback names. */
function loopbackOrigin(url: URL): string {
  return urlOrigin(url).replace(/\/\/(127(\.\d+){3}|\[::1\]|([^/:]+\.)?localhost)(?=:|$)/, '//localhost');
}

/**
 * Returns whether a path leads to stored objects or code functions. Decodes first, because the router
 * decodes too.
 */
function servesOthersContent({ pathname }: URL): boolean {
  let path = pathname;
  for (let again = true; again;) {
    const decoded = path.replaceAll(/%([0-9a-f]{2})/gi, (_escape, hex: string) =>
      String.fromCharCode(Number.parseInt(hex, 16)),
    );
    again = decoded !== path;
    path = decoded;
  }
  const segments = path
    .toLowerCase()
    .split(/[/\\]+/)
    .filter((segment) => segment !== '' && segment !== '.');
  return segments.some(
    (segment, index) =>
      (segment === 'storage' || segment === 'functions') && (index === 0 || segments[index + 1] === 'v1'),
  );
}

/** Returns undefined for text that two URL parsers could read differently. */
function parseTarget(text: string): URL | undefined {
  // The URL parser drops tabs and newlines and turns backslashes into slashes. A browser, a proxy or an app's
  // parser may
  // not. No legitimate URL contains these characters.
  // oxlint-disable-next-line no-control-regex
  if (/[\u0000-\u0020\u007f\\]/.test(text)) return undefined;
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    return undefined;
  }
  if (DANGEROUS.has(url.protocol) || url.username !== '' || url.password !== '') return undefined;
  // The URL parser accepts `https:evil` and `https:/evil` as if the slashes were there.
  if (!/^[a-z][a-z0-9+.-]*:\/\//i.test(text)) return undefined;
  return url;
}

/** Returns scheme, host and port, also for custom schemes, which have no origin in the URL standard. */
function urlOrigin(url: URL): string {
  return HIERARCHICAL.has(url.protocol) ? url.origin : `${url.protocol}//${url.host.toLowerCase()}`;
}

/** Parameters of a redirect. Undefined values are omitted. */
export type Parameters = Readonly<Record<string, string | number | undefined>>;

/** Replaces the fragment. Client libraries recognise our fragment by its empty parameter `sb`. */
export function withFragment(target: string, parameters: Parameters): string {
  return `${target.split('#')[0]}#${put(new URLSearchParams(), { ...parameters, sb: '' }).toString()}`;
}

/** Adds parameters to the query. Keeps the application's own parameters. */
export function withQuery(target: string, parameters: Parameters): string {
  const url = new URL(target.split('#')[0] ?? target);
  put(url.searchParams, parameters);
  return url.href;
}

function put(search: URLSearchParams, parameters: Parameters): URLSearchParams {
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined) search.set(name, String(value));
  }
  return search;
}
