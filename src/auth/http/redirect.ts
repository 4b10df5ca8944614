// Where a browser may be sent after a flow: an origin of `auth.redirect_urls` or our own. Decided when a flow
// starts and again when it ends, because the list may have shrunk in between.
import type { AuthSettings } from '../settings.ts';

/** Schemes that run code or read files in the browser; never a target, whatever the list says. */
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

/** The target when it is allowed, else the first of the list, else undefined: then the answer is JSON. */
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
  const isOwn = own !== undefined && addressOf(own) === addressOf(target);
  // Also when the list names our own origin: what is there was uploaded by anybody, and a redirect hands it tokens.
  if (isOwn && servesOthersContent(target)) return false;
  if (own && siteOf(own) === siteOf(target)) return true;
  return list.some((entry) => {
    const allowed = parseTarget(entry);
    return allowed !== undefined && siteOf(allowed) === siteOf(target);
  });
}

/** Scheme, host and port; the names of this machine count as one. */
function addressOf(url: URL): string {
  return siteOf(url).replace(/\/\/(127(\.\d+){3}|\[::1\]|([^/:]+\.)?localhost)(?=:|$)/, '//localhost');
}

/** Objects and answers of code functions. The router reads a path after decoding it, so it is decoded here too. */
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

/** Undefined for whatever two parsers could read differently. */
function parseTarget(text: string): URL | undefined {
  // The URL parser drops tabs and newlines and turns backslashes into slashes; a browser's address bar, a proxy or
  // an app's own parser may not. Such a text is nobody's honest address.
  // oxlint-disable-next-line no-control-regex
  if (/[\u0000-\u0020\u007f\\]/.test(text)) return undefined;
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    return undefined;
  }
  if (DANGEROUS.has(url.protocol) || url.username !== '' || url.password !== '') return undefined;
  // `https:evil` and `https:/evil` parse as if the slashes were there.
  if (!/^[a-z][a-z0-9+.-]*:\/\//i.test(text)) return undefined;
  return url;
}

/** What must be equal: scheme, host and port. A custom scheme has no origin of its own in the URL standard. */
function siteOf(url: URL): string {
  return HIERARCHICAL.has(url.protocol) ? url.origin : `${url.protocol}//${url.host.toLowerCase()}`;
}

type Parameters = Readonly<Record<string, string | number | undefined>>;

/** Tokens and errors go into the fragment, which no server sees. An existing fragment is replaced. */
export function withFragment(target: string, parameters: Parameters): string {
  return `${target.split('#')[0]}#${encode(parameters)}`;
}

/** Codes go into the query; what the application had there stays. */
export function withQuery(target: string, parameters: Parameters): string {
  const url = new URL(target.split('#')[0] ?? target);
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined) url.searchParams.set(name, String(value));
  }
  return url.href;
}

function encode(parameters: Parameters): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined) search.set(name, String(value));
  }
  return search.toString();
}
