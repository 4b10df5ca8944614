// The trace that a request belongs to, as whoever called says it (W3C Trace Context). It is handed on as it came; spans are
// left to those who measure.
import type { IncomingMessage } from 'node:http';

/** Version, trace, parent, flags. A version after the first may say more. */
const TRACEPARENT =
  /^(?:00(?=.{53}$)|(?!00|ff)[0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?$/;

/**
 * The id of the trace, 32 hexadecimal characters. A header that is not valid is taken out of the request, and
 * `tracestate` with it: nobody behind it is to see what means nothing.
 */
export function takeTraceId({ headers, rawHeaders }: IncomingMessage): string | undefined {
  const { traceparent } = headers;
  if (traceparent === undefined) return undefined;
  const traceId = typeof traceparent === 'string' ? TRACEPARENT.exec(traceparent)?.[1] : undefined;
  if (traceId !== undefined) return traceId;
  delete headers['traceparent'];
  delete headers['tracestate'];
  for (let at = rawHeaders.length - 2; at >= 0; at -= 2) {
    if (/^trace(parent|state)$/i.test(rawHeaders[at] ?? '')) rawHeaders.splice(at, 2);
  }
  return undefined;
}
