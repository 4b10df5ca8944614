// The answer that is a page of rows: of a relation, or of what a function returned.
import { notSingular } from '../problem.ts';
import { contentType, type MediaType } from '../request/media-type.ts';
import { contentRange, pageStatus } from './content-range.ts';
import type { Answer } from './respond.ts';

export type AnsweredPage = Pick<Answer, 'body' | 'contentLocation' | 'applied' | 'warnings'> & {
  readonly media: MediaType;
  readonly offset: number;
  readonly rows: number;
  /** False for the one result of a function that returns no set. */
  readonly isSet: boolean;
  readonly total: number | undefined;
  readonly isExact: boolean;
};

export function pageAnswer(page: AnsweredPage): Answer {
  const { media, body, offset, rows, isSet, total, isExact, contentLocation, applied, warnings } = page;
  if (media.kind === 'singular' && isSet && rows !== 1) throw notSingular(rows);
  return {
    status: pageStatus(offset, rows, total, isExact, {
      ...(contentLocation === undefined ? {} : { 'content-location': contentLocation }),
      ...(applied === undefined ? {} : { 'preference-applied': applied }),
    }),
    contentType: contentType(media),
    body,
    contentRange: contentRange(offset, rows, total),
    contentLocation,
    applied,
    warnings,
  };
}
