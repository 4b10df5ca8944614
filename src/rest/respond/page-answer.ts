// Responses with a page of rows, from a relation or a function, and their Content-Range.
import { notSingular, rangeNotSatisfiable } from '../problem.ts';
import { contentType, type MediaType } from '../request/media-type.ts';
import type { Answer } from './respond.ts';

export type AnsweredPage = Pick<Answer, 'body' | 'contentLocation' | 'applied' | 'warnings'> & {
  readonly media: MediaType;
  readonly offset: number;
  readonly rows: number;
  /** False for the single result of a function that returns no set. */
  readonly isSet: boolean;
  readonly total: number | undefined;
  readonly isExact: boolean;
};

export function pageAnswer(page: AnsweredPage): Answer {
  const { media, body, offset, rows, isSet, total, isExact, contentLocation, applied, warnings } = page;
  if (media.kind === 'singular' && isSet && rows !== 1) throw notSingular(rows);
  // An estimate may be too low.
  if (isExact && total !== undefined && offset > total) {
    throw rangeNotSatisfiable(
      `An offset of ${offset} was requested, but there are only ${total} rows.`,
      total,
      {
        ...(contentLocation === undefined ? {} : { 'content-location': contentLocation }),
        ...(applied === undefined ? {} : { 'preference-applied': applied }),
      },
    );
  }
  return {
    status: total !== undefined && rows < total ? 206 : 200,
    contentType: contentType(media),
    body,
    contentRange: contentRange(offset, rows, total),
    contentLocation,
    applied,
    warnings,
  };
}

export function contentRange(offset: number, page: number, total: number | undefined): string {
  const rows = page > 0 && total !== 0 ? `${offset}-${offset + page - 1}` : '*';
  return `${rows}/${total ?? '*'}`;
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
