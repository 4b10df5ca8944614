import type { IncomingMessage } from 'node:http';
import { describe, expect, test } from 'vitest';
import { readTraceId } from './trace-context.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const PARENT = '00f067aa0ba902b7';

function requestWith(traceparent: string): Pick<IncomingMessage, 'headers' | 'rawHeaders'> {
  return {
    headers: { host: 'a', traceparent, tracestate: 'a=1' },
    rawHeaders: ['Host', 'a', 'Traceparent', traceparent, 'TraceState', 'a=1'],
  };
}

const read = (request: Pick<IncomingMessage, 'headers' | 'rawHeaders'>): string | undefined =>
  readTraceId(request as IncomingMessage);

test.each([`00-${TRACE}-${PARENT}-01`, `00-${TRACE}-${PARENT}-00`, `cc-${TRACE}-${PARENT}-01-more`])(
  '%s is kept as it is',
  (traceparent) => {
    const request = requestWith(traceparent);
    expect(read(request)).toBe(TRACE);
    expect(request).toEqual(requestWith(traceparent));
  },
);

describe('what is not valid is taken out of the request', () => {
  test.each([
    ['empty', ''],
    ['upper case', `00-${TRACE.toUpperCase()}-${PARENT}-01`],
    ['no trace', `00-${'0'.repeat(32)}-${PARENT}-01`],
    ['no parent', `00-${TRACE}-${'0'.repeat(16)}-01`],
    ['a version that cannot be', `ff-${TRACE}-${PARENT}-01`],
    ['more than version 00 has', `00-${TRACE}-${PARENT}-01-more`],
    ['too short', `00-${TRACE}-${PARENT}`],
    ['two of them', `00-${TRACE}-${PARENT}-01, 00-${TRACE}-${PARENT}-01`],
    ['a line break', `00-${TRACE}-${PARENT}-01\nx`],
  ])('%s', (_what, traceparent) => {
    const request = requestWith(traceparent);
    expect(read(request)).toBeUndefined();
    expect(request).toEqual({ headers: { host: 'a' }, rawHeaders: ['Host', 'a'] });
  });
});

test('without the header nothing changes', () => {
  const request = { headers: { tracestate: 'a=1' }, rawHeaders: ['tracestate', 'a=1'] };
  expect(read(request)).toBeUndefined();
  expect(request.rawHeaders).toHaveLength(2);
});
