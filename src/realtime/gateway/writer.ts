// Everything that one socket is sent. The first write of a tick leaves at once, and the others together; a reader that is slow loses what it can do
// without, and in the end its connection, so that what waits for it stays bounded.
import type { Duplex } from 'node:stream';
import { toFrame } from './frame.ts';

/** Bytes that wait in the process for the socket to take them. One large broadcast makes no slow reader yet. */
const SLOW_ABOVE = 1024 * 1024;
const SLOW_AFTER_MS = 1_000;
const SKIP_ABOVE = 5 * 1024 * 1024;
const CAUGHT_UP_BELOW = 256 * 1024;
const CLOSE_ABOVE = 8 * 1024 * 1024;

export type WriterEvents = {
  /** The first time that something was left out since the reader had caught up. */
  readonly skipping: () => void;
  /** After something was left out. */
  readonly caughtUp: () => void;
  /** Too much waits. */
  readonly full: () => void;
};

const corked: Writer[] = [];
/** Counts the ticks in which something was written. */
let tick = 0;
let isTickOpen = false;

export class Writer {
  readonly #socket: Duplex;
  readonly #events: WriterEvents;
  #isCorked = false;
  #wroteIn = -1;
  #isSkipping = false;
  /** By `performance.now()`: more than a little waits since then. */
  #slowSince: number | undefined;
  #isFull = false;
  skipped = 0;

  constructor(socket: Duplex, events: WriterEvents) {
    this.#socket = socket;
    this.#events = events;
    // The buffer is empty then.
    socket.on('drain', () => this.#drained());
  }

  /** Bytes that wait to be taken. */
  get queued(): number {
    return this.#socket.writableLength;
  }

  /** What must arrive: answers, changes, what ends a channel. */
  send(message: string | Uint8Array): void {
    this.write(toFrame(message));
  }

  /** A frame that may be shared with other sockets. */
  write(frame: Buffer): void {
    if (this.#isFull || !this.#socket.writable) return;
    if (!isTickOpen) openTick();
    if (this.#wroteIn === tick && !this.#isCorked) this.#cork();
    this.#wroteIn = tick;
    this.#socket.write(frame);
    if (this.#socket.writableLength <= CLOSE_ABOVE) return;
    this.#isFull = true;
    this.#events.full();
  }

  /** What a slow reader can do without. */
  writeOrSkip(frame: Buffer): void {
    if (this.#isSkipping || this.#isSlow()) this.#skip();
    else this.write(frame);
  }

  #isSlow(): boolean {
    const queued = this.queued;
    if (queued <= SLOW_ABOVE) {
      this.#slowSince = undefined;
      return false;
    }
    const now = performance.now();
    this.#slowSince ??= now;
    return queued > SKIP_ABOVE || now - this.#slowSince > SLOW_AFTER_MS;
  }

  #skip(): void {
    this.skipped += 1;
    if (this.#isSkipping) {
      // A drain may have passed before the first skip.
      if (this.#socket.writableLength < CAUGHT_UP_BELOW) this.#drained();
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
