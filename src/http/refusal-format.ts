// A refusal as an API writes it, for refusals that no route of it makes: invalid HTTP, or a URL that cannot be read.
import type { Problem } from '../problem/problem.ts';

export type WrittenRefusal = {
  readonly status: number;
  /** Besides those that every refusal has. */
  readonly headers: Readonly<Record<string, string>>;
  /** JSON. */
  readonly body: string;
};

export type RefusalFormat = (problem: Problem, requestId: string) => WrittenRefusal;

/** Outside the APIs, which have formats of their own. */
export const generalFormat: RefusalFormat = (problem) => ({
  status: problem.status,
  headers: problem.headers,
  body: JSON.stringify(toBody(problem)),
});

export function toBody({ code, message, details, hint }: Problem): Record<string, string | null> {
  return { code, message, details: details ?? null, hint: hint ?? null };
}
