// Messages of the PostgreSQL protocol (version 3.0) as bytes: cuts the incoming stream into messages and writes outgoing
// ones. What a message means is decided elsewhere.
import { Buffer } from 'node:buffer';
import { freeChunk } from '../../lib/free-chunk.ts';

/** A value in text format; a Buffer is taken as the UTF-8 bytes of the text. */
export type WireValue = string | Buffer | null;

/** A message's body lies between `start` and `end` of a shared buffer, because most messages are not kept. */
export type OnFrame = (type: number, bytes: Buffer, start: number, end: number) => void;

/** Type and length. */
const HEADER_BYTES = 5;

/** Cuts the byte stream into messages. Only a message that spans two reads is copied. */
export class FrameReader {
  readonly #onFrame: OnFrame;
  readonly #isWanted: (type: number, size: number) => boolean;
  readonly #header = Buffer.alloc(HEADER_BYTES);
  /** A message whose header has arrived but not its end. */
  #frame: Buffer | undefined;
  /** Bytes of it so far. */
  #filled = 0;
  /** Bytes still to come of a message that is skipped. */
  #unwanted = 0;
  /** Whether the bytes handed out last are only valid during the call. */
  isBorrowed = false;

  /**
   * `isWanted` is asked before memory is allocated for a message that spans reads, and again with each read: false skips
   * the rest of the message.
   */
  constructor(onFrame: OnFrame, isWanted: (type: number, size: number) => boolean) {
    this.#onFrame = onFrame;
    this.#isWanted = isWanted;
  }

  /** Takes the first `length` bytes; with `isReused` the next read overwrites them. */
  push(bytes: Buffer, length: number, isReused: boolean): void {
    let at = Math.min(this.#unwanted, length);
    this.#unwanted -= at;
    if (this.#filled > 0) at = this.#continue(bytes, at, length);
    this.isBorrowed = isReused;
    while (length - at >= HEADER_BYTES) {
      const size = 1 + bytes.readUInt32BE(at + 1);
      if (length - at < size) break;
      this.#onFrame(bytes[at] ?? 0, bytes, at + HEADER_BYTES, at + size);
      at += size;
    }
    if (at < length) this.#continue(bytes, at, length);
  }

  /** Adds to the unfinished message and hands it out once complete. Answers where the rest starts. */
  #continue(bytes: Buffer, from: number, length: number): number {
    let at = from;
    if (!this.#frame) {
      at += this.#fill(this.#header, bytes, at, length);
      if (this.#filled < HEADER_BYTES) return at;
      const size = 1 + this.#header.readUInt32BE(1);
      if (!this.#isWanted(this.#header[0] ?? 0, size)) {
        this.#filled = 0;
        const passed = Math.min(size - HEADER_BYTES, length - at);
        this.#unwanted = size - HEADER_BYTES - passed;
        return at + passed;
      }
      this.#frame = Buffer.allocUnsafe(size);
      this.#header.copy(this.#frame);
    } else if (!this.#isWanted(this.#frame[0] ?? 0, this.#frame.length)) {
      return at + this.#drop(this.#frame, length - at);
    }
    const frame = this.#frame;
    at += this.#fill(frame, bytes, at, length);
    if (this.#filled < frame.length) return at;
    this.#frame = undefined;
    this.#filled = 0;
    this.isBorrowed = false;
    this.#onFrame(frame[0] ?? 0, frame, HEADER_BYTES, frame.length);
    return at;
  }

  /** Answers how many of the bytes that have arrived belong to it. */
  #drop(frame: Buffer, arrived: number): number {
    const left = frame.length - this.#filled;
    const passed = Math.min(left, arrived);
    this.#unwanted = left - passed;
    this.#frame = undefined;
    this.#filled = 0;
    freeChunk(frame);
    return passed;
  }

  #fill(target: Buffer, bytes: Buffer, at: number, length: number): number {
    const taken = bytes.copy(target, this.#filled, at, Math.min(length, at + target.length - this.#filled));
    this.#filled += taken;
    return taken;
  }
}

/** A batch of statements is mostly a few hundred bytes; one slab serves many of them. */
const SLAB_BYTES = 64 * 1024;

/** Writes frontend messages one after the other into a slab. */
export class FrameWriter {
  #buffer = Buffer.allocUnsafeSlow(SLAB_BYTES);
  /** Where the batch under construction starts. */
  #start = 0;
  #length = 0;

  parse(name: string, text: string): void {
    const start = this.#open(0x50);
    this.#string(name);
    this.#string(text);
    // No parameter types: the server infers each from its context, as it does for PostgREST's filters.
    this.#int16(0);
    this.#close(start);
  }

  bind(statement: string, values: readonly WireValue[]): void {
    const start = this.#open(0x42);
    this.#string('');
    this.#string(statement);
    this.#int16(0);
    this.#int16(values.length);
    for (const value of values) this.#value(value);
    this.#int16(0);
    this.#close(start);
  }

  describePortal(): void {
    const start = this.#open(0x44);
    this.#byte(0x50);
    this.#string('');
    this.#close(start);
  }

  execute(): void {
    const start = this.#open(0x45);
    this.#string('');
    this.#int32(0);
    this.#close(start);
  }

  closeStatement(name: string): void {
    const start = this.#open(0x43);
    this.#byte(0x53);
    this.#string(name);
    this.#close(start);
  }

  sync(): void {
    this.#byte(0x53);
    this.#int32(4);
  }

  /** Where the next message starts; valid until `take`. */
  mark(): number {
    return this.#length - this.#start;
  }

  /** Discards what was written since the mark. */
  rewind(mark: number): void {
    this.#length = this.#start + mark;
  }

  #raw(bytes: Buffer): void {
    this.#reserve(bytes.length);
    bytes.copy(this.#buffer, this.#length);
    this.#length += bytes.length;
  }

  /** Answers the bytes written so far and starts over. */
  take(): Buffer {
    // The socket may keep the slice until it is flushed, so these bytes are never written again.
    const taken = this.#buffer.subarray(this.#start, this.#length);
    this.#start = this.#length;
    // One large body must not hold its memory for the rest of the connection's life.
    if (this.#buffer.length > SLAB_BYTES) {
      this.#buffer = Buffer.allocUnsafeSlow(SLAB_BYTES);
      this.#start = 0;
      this.#length = 0;
    }
    return taken;
  }

  #open(type: number): number {
    this.#byte(type);
    // Counted from the start of the batch, which a change of slab does not move.
    const at = this.#length - this.#start;
    this.#int32(0);
    return at;
  }

  #close(at: number): void {
    const start = this.#start + at;
    this.#buffer.writeInt32BE(this.#length - start, start);
  }

  #value(value: WireValue): void {
    if (value === null) {
      this.#int32(-1);
      return;
    }
    if (typeof value !== 'string') {
      this.#int32(value.length);
      this.#raw(value);
      return;
    }
    const at = this.#length - this.#start;
    this.#int32(0);
    this.#text(value);
    const start = this.#start + at;
    this.#buffer.writeInt32BE(this.#length - start - 4, start);
  }

  #string(text: string): void {
    this.#text(text);
    this.#byte(0);
  }

  #text(text: string): void {
    // UTF-8 needs at most three bytes for each UTF-16 unit.
    this.#reserve(text.length * 3);
    this.#length += this.#buffer.write(text, this.#length, 'utf8');
  }

  #byte(value: number): void {
    this.#reserve(1);
    this.#buffer[this.#length++] = value;
  }

  #int16(value: number): void {
    this.#reserve(2);
    this.#length = this.#buffer.writeUInt16BE(value, this.#length);
  }

  #int32(value: number): void {
    this.#reserve(4);
    this.#length = this.#buffer.writeInt32BE(value, this.#length);
  }

  #reserve(bytes: number): void {
    if (this.#length + bytes <= this.#buffer.length) return;
    const written = this.#length - this.#start;
    const grown = Buffer.allocUnsafeSlow(Math.max(SLAB_BYTES, (written + bytes) * 2));
    this.#buffer.copy(grown, 0, this.#start, this.#length);
    this.#buffer = grown;
    this.#start = 0;
    this.#length = written;
  }
}
