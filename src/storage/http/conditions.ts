// Preconditions and byte ranges of an object (RFC 9110, sections 13 and 14).
import type { IncomingHttpHeaders } from 'node:http';
import type { BlobRange } from '../backend/backend.ts';

export type Representation = { readonly etag: string; readonly lastModified: Date; readonly size: number };

export type Verdict = 'serve' | 'not-modified' | 'failed';

/** Evaluates the preconditions in the order of section 13.2.2. */
export function evaluate(headers: IncomingHttpHeaders, { etag, lastModified }: Representation): Verdict {
  const modified = toSeconds(lastModified);
  const ifMatch = headers['if-match'];
  if (ifMatch !== undefined) {
    if (!matches(ifMatch, etag, 'strong')) return 'failed';
  } else {
    const unmodifiedSince = parseDate(headers['if-unmodified-since']);
    if (unmodifiedSince !== undefined && modified > unmodifiedSince) return 'failed';
  }
  const ifNoneMatch = headers['if-none-match'];
  if (ifNoneMatch !== undefined) return matches(ifNoneMatch, etag, 'weak') ? 'not-modified' : 'serve';
  const modifiedSince = parseDate(headers['if-modified-since']);
  if (modifiedSince !== undefined && modified <= modifiedSince) return 'not-modified';
  return 'serve';
}

/** The range to send, undefined for the whole, or `unsatisfiable`. Multiple ranges are not supported. */
export function selectRange(
  headers: IncomingHttpHeaders,
  { etag, lastModified, size }: Representation,
): BlobRange | 'unsatisfiable' | undefined {
  const { range } = headers;
  if (range === undefined) return undefined;
  const ifRange = headers['if-range'];
  if (typeof ifRange === 'string' && !rangeStillApplies(ifRange, etag, lastModified)) return undefined;
  const match = /^bytes=(\d*)-(\d*)$/.exec(range.trim());
  if (!match) return 'unsatisfiable';
  const [, first = '', last = ''] = match;
  if (first === '' && last === '') return 'unsatisfiable';
  if (first === '') {
    const length = Number(last);
    return length === 0 || size === 0
      ? 'unsatisfiable'
      : { start: Math.max(0, size - length), end: size - 1 };
  }
  const start = Number(first);
  const end = last === '' ? size - 1 : Math.min(Number(last), size - 1);
  return start >= size || end < start ? 'unsatisfiable' : { start, end };
}

function rangeStillApplies(ifRange: string, etag: string, lastModified: Date): boolean {
  if (/^(W\/)?"/.test(ifRange)) return matches(ifRange, etag, 'strong');
  const date = parseDate(ifRange);
  return date !== undefined && date === toSeconds(lastModified);
}

function matches(header: string, etag: string, comparison: 'strong' | 'weak'): boolean {
  if (header.trim() === '*') return true;
  return (header.match(/(?:W\/)?"[^"]*"/g) ?? []).some((candidate) => {
    if (comparison === 'strong') return candidate === etag && !etag.startsWith('W/');
    return candidate.replace(/^W\//, '') === etag.replace(/^W\//, '');
  });
}

function parseDate(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const ms = Date.parse(text);
  return Number.isNaN(ms) ? undefined : Math.floor(ms / 1000);
}

function toSeconds(date: Date): number {
  return Math.floor(date.getTime() / 1000);
}
