// Validates what a worker sends: project code runs in its process and can break the code that writes the frames.
import {
  FAILURE_KINDS,
  type AnswerHead,
  type Failure,
  type HeaderValue,
  type Loaded,
} from '../worker/protocol.ts';

/** Throws if the head cannot be sent to a client. */
export function parseHead(payload: Buffer): AnswerHead & { bodyless: boolean } {
  const head: unknown = JSON.parse(payload.toString('utf8'));
  if (typeof head !== 'object' || head === null || !('status' in head) || !('headers' in head)) {
    throw new Error('the answer has no head');
  }
  const { status, headers } = head;
  if (typeof status !== 'number' || !Number.isInteger(status) || status < 200 || status > 599) {
    throw new Error('the answer has no valid status');
  }
  if (!Array.isArray(headers)) throw new Error('the answer has no headers');
  return {
    status,
    headers: headers.map((pair: unknown): readonly [string, HeaderValue] => {
      if (!Array.isArray(pair) || typeof pair[0] !== 'string')
        throw new Error('an answer header has no name');
      const [name, value]: [string, unknown] = [pair[0], pair[1]];
      return [name, Array.isArray(value) ? value.map(String) : String(value)];
    }),
    bodyless: 'bodyless' in head && head.bodyless === true,
  };
}

/** Throws if the payload is not a failure. */
export function parseFailure(payload: Buffer): Failure {
  return readFailure(JSON.parse(payload.toString('utf8')));
}

/** Throws if the payload is not the result of a load. */
export function parseLoaded(payload: Buffer): Loaded {
  const loaded: unknown = JSON.parse(payload.toString('utf8'));
  if (typeof loaded !== 'object' || loaded === null || !('name' in loaded) || !('ms' in loaded)) {
    throw new Error('the loaded function has no name');
  }
  const { name, ms } = loaded;
  if (typeof name !== 'string' || typeof ms !== 'number')
    throw new Error('the loaded function has no valid name');
  return 'failure' in loaded ? { name, ms, failure: readFailure(loaded.failure) } : { name, ms };
}

function readFailure(value: unknown): Failure {
  if (typeof value !== 'object' || value === null || !('kind' in value) || !('message' in value)) {
    throw new Error('the failure has no kind');
  }
  const { message } = value;
  const kind = FAILURE_KINDS.find((known) => known === value.kind);
  if (kind === undefined || typeof message !== 'string') throw new Error('the failure has no valid kind');
  const stack = 'stack' in value && typeof value.stack === 'string' ? value.stack : undefined;
  return { kind, message, stack };
}
