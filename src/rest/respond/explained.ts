// The answer to a request for the execution plan.
import type { WireResult } from '../../postgres/wire/wire.ts';
import { contentType, type ExplainMedia } from '../request/media-type.ts';
import type { Answer } from './respond.ts';

export function explained(result: WireResult | undefined, media: ExplainMedia): Answer {
  const lines = (result?.rows ?? []).map(([line]) => line?.toString('utf8') ?? '');
  const body = media.format === 'json' ? lines.join('\n') : lines.map((line) => `${line}\n`).join('');
  return { status: 200, contentType: contentType(media), body };
}
