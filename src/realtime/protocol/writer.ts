// Writes the frames of one socket. The first write of a tick is sent at once, the others of the tick together. A slow
// reader skips broadcasts and presence, and is disconnected when its queue is full, so that the queue stays bounded.
import type { Duplex } from 'node:stream';
import { toFrame } from './frame.ts';

/** Queued bytes above which a reader is slow. One large broadcast does not make a reader slow. */
const SLOW_ABOVE_BYTES = 1024 * 1024;
const SLOW_AFTER_MS = 1_000;
const SKIP_ABOVE_BYTES = 5 * 1024 * 1024;
const CAUGHT_UP_BELOW_BYTES = 256 * 1024;
const CLOSE_ABOVE_BYTES = 8 * 1024 * 1024;

export type WriterEvents = {
  /** Called at the first skipped frame since the reader has caught up. */
  readonly skipping: () => void;
  /** Called when the reader has caught up after skipped frames. */
  readonly caughtUp: () => void;
  /** Called when the queue is full. */
  readonly full: () => void;
};

const corked: Writer[] = [];
/** Number of ticks with writes. */
let tick = 0;
let isTickOpen = false;

export class Writer {
  readonly #socket: Duplex;
  readonly #events: WriterEvents;
  #isCorked = false;
  #wroteIn = -1;
  #isSkipping = false;
  /** Time since which the reader is slow, by `performance.now()`. */
  #slowSince: number | undefined;
  #isFull = false;
  skipped = 0;

  constructor(socket: Duplex, events: WriterEvents) {
    this.#socket = socket;
    this.#events = events;
    // The buffer is empty after a drain.
    socket.on('drain', () => this.#drained());
  }

  /** Number of queued bytes. */
  get queued(): number {
    return this.#socket.writableLength;
  }

  /** Sends a message that must arrive: a reply, a change, the end of a channel. */
  send(message: string | Uint8Array): void {
    this.write(toFrame(message));
  }

  /** Writes a frame, which other sockets may share. */
  write(frame: Buffer): void {
    if (this.#isFull || !this.#socket.writable) return;
    if (!isTickOpen) openTick();
    if (this.#wroteIn === tick && !this.#isCorked) this.#cork();
    this.#wroteIn = tick;
    this.#socket.write(frame);
    if (this.#socket.writableLength <= CLOSE_ABOVE_BYTES) return;
    this.#isFull = true;
    this.#events.full();
  }

  /** Writes a frame that a slow reader skips. */
  writeOrSkip(frame: Buffer): void {
    if (this.#isSkipping || this.#isSlow()) this.#skip();
    else this.write(frame);
  }

  #isSlow(): boolean {
    const queued = this.queued;
    if (queued <= SLOW_ABOVE_BYTES) {
      this.#slowSince = undefined;
      return false;
    }
    const now = performance.now();
    this.#slowSince ??= now;
    return queued > SKIP_ABOVE_BYTES || now - this.#slowSince > SLOW_AFTER_MS;
  }

  #skip(): void {
    this.skipped += 1;
    if (this.#isSkipping) {
      // The drain event may precede the first skip.
      if (this.#socket.writableLength < CAUGHT_UP_BELOW_BYTES) this.#drained();
      return;
    }
    this.#isSkipping = true;
    this.#events.skipping();
  }

  #drained(): void {
    this.#slowSince = undefined;
    if (!this.#isSkipping) return;
    this.#isSkipping = false;
    this.#events.caughtUp();
  }

  #cork(): void {
    this.#isCorked = true;
    this.#socket.cork();
    corked.push(this);
  }

  uncork(): void {
    this.#isCorked = false;
    this.#socket.uncork();
  }
}

function openTick(): void {
  isTickOpen = true;
  process.nextTick(() => {
    isTickOpen = false;
    tick += 1;
    for (const writer of corked.splice(0)) writer.uncork();
  });
}
