// The execution plan instead of the result, for the person at the keyboard: only under `svc dev`.
import type { WireResult } from '../../postgres/wire/wire.ts';
import type { MediaType } from '../request/media-type.ts';
import type { ResultStatement } from '../sql/render-read.ts';

type PlanMedia = Extract<MediaType, { kind: 'plan' }>;

export function renderExplain(statement: ResultStatement, { format, options }: PlanMedia): ResultStatement {
  const words = [`FORMAT ${format.toUpperCase()}`, ...options.map((option) => option.toUpperCase())];
  return { ...statement, text: `EXPLAIN (${words.join(', ')}) ${statement.text}` };
}

export function explainedBody(result: WireResult | undefined, { format }: PlanMedia): string {
  const lines = (result?.rows ?? []).map(([line]) => line?.toString('utf8') ?? '');
  return format === 'json' ? lines.join('\n') : lines.map((line) => `${line}\n`).join('');
}
