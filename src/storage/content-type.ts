// Media types: what an upload declares, what its first bytes say, what a bucket allows, and what may be served
// without running in the browser of whoever opens the link.
import { fileTypeFromBuffer } from 'file-type';
import { contentTypeMismatch, invalidContentType, mimeTypeRefused } from './problem.ts';

const TOKEN = "[A-Za-z0-9!#$%&'*+.^_`|~-]+";
const MEDIA_TYPE = new RegExp(`^(${TOKEN})/(${TOKEN})(\\s*;.*)?$`);

/** `type/subtype` in lower case without parameters; undefined when the text is no media type. */
export function essence(contentType: string): string | undefined {
  // A header value with control characters would be stored now and break every answer later.
  if (!isHeaderValue(contentType)) return undefined;
  const match = MEDIA_TYPE.exec(contentType.trim());
  return match ? `${match[1]}/${match[2]}`.toLowerCase() : undefined;
}

export function isHeaderValue(value: string): boolean {
  return /^[\t\x20-\x7e]*$/.test(value);
}

/** Entries are `type/subtype`, `type/*` or `*`; an empty list allows everything. */
export function isAllowed(type: string, allowed: readonly string[]): boolean {
  return (
    allowed.length === 0 ||
    allowed.some((entry) => {
      const wanted = entry.toLowerCase().split(';')[0]?.trim() ?? '';
      if (wanted === '*' || wanted === '*/*') return true;
      if (wanted.endsWith('/*')) return type.startsWith(wanted.slice(0, -1));
      return wanted === type;
    })
  );
}

export function checkDeclaredType(contentType: string, allowed: readonly string[]): void {
  const type = essence(contentType);
  if (type === undefined) throw invalidContentType();
  if (!isAllowed(type, allowed)) throw mimeTypeRefused(contentType);
}

/** How many bytes the sniffers below want to see. */
export const SNIFF_BYTES = 4100;

/**
 * Holds the first bytes against the declaration, only where the bucket has a list to enforce: a list of image
 * types is worthless when a page declared as an image passes. Text formats without a signature stay as declared.
 */
export async function checkSniffedType(
  head: Buffer,
  contentType: string,
  allowed: readonly string[],
): Promise<void> {
  if (allowed.length === 0 || head.length === 0) return;
  const declared = essence(contentType) ?? '';
  const found = (await fileTypeFromBuffer(head))?.mime ?? markupType(head);
  if (found === undefined || found === declared || isAllowed(found, allowed)) return;
  // Containers tell less than their declaration: a .docx is a zip, an .svg is XML.
  if (found === 'application/zip' || found === 'application/x-cfb') return;
  if (found === 'application/xml' && /[/+]xml$/.test(declared)) return;
  if (found === 'image/svg+xml' && declared === 'image/svg+xml') return;
  throw contentTypeMismatch(declared, found);
}

/** Markup has no magic number; what a browser would run begins with one of these after white space. */
function markupType(head: Buffer): string | undefined {
  const start = head
    .subarray(0, 1024)
    .toString('latin1')
    .replace(/^\u00ef\u00bb\u00bf/, '')
    .trimStart()
    .toLowerCase();
  if (/^(<!doctype html|<html|<head|<body|<script|<iframe)/.test(start)) return 'text/html';
  const afterProlog = start
    .replace(/^<\?xml[^>]*\?>/, '')
    .replace(/^(\s|<!--[\s\S]*?-->|<!doctype[^>]*>)+/, '');
  if (afterProlog.startsWith('<svg')) return 'image/svg+xml';
  return start.startsWith('<?xml') ? 'application/xml' : undefined;
}

export type Served = {
  readonly contentType: string;
  /** Set where a browser would otherwise run what is in the file. */
  readonly policy: string | undefined;
};

const SANDBOX = "default-src 'none'; style-src 'unsafe-inline'; sandbox";

/** The type sent with an object's bytes. Files share an origin with the API, so nothing is served as a program. */
export function servedType(stored: string): Served {
  const type = essence(stored);
  if (type === undefined) return { contentType: 'application/octet-stream', policy: SANDBOX };
  if (stored.toLowerCase().includes('text/html') || type === 'application/xhtml+xml') {
    return { contentType: 'text/plain', policy: SANDBOX };
  }
  const active =
    type === 'image/svg+xml' ||
    type === 'application/pdf' ||
    /[/+]xml$/.test(type) ||
    /(javascript|ecmascript|x-shockwave-flash|multipart\/related|message\/rfc822|mhtml)/.test(type);
  return { contentType: stored, policy: active ? SANDBOX : undefined };
}
