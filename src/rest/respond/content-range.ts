// Content-Range, and the status that follows from it.
import { rangeNotSatisfiable } from '../problem.ts';

export function contentRange(offset: number, page: number, total: number | undefined): string {
  const rows = page > 0 && total !== 0 ? `${offset}-${offset + page - 1}` : '*';
  return `${rows}/${total ?? '*'}`;
}

/** 416 needs an exact total: an estimate may be too low. */
export function pageStatus(
  offset: number,
  page: number,
  total: number | undefined,
  isExact: boolean,
  /** Headers of a 416. */
  headers: Readonly<Record<string, string>> = {},
): 200 | 206 {
  if (total === undefined) return 200;
  if (isExact && offset > total) {
    throw rangeNotSatisfiable(
      `An offset of ${offset} was requested, but there are only ${total} rows.`,
      total,
      headers,
    );
  }
  return page < total ? 206 : 200;
}

/** The estimate, corrected where the page shows that it is wrong. */
export function clampEstimate(
  estimate: number,
  offset: number,
  page: number,
  limit: number | undefined,
): number {
  const isLastPage = limit === undefined || page < limit;
  if (isLastPage && (page > 0 || offset === 0)) return offset + page;
  return Math.max(Math.round(estimate), offset + page);
}
