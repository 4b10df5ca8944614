// Splits the incoming stream of the PostgreSQL protocol (version 3.0) into messages, and writes outgoing messages.
// Other modules interpret them.
import { Buffer } from 'node:buffer';
import { freeChunk } from '../../lib/memory/free-chunk.ts';

/** A value in text format. A Buffer contains the UTF-8 bytes of the text. */
export type WireValue = string | Buffer | null;

/**
 * Called for each message. Its body is between `start` and `end` of a shared buffer, because most messages are not
 * kept.
 */
export type OnFrame = (type: number, bytes: Buffer, start: number, end: number) => void;

/** Type and length. */
const HEADER_BYTES = 5;

/** Cuts the byte stream into messages. Only a message that spans two reads is copied. */
export class FrameReader {
  readonly #onFrame: OnFrame;
  readonly #isWanted: (type: number, size: number) => boolean;
  readonly #header = Buffer.alloc(HEADER_BYTES);
  /** An incomplete message whose header has arrived. */
  #frame: Buffer | undefined;
  /** Number of its bytes so far. */
  #filled = 0;
  /** Number of outstanding bytes of a skipped message. */
  #unwanted = 0;
  /** Whether the bytes handed out last are only valid during the call. */
  isBorrowed = false;

  /**
   * `isWanted` is called before memory is allocated for a message that spans reads, and again with each read. If it
   * returns false, the rest of the message is skipped.
   */
  constructor(onFrame: OnFrame, isWanted: (type: number, size: number) => boolean) {
    this.#onFrame = onFrame;
    this.#isWanted = isWanted;
  }

  /** Processes the first `length` bytes. With `isReused` the next read overwrites them. */
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

  /** Adds to the incomplete message and emits it once complete. Returns the start of the remaining bytes. */
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

  /** Returns how many of the received bytes belong to the skipped message. */
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

/** Slab size. A batch usually has a few hundred bytes, so one slab serves many of them. */
const SLAB_BYTES = 64 * 1024;

/** Shorter texts are copied character by character, which is faster than a call into Node. */
const SHORT_TEXT = 40;

// Messages without variable parts.
const DESCRIBE_PORTAL = Uint8Array.of(0x44, 0, 0, 0, 6, 0x50, 0);
const EXECUTE = Uint8Array.of(0x45, 0, 0, 0, 9, 0, 0, 0, 0, 0);
const SYNC = Uint8Array.of(0x53, 0, 0, 0, 4);

/** Writes successive frontend messages into a slab. */
export class FrameWriter {
  #buffer = Buffer.allocUnsafeSlow(SLAB_BYTES);
  /** Start of the batch under construction. */
  #start = 0;
  #length = 0;

  parse(name: string, text: string): void {
    const start = this.#open(0x50);
    this.#string(name);
    this.#string(text);
    // Zero parameter types: the server infers each from its context, as it does for PostgREST's filters.
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
    this.#append(DESCRIBE_PORTAL);
  }

  execute(): void {
    this.#append(EXECUTE);
  }

  closeStatement(name: string): void {
    const start = this.#open(0x43);
    this.#byte(0x53);
    this.#string(name);
    this.#close(start);
  }

  sync(): void {
    this.#append(SYNC);
  }

  /** Returns the start of the next message; valid until `flush`. */
  mark(): number {
    return this.#length - this.#start;
  }

  /** Discards all bytes since the mark. */
  rewind(mark: number): void {
    this.#length = this.#start + mark;
  }

  #append(bytes: Uint8Array): void {
    this.#reserve(bytes.length);
    this.#buffer.set(bytes, this.#length);
    this.#length += bytes.length;
  }

  /** Answers the bytes written so far and starts over. */
  flush(): Buffer {
    // The socket may keep the slice until it has sent it, so these bytes are never overwritten.
    const taken = this.#buffer.subarray(this.#start, this.#length);
    this.#start = this.#length;
    // Releases the memory of a large body, which would otherwise last as long as the connection.
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
    this.#storeInt32(this.#length - start, start);
  }

  #value(value: WireValue): void {
    if (value === null) {
      this.#int32(-1);
      return;
    }
    if (typeof value !== 'string') {
      this.#int32(value.length);
      this.#append(value);
      return;
    }
    const at = this.#length - this.#start;
    this.#int32(0);
    this.#text(value);
    const start = this.#start + at;
    this.#storeInt32(this.#length - start - 4, start);
  }

  #string(text: string): void {
    this.#text(text);
    this.#byte(0);
  }

  #text(text: string): void {
    // UTF-8 needs at most three bytes for each UTF-16 unit.
    this.#reserve(text.length * 3);
    if (text.length < SHORT_TEXT && this.#ascii(text)) return;
    this.#length += this.#buffer.write(text, this.#length, 'utf8');
  }

  /** Returns false, and writes nothing, if the text has other characters. */
  #ascii(text: string): boolean {
    const buffer = this.#buffer;
    let at = this.#length;
    for (let index = 0; index < text.length; index += 1) {
      const code = text.charCodeAt(index);
      if (code > 0x7f) return false;
      buffer[at++] = code;
    }
    this.#length = at;
    return true;
  }

  #byte(value: number): void {
    this.#reserve(1);
    this.#buffer[this.#length++] = value;
  }

  /** Throws for more than 65,535, which the protocol cannot express. */
  #int16(value: number): void {
    if (value > 0xffff) throw new RangeError(`${value} does not fit into two bytes`);
    this.#byte(value >>> 8);
    this.#byte(value);
  }

  #int32(value: number): void {
    this.#reserve(4);
    this.#storeInt32(value, this.#length);
    this.#length += 4;
  }

  #storeInt32(value: number, at: number): void {
    const buffer = this.#buffer;
    buffer[at] = value >>> 24;
    buffer[at + 1] = value >>> 16;
    buffer[at + 2] = value >>> 8;
    buffer[at + 3] = value;
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
