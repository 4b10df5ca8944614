// The frame protocol between the server and a worker, over one socket pair: a header of length, type and id, then the
// payload. Heads are JSON, bodies raw bytes.
import type { Writable } from 'node:stream';

/** u32 payload length, u8 type, u32 id. */
const HEADER_BYTES = 9;
/** Above any body the server accepts; a longer frame is a protocol error. */
const MAX_FRAME_BYTES = 2 ** 31 - 1;
/** Frames of one flush are joined into one write up to this size. */
const JOIN_BYTES = 64 * 1024;

/** Flow-control window: bytes of one answer that may be sent before the client has consumed them. */
export const STREAM_WINDOW_BYTES = 256 * 1024;
export const CHUNK_BYTES = 64 * 1024;

export const TO_WORKER = {
  configure: 1,
  request: 2,
  cancel: 3,
  credit: 4,
  ping: 5,
  load: 6,
  token: 7,
  shutdown: 8,
} as const;

export const FROM_WORKER = {
  ready: 65,
  /** A complete answer. */
  answer: 66,
  /** The head of an answer whose body follows in chunks. */
  head: 67,
  chunk: 68,
  end: 69,
  failed: 70,
  log: 71,
  pong: 72,
  loaded: 73,
  needToken: 74,
  /** There was an uncaught exception: replace the worker after its calls in flight. */
  faulty: 75,
} as const;

export const CANCEL_REASONS = ['deadline', 'client-gone', 'shutdown'] as const;
export type CancelReason = (typeof CANCEL_REASONS)[number];

export type CallerClaims = {
  readonly sub?: string;
  readonly role: string;
  readonly email?: string;
  readonly jwt: string;
};

export type WorkerSettings = {
  /** Directory of svc.yaml, or of the unpacked bundle. */
  readonly root: string;
  readonly functions: ReadonlyArray<{ readonly name: string; readonly file: string }>;
  /** The service's URL on this machine. */
  readonly url: string;
  readonly publishableKey: string;
};

/** The delivery that a call belongs to. Only svc sets it, so it proves that no client made the call. */
export type FunctionEvent = {
  /** The same for all attempts. */
  readonly id: string;
  readonly name: string;
  readonly kind: 'schedule';
  /** 1 for the first attempt. */
  readonly attempt: number;
  /** No attempt follows if this one fails. */
  readonly last: boolean;
  /** Time of the event, in ISO 8601. */
  readonly at: string;
};

export type RequestHead = {
  readonly functionName: string;
  readonly requestId: string;
  readonly method: string;
  readonly path: string;
  readonly rawQuery: string;
  /** Alternating names and values, as received. */
  readonly rawHeaders: readonly string[];
  readonly clientAddress: string;
  readonly claims: CallerClaims | null;
  readonly serviceRole: boolean;
  /** Absent for requests over HTTP. */
  readonly event?: FunctionEvent;
  readonly env: Readonly<Record<string, string>>;
};

export type HeaderValue = string | readonly string[];
export type AnswerHead = {
  readonly status: number;
  readonly headers: ReadonlyArray<readonly [name: string, value: HeaderValue]>;
};

export const FAILURE_KINDS = ['threw', 'load', 'bad-json', 'bad-answer'] as const;
export type Failure = {
  readonly kind: (typeof FAILURE_KINDS)[number];
  readonly message: string;
  readonly stack?: string | undefined;
};

export const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];
export type LogLine = {
  readonly level: LogLevel;
  readonly message: string;
  readonly fields?: unknown;
  readonly requestId?: string | undefined;
  readonly functionName?: string | undefined;
};

export type Loaded = { readonly name: string; readonly failure?: Failure | undefined; readonly ms: number };

type LargeFrame = { type: number; id: number; payload: Buffer; filled: number };

export type OnFrame = (type: number, id: number, payload: Buffer) => void;

/** Splits a byte stream into frames. Payloads are views into the pushed chunk: copy what must outlive the callback. */
export class FrameReader {
  readonly #onFrame: OnFrame;
  #rest: Buffer | undefined;
  /** A frame larger than one read, being filled. */
  #large: LargeFrame | undefined;

  constructor(onFrame: OnFrame) {
    this.#onFrame = onFrame;
  }

  push(chunk: Buffer): void {
    let data = chunk;
    if (this.#large) {
      const rest = this.#fill(this.#large, data);
      if (!rest) return;
      data = rest;
    }
    if (this.#rest) {
      data = Buffer.concat([this.#rest, data]);
      this.#rest = undefined;
    }
    let at = 0;
    while (data.length - at >= HEADER_BYTES) {
      const length = data.readUInt32LE(at);
      if (length > MAX_FRAME_BYTES) throw new Error('the frame is too long');
      const type = data.readUInt8(at + 4);
      const id = data.readUInt32LE(at + 5);
      const start = at + HEADER_BYTES;
      if (data.length - start >= length) {
        at = start + length;
        this.#onFrame(type, id, data.subarray(start, at));
        continue;
      }
      if (length > JOIN_BYTES) {
        const payload = Buffer.allocUnsafeSlow(length);
        const filled = data.copy(payload, 0, start);
        this.#large = { type, id, payload, filled };
        return;
      }
      break;
    }
    if (at < data.length) this.#rest = data.subarray(at);
  }

  /** Returns the data after the frame; undefined while the frame is incomplete. */
  #fill(large: LargeFrame, data: Buffer): Buffer | undefined {
    const taken = data.copy(large.payload, large.filled);
    large.filled += taken;
    if (large.filled < large.payload.length) return undefined;
    this.#large = undefined;
    this.#onFrame(large.type, large.id, large.payload);
    return data.subarray(taken);
  }
}

/** Batches frames into one write per flush. */
export class FrameWriter {
  readonly #socket: Writable;
  #pending: Buffer[] = [];
  #bytes = 0;
  readonly #defer: (flush: () => void) => void;

  /** `defer` schedules the flush: the later, the larger the batch. */
  constructor(socket: Writable, defer: (flush: () => void) => void = (flush) => process.nextTick(flush)) {
    this.#socket = socket;
    this.#defer = defer;
  }

  send(type: number, id: number, ...parts: readonly Buffer[]): void {
    let length = 0;
    for (const part of parts) length += part.length;
    const small = length + HEADER_BYTES <= 8192;
    const header = Buffer.allocUnsafe(small ? length + HEADER_BYTES : HEADER_BYTES);
    header.writeUInt32LE(length, 0);
    header.writeUInt8(type, 4);
    header.writeUInt32LE(id, 5);
    if (this.#pending.length === 0) this.#defer(() => this.flush());
    this.#pending.push(header);
    if (small) {
      let at = HEADER_BYTES;
      for (const part of parts) at += part.copy(header, at);
    } else this.#pending.push(...parts);
    this.#bytes += length + HEADER_BYTES;
  }

  flush(): void {
    const pending = this.#pending;
    if (pending.length === 0 || this.#socket.destroyed) return;
    const bytes = this.#bytes;
    this.#pending = [];
    this.#bytes = 0;
    if (pending.length === 1 && pending[0]) {
      this.#socket.write(pending[0]);
      return;
    }
    if (bytes <= JOIN_BYTES) {
      this.#socket.write(Buffer.concat(pending, bytes));
      return;
    }
    this.#socket.cork();
    for (const part of pending) this.#socket.write(part);
    this.#socket.uncork();
  }
}

export function toJson(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value));
}

/**
 * The shape is trusted: use it only for what the server sends. `runtime/parse-frame.ts` validates what a worker
 * sends.
 */
export function fromJson<T>(payload: Buffer): T {
  return JSON.parse(payload.toString('utf8')) as T;
}

/** A length-prefixed JSON head followed by the body. */
export function withHead(head: Buffer, body: Buffer | undefined): Buffer[] {
  const length = Buffer.allocUnsafe(4);
  length.writeUInt32LE(head.length, 0);
  return body ? [length, head, body] : [length, head];
}

export function splitHead(payload: Buffer): { head: Buffer; body: Buffer } {
  const length = payload.readUInt32LE(0);
  return { head: payload.subarray(4, 4 + length), body: payload.subarray(4 + length) };
}
