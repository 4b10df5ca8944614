// A worker's answer to a call: a validated head, and a body that is complete or a stream with backpressure.
import { Readable } from 'node:stream';
import type { AnswerHead, HeaderValue } from '../worker/protocol.ts';

export type FunctionAnswer = AnswerHead & { readonly body: Buffer | Readable | undefined };

/** Validated before it reaches a socket: project code runs in the process that wrote it. */
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

/** A streamed body. Grants the worker new credit only for bytes the client has consumed. */
export class AnswerStream extends Readable {
  readonly #grant: (bytes: number) => void;
  readonly #onGone: () => void;
  /** Bytes received and not yet granted again. */
  #received = 0;
  #complete = false;

  constructor(grant: (bytes: number) => void, onGone: () => void) {
    super({ highWaterMark: 64 * 1024 });
    this.#grant = grant;
    this.#onGone = onGone;
  }

  receive(chunk: Buffer): void {
    if (this.destroyed) return;
    this.#received += chunk.length;
    if (this.push(chunk)) this.#grantReceived();
  }

  complete(): void {
    this.#complete = true;
    if (!this.destroyed) this.push(null);
  }

  override _read(): void {
    this.#grantReceived();
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    if (!this.#complete) this.#onGone();
    callback(error);
  }

  #grantReceived(): void {
    if (this.#received === 0) return;
    this.#grant(this.#received);
    this.#received = 0;
  }
}
