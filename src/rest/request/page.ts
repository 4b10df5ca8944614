// The requested page: limit and offset parameters, narrowed by a Range header, and the default limit if neither sets
// an upper bound.
import { rangeNotSatisfiable } from '../problem.ts';
import { MAX_LITERAL, LIMIT, OFFSET, type Count } from './query.ts';

export const DEFAULT_LIMIT = 20;

export type Page = {
  readonly offset: number;
  /** Undefined: no bound. */
  readonly limit: number | undefined;
  /** True when only the default bounds it. */
  readonly isDefault: boolean;
};

export const EVERYTHING: Page = { offset: 0, limit: undefined, isDefault: false };

type PageRequest = {
  readonly limit: number | undefined;
  readonly offset: number | undefined;
  readonly rangeHeader: string | undefined;
  /** Set for list queries; undefined for calls and writes. */
  readonly defaultLimit: number | undefined;
};

const RANGE = /^(\d{1,15})-(\d{0,15})$/;

/** Whether a Range header selects only some rows; `0-` selects all of them. */
export function isRowRange(header: string | undefined): boolean {
  const range = RANGE.exec(header ?? '');
  return range !== null && !(Number(range[1]) === 0 && range[2] === '');
}

export function toPage({ limit, offset, rangeHeader, defaultLimit }: PageRequest): Page {
  let first = offset ?? 0;
  // A limit of zero cannot conflict with the Range header.
  if (limit === 0) return { offset: first, limit: 0, isDefault: false };
  // Exclusive end, Infinity when open.
  let end = limit === undefined ? Number.POSITIVE_INFINITY : first + limit;
  const range = rangeHeader === undefined ? null : RANGE.exec(rangeHeader);
  if (range) {
    const lower = Number(range[1]);
    const upper = range[2] === '' ? Number.POSITIVE_INFINITY : Number(range[2]);
    if (upper < lower) {
      throw rangeNotSatisfiable(
        'The lower boundary must be lower than or equal to the upper boundary in the Range header.',
      );
    }
    first = Math.max(first, lower);
    end = Math.min(end, upper + 1);
    if (end <= first) {
      throw rangeNotSatisfiable('The range header and the limit have no rows in common.');
    }
  }
  if (end !== Number.POSITIVE_INFINITY) {
    return { offset: first, limit: Math.max(0, end - first), isDefault: false };
  }
  return { offset: first, limit: defaultLimit, isDefault: defaultLimit !== undefined };
}

/** Returns the part of a page that is SQL text rather than a parameter. */
export function pageShape({ limit, offset, isDefault }: Page): string {
  const shown = limit === undefined ? '' : limit <= MAX_LITERAL ? String(limit) : '$';
  return `${shown}${isDefault ? 'd' : ''},${offset > 0 ? '$' : ''}`;
}

export type PageCounts = { readonly limit: Count | undefined; readonly offset: Count | undefined };

export function pageCounts({ limit, offset }: Page): PageCounts {
  return {
    limit: limit === undefined ? undefined : limit <= MAX_LITERAL ? { literal: limit } : { slot: LIMIT },
    offset: offset > 0 ? { slot: OFFSET } : undefined,
  };
}
