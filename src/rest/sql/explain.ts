// EXPLAIN of a statement in place of its result; only `svc dev` serves it.
import type { ExplainMedia } from '../request/media-type.ts';
import type { ResultStatement } from './render-result.ts';

export function explain(
  { text, slots }: ResultStatement,
  { format, options }: ExplainMedia,
): { readonly statement: ResultStatement } {
  const words = [`FORMAT ${format.toUpperCase()}`, ...options.map((option) => option.toUpperCase())];
  return { statement: { text: `EXPLAIN (${words.join(', ')}) ${text}`, slots, columns: [] } };
}
