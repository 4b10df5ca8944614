// A worker's answer to a call: a validated head, and a body that is complete or a stream with backpressure.
import { Readable } from 'node:stream';
import type { AnswerHead } from '../worker/protocol.ts';

export type FunctionAnswer = AnswerHead & { readonly body: Buffer | Readable | undefined };

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
