// Builds the JSON of many rows directly from the bytes of the protocol, without JavaScript values. For long lists
// this is cheaper than json_agg, which builds a composite value for each row.
import { BufferPool } from '../../lib/memory/buffer-pool.ts';
import type { RowColumn, TextForm } from '../sql/text-form.ts';

const FIRST_BYTES = 64 * 1024;
const POOL = new BufferPool(16, 1024 * 1024);

const QUOTE = 0x22;
const NOTHING = new Uint8Array(0);
const EMPTY_LIST = Buffer.from('[]');
const NULL = dataView(Buffer.from('null'));
const TRUE = dataView(Buffer.from('true'));
const FALSE = dataView(Buffer.from('false'));
const BETWEEN_ROWS = dataView(Buffer.from(', \n '));

/** Contains 1 for bytes that JSON text must escape. */
const SPECIAL = new Uint8Array(256);
for (let byte = 0; byte < 0x20; byte++) SPECIAL[byte] = 1;
SPECIAL[QUOTE] = 1;
SPECIAL[0x5c] = 1;

const SHORT_ESCAPES: ReadonlyMap<number, string> = new Map([
  [0x08, '\\b'],
  [0x09, '\\t'],
  [0x0a, '\\n'],
  [0x0c, '\\f'],
  [0x0d, '\\r'],
  [QUOTE, '\\"'],
  [0x5c, '\\\\'],
]);

/** `{"id":`, `,"title":` …, created once per plan. */
export type RowFrame = {
  readonly keys: readonly DataView[];
  readonly forms: readonly TextForm[];
  /** Maximum bytes of a row in addition to its values. */
  readonly fixedBytes: number;
};

export function rowFrame(columns: readonly RowColumn[]): RowFrame {
  const keys = columns.map(({ name }, index) =>
    dataView(Buffer.from(`${index === 0 ? '{' : ','}${JSON.stringify(name)}:`)),
  );
  return {
    keys,
    forms: columns.map(({ form }) => form),
    fixedBytes: keys.reduce(
      (sum, key) => sum + key.byteLength + FALSE.byteLength,
      BETWEEN_ROWS.byteLength + 2,
    ),
  };
}

export class JsonRows {
  readonly #frame: RowFrame;
  readonly #expectedBytes: number;
  /** Allocated with the first row, because the statement may be queued until then. */
  #buffer: Buffer | undefined;
  #out: DataView = dataView(NOTHING);
  #length = 0;
  /** The latest chunk, which usually contains many rows. */
  #chunk: Uint8Array = NOTHING;
  #in: DataView = dataView(NOTHING);
  count = 0;

  constructor(frame: RowFrame, expectedBytes = FIRST_BYTES) {
    this.#frame = frame;
    this.#expectedBytes = expectedBytes;
  }

  /** Adds the body of one DataRow message, from `start` to before `end`. */
  row(chunk: Uint8Array, start: number, end: number): void {
    const { keys, forms, fixedBytes } = this.#frame;
    // A byte becomes six at most (\u0000); reserving once keeps the loops free of checks.
    this.#reserve(fixedBytes + (end - start) * 6);
    if (chunk !== this.#chunk) {
      this.#chunk = chunk;
      this.#in = dataView(chunk);
    }
    const body = this.#in;
    const out = this.#out;
    let length = this.#length;
    if (this.count++ === 0) out.setUint8(length++, 0x5b);
    else length = copy(BETWEEN_ROWS, 0, BETWEEN_ROWS.byteLength, out, length);
    let at = start + 2;
    for (let index = 0; index < forms.length; index++) {
      const key = keys[index] ?? NULL;
      length = copy(key, 0, key.byteLength, out, length);
      const size = body.getInt32(at);
      at += 4;
      if (size < 0) {
        length = copy(NULL, 0, NULL.byteLength, out, length);
        continue;
      }
      length = value(forms[index] ?? 'text', body, at, at + size, out, length);
      at += size;
    }
    out.setUint8(length++, 0x7d);
    this.#length = length;
  }

  /** Bytes so far. */
  get length(): number {
    return this.#length;
  }

  finish(): Buffer {
    if (this.count === 0) return EMPTY_LIST;
    const buffer = this.#reserve(1);
    buffer[this.#length++] = 0x5d;
    return buffer.subarray(0, this.#length);
  }

  /** Returns the buffer to the pool once it is sent; otherwise it is garbage collected. */
  release(): void {
    if (this.#buffer) POOL.give(this.#buffer);
    this.#buffer = undefined;
  }

  #reserve(bytes: number): Buffer {
    const buffer = this.#buffer;
    if (buffer && this.#length + bytes <= buffer.length) return buffer;
    const grown = POOL.acquire(
      Math.max((buffer?.length ?? 0) * 2, this.#length + bytes, this.#expectedBytes),
    );
    if (buffer) {
      buffer.copy(grown, 0, 0, this.#length);
      POOL.give(buffer);
    }
    this.#buffer = grown;
    this.#out = dataView(grown);
    return grown;
  }
}

/** Writes a value and returns the position of the next byte. */
function value(
  form: TextForm,
  body: DataView,
  start: number,
  end: number,
  out: DataView,
  length: number,
): number {
  switch (form) {
    case 'json':
      return copy(body, start, end, out, length);
    case 'boolean':
      return body.getUint8(start) === 0x74
        ? copy(TRUE, 0, TRUE.byteLength, out, length)
        : copy(FALSE, 0, FALSE.byteLength, out, length);
    case 'number':
      // NaN and Infinity are not JSON numbers; they end in a letter.
      return body.getUint8(end - 1) <= 0x39
        ? copy(body, start, end, out, length)
        : quoted(body, start, end, out, length);
    case 'text':
      return quoted(body, start, end, out, length);
  }
}

function quoted(body: DataView, start: number, end: number, out: DataView, from: number): number {
  let to = from;
  out.setUint8(to++, QUOTE);
  let at = start;
  for (;;) {
    // Copies four bytes at a time until one needs an escape, which is rare.
    for (; at + 4 <= end; at += 4, to += 4) {
      const word = body.getInt32(at, true);
      if (canNeedEscape(word)) break;
      out.setInt32(to, word, true);
    }
    if (at === end) break;
    const byte = body.getUint8(at++);
    if (SPECIAL[byte] === 0) out.setUint8(to++, byte);
    else to = escaped(byte, out, to);
  }
  out.setUint8(to++, QUOTE);
  return to;
}

/**
 * Whether one of the four bytes is a control character, a quote or a backslash. Sometimes also true for a word
 * without any, but never false for a word with one. (x - n) & ~x & 0x80 is set for a byte below n. The borrow of such
 * a byte can reach the next one, so only false is exact.
 */
function canNeedEscape(word: number): boolean {
  const quotes = word ^ 0x22222222;
  const slashes = word ^ 0x5c5c5c5c;
  const found =
    ((word - 0x20202020) & ~word) | ((quotes - 0x01010101) & ~quotes) | ((slashes - 0x01010101) & ~slashes);
  return (found & 0x80808080) !== 0;
}

function escaped(byte: number, out: DataView, from: number): number {
  const escape = SHORT_ESCAPES.get(byte) ?? `\\u${byte.toString(16).padStart(4, '0')}`;
  for (let at = 0; at < escape.length; at++) out.setUint8(from + at, escape.charCodeAt(at));
  return from + escape.length;
}

function copy(from: DataView, start: number, end: number, out: DataView, length: number): number {
  let to = length;
  let at = start;
  for (; at + 4 <= end; at += 4, to += 4) out.setInt32(to, from.getInt32(at, true), true);
  for (; at < end; at++, to++) out.setUint8(to, from.getUint8(at));
  return to;
}

function dataView(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
