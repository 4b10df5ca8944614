// What a worker answers to a request: the head, checked before anything of it reaches a socket, and a body that
// is whole or streams at the pace of the client.
import { Readable } from 'node:stream';
import type { AnswerHead, HeaderValue } from '../worker/protocol.ts';

export type FunctionAnswer = AnswerHead & { readonly body: Buffer | Readable | undefined };

/** A worker's words are checked before they reach a socket: code of the project runs beside what writes them. */
export function parseHead(payload: Buffer): AnswerHead & { bodyless: boolean } {
  const head: unknown = JSON.parse(payload.toString('utf8'));
  if (typeof head !== 'object' || head === null || !('status' in head) || !('headers' in head)) {
    throw new Error('an answer without a head');
  }
  const { status, headers } = head;
  if (typeof status !== 'number' || !Number.isInteger(status) || status < 200 || status > 599) {
    throw new Error('an answer without a status');
  }
  if (!Array.isArray(headers)) throw new Error('an answer without headers');
  return {
    status,
    headers: headers.map((pair: unknown): readonly [string, HeaderValue] => {
      if (!Array.isArray(pair) || typeof pair[0] !== 'string') throw new Error('a header without a name');
      const [name, value]: [string, unknown] = [pair[0], pair[1]];
      return [name, Array.isArray(value) ? value.map(String) : String(value)];
    }),
    bodyless: 'bodyless' in head && head.bodyless === true,
  };
}

/** A streamed body: takes from the worker no more than the client takes from us. */
export class AnswerStream extends Readable {
  readonly #grant: (bytes: number) => void;
  readonly #onGone: () => void;
  #untold = 0;
  #complete = false;

  constructor(grant: (bytes: number) => void, onGone: () => void) {
    super({ highWaterMark: 64 * 1024 });
    this.#grant = grant;
    this.#onGone = onGone;
  }

  receive(chunk: Buffer): void {
    if (this.destroyed) return;
    this.#untold += chunk.length;
    if (this.push(chunk)) this.#tell();
  }

  complete(): void {
    this.#complete = true;
    if (!this.destroyed) this.push(null);
  }

  override _read(): void {
    this.#tell();
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    if (!this.#complete) this.#onGone();
    callback(error);
  }

  #tell(): void {
    if (this.#untold === 0) return;
    this.#grant(this.#untold);
    this.#untold = 0;
  }
}
