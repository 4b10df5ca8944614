// Reads the trace of a request from its headers (W3C Trace Context), which are forwarded unchanged. The server
// records no spans.
import type { IncomingMessage } from 'node:http';

/** Version, trace, parent, flags. Later versions may have further fields. */
const TRACEPARENT =
  /^(?:00(?=.{53}$)|(?!00|ff)[0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?$/;

/**
 * Returns the trace id of 32 hexadecimal characters. Removes an invalid `traceparent` and its `tracestate` from the
 * request, so that later handlers do not forward them.
 */
export function readTraceId({ headers, rawHeaders }: IncomingMessage): string | undefined {
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
