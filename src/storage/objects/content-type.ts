// Media types: what an upload declares, what its first bytes show, what a bucket allows, and which types are
// served so that a browser runs no script in them.
import { contentTypeMismatch, invalidContentType, mimeTypeRefused } from '../problem.ts';

const TOKEN = "[A-Za-z0-9!#$%&'*+.^_`|~-]+";
const MEDIA_TYPE = new RegExp(`^(${TOKEN})/(${TOKEN})(\\s*;.*)?$`);

/**
 * Returns `type/subtype` in lower case without parameters, or undefined for a text that is not a media type.
 */
export function essence(contentType: string): string | undefined {
  // The type becomes a header later: control characters would break every response.
  if (!isHeaderValue(contentType)) return undefined;
  const match = MEDIA_TYPE.exec(contentType.trim());
  return match ? `${match[1]}/${match[2]}`.toLowerCase() : undefined;
}

export function isHeaderValue(value: string): boolean {
  return /^[\t\x20-\x7e]*$/.test(value);
}

/** Other names of a format, for comparing only: the type is stored and served as declared. */
const ALIASES: Readonly<Record<string, string>> = {
  'image/jpg': 'image/jpeg',
  'image/pjpeg': 'image/jpeg',
  'image/x-png': 'image/png',
  'image/vnd.microsoft.icon': 'image/x-icon',
  'audio/mp3': 'audio/mpeg',
  'audio/wave': 'audio/wav',
  'audio/x-wav': 'audio/wav',
  'audio/vnd.wave': 'audio/wav',
  'audio/x-flac': 'audio/flac',
  'audio/m4a': 'audio/mp4',
  'audio/x-m4a': 'audio/mp4',
  'video/x-m4v': 'video/mp4',
  'application/x-zip-compressed': 'application/zip',
};

function canonical(type: string): string {
  return ALIASES[type] ?? type;
}

/** Entries are `type/subtype`, `type/*` or `*`; an empty list allows everything. */
export function isAllowed(type: string, allowed: readonly string[]): boolean {
  return (
    allowed.length === 0 ||
    allowed.some((entry) => {
      const wanted = entry.toLowerCase().split(';')[0]?.trim() ?? '';
      if (wanted === '*' || wanted === '*/*') return true;
      if (wanted.endsWith('/*')) return type.startsWith(wanted.slice(0, -1));
      return canonical(wanted) === canonical(type);
    })
  );
}

export function checkDeclaredType(contentType: string, allowed: readonly string[]): void {
  const type = essence(contentType);
  if (type === undefined) throw invalidContentType();
  if (!isAllowed(type, allowed)) throw mimeTypeRefused(contentType);
}

/** Bytes that `checkSniffedType` needs. */
export const SNIFF_BYTES = 1024;

/**
 * The declared type is trusted, except that markup and PDF do not pass as an image, audio, video or font. Only for
 * buckets with a list of allowed types, which the declared type could otherwise evade.
 */
export function checkSniffedType(head: Buffer, contentType: string, allowed: readonly string[]): void {
  if (allowed.length === 0) return;
  const declared = essence(contentType) ?? '';
  if (!/^(image|audio|video|font)\//.test(declared) || /[/+]xml$/.test(declared)) return;
  const found = activeType(head);
  if (found !== undefined) throw contentTypeMismatch(declared, found);
}

/** Markup has no magic number: it is a `<` that opens something, after white space and a byte order mark. */
function activeType(head: Buffer): string | undefined {
  const wide = /^(\u00ff\u00fe<\0|\u00fe\u00ff\0<)/.test(head.toString('latin1', 0, 4));
  const start = head
    .toString('latin1', 0, SNIFF_BYTES)
    .replaceAll('\0', '')
    .replace(/^(\u00ef\u00bb\u00bf|\u00ff\u00fe|\u00fe\u00ff)/, '')
    .trimStart()
    .toLowerCase();
  if (start.startsWith('%pdf-')) return 'application/pdf';
  if (!wide && !/^<[a-z!?/]/.test(start)) return undefined;
  if (/<svg[\s>]/.test(start)) return 'image/svg+xml';
  return start.startsWith('<?xml') ? 'application/xml' : 'text/html';
}

export type Served = {
  readonly contentType: string;
  /** Undefined only for formats that no browser runs scripts in. */
  readonly policy: string | undefined;
};

/** Sent with everything under the storage API except known inert types. */
export const SANDBOX = "default-src 'none'; style-src 'unsafe-inline'; sandbox";

/** Exact names, not patterns: for a browser `image/x+xml` is a document with scripts. */
const INERT: ReadonlySet<string> = new Set([
  'text/plain',
  ...['apng', 'avif', 'bmp', 'gif', 'heic', 'heif', 'jpeg', 'jpg', 'jxl', 'pjpeg', 'png', 'tiff', 'webp'].map(
    (name) => `image/${name}`,
  ),
  'image/vnd.microsoft.icon',
  'image/x-icon',
  'image/x-png',
  ...['aac', 'flac', 'm4a', 'mp3', 'mp4', 'mpeg', 'ogg', 'opus', 'wav', 'wave', 'webm'].map(
    (name) => `audio/${name}`,
  ),
  'audio/vnd.wave',
  'audio/x-flac',
  'audio/x-m4a',
  'audio/x-wav',
  ...['3gpp', 'mp4', 'mpeg', 'ogg', 'quicktime', 'webm', 'x-m4v', 'x-matroska'].map(
    (name) => `video/${name}`,
  ),
  ...['collection', 'otf', 'ttf', 'woff', 'woff2'].map((name) => `font/${name}`),
]);

/** Parameters that cannot be read as a second type: of a list, a browser takes the last. */
const PLAIN_PARAMETERS = new RegExp(`^${TOKEN}/${TOKEN}(\\s*;\\s*(${TOKEN}=(${TOKEN}|"[^",\\\\]*"))?)*\\s*$`);

/** The type sent with an object's bytes. Files share an origin with the API, so no script may run in them. */
export function servedType(stored: string): Served {
  const type = essence(stored);
  if (type === undefined) return { contentType: 'application/octet-stream', policy: SANDBOX };
  const text = stored.toLowerCase();
  if (text.includes('text/html') || text.includes('application/xhtml+xml')) {
    return { contentType: 'text/plain', policy: SANDBOX };
  }
  // Parts of these types have separate headers, which the policy of the whole may not cover.
  if (/(multipart|message)\//.test(text)) return { contentType: 'application/octet-stream', policy: SANDBOX };
  const inert = INERT.has(type) && PLAIN_PARAMETERS.test(stored.trim());
  return { contentType: stored, policy: inert ? undefined : SANDBOX };
}
