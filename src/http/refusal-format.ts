// The format of rejections outside an API's routes, such as invalid HTTP or an unreadable URL.
import type { Problem } from '../problem/problem.ts';

export type WrittenRefusal = {
  readonly status: number;
  /** Headers in addition to those of every rejection. */
  readonly headers: Readonly<Record<string, string>>;
  /** JSON. */
  readonly body: string;
};

export type RefusalFormat = (problem: Problem, requestId: string) => WrittenRefusal;

/** The format outside the APIs, which have specific formats. */
export const generalFormat: RefusalFormat = (problem) => ({
  status: problem.status,
  headers: problem.headers,
  body: JSON.stringify(toBody(problem)),
});

export function toBody({ code, message, details, hint }: Problem): Record<string, string | null> {
  return { code, message, details: details ?? null, hint: hint ?? null };
}
