// The charset of a request body. JSON is UTF-8 (RFC 8259, section 8.1): another encoding would be stored wrongly.
const CHARSET = /;\s*charset\s*=\s*"?([^\s";]*)/i;
const UTF8_NAMES: ReadonlySet<string> = new Set(['', 'utf-8', 'utf8', 'us-ascii']);

/** Returns the charset that a Content-Type names, unless UTF-8 includes it. */
export function foreignCharset(contentType: string | undefined): string | undefined {
  const charset = CHARSET.exec(contentType ?? '')?.[1]?.toLowerCase() ?? '';
  return UTF8_NAMES.has(charset) ? undefined : charset;
}
