// JSON of many rows, written from the bytes of the protocol as they arrive. For long lists this is cheaper than
// json_agg in the database, which builds each row as a composite value first; no JavaScript value is made of any.
import { BufferPool } from '../../lib/buffer-pool.ts';
import type { RowColumn, TextForm } from '../sql/render-node.ts';

const FIRST_BYTES = 64 * 1024;
const POOL = new BufferPool(32, 1024 * 1024);

const QUOTE = 0x22;
const NULL = Buffer.from('null');
const TRUE = Buffer.from('true');
const FALSE = Buffer.from('false');
const BETWEEN_ROWS = Buffer.from(', \n ');

/** 1 where a byte cannot stand in a JSON text as it is. */
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

/** `{"id":`, `,"title":` …, made once for each plan. */
export type RowFrame = {
  readonly keys: readonly Buffer[];
  readonly forms: readonly TextForm[];
  /** Bytes of a row besides its values, at most. */
  readonly fixedBytes: number;
};

export function rowFrame(columns: readonly RowColumn[]): RowFrame {
  const keys = columns.map(({ name }, index) =>
    Buffer.from(`${index === 0 ? '{' : ','}${JSON.stringify(name)}:`),
  );
  return {
    keys,
    forms: columns.map(({ form }) => form),
    fixedBytes: keys.reduce((sum, key) => sum + key.length + FALSE.length, BETWEEN_ROWS.length + 2),
  };
}

export class JsonRows {
  readonly #frame: RowFrame;
  #buffer: Buffer;
  #length = 1;
  count = 0;

  constructor(frame: RowFrame, expectedBytes = FIRST_BYTES) {
    this.#frame = frame;
    this.#buffer = POOL.take(Math.max(1024, expectedBytes));
    this.#buffer[0] = 0x5b;
  }

  /** The body of one DataRow message, from `start` to before `end`. */
  row(body: Buffer, start: number, end: number): void {
    const { keys, forms, fixedBytes } = this.#frame;
    // A byte of text becomes six at most; reserving once keeps the loops free of checks.
    this.#reserve(fixedBytes + (end - start) * 6);
    const out = this.#buffer;
    let length = this.#length;
    if (this.count++ > 0) length = copy(BETWEEN_ROWS, 0, BETWEEN_ROWS.length, out, length);
    let at = start + 2;
    for (let index = 0; index < forms.length; index++) {
      const key = keys[index] ?? NULL;
      length = copy(key, 0, key.length, out, length);
      const size = body.readInt32BE(at);
      at += 4;
      if (size < 0) {
        length = copy(NULL, 0, NULL.length, out, length);
        continue;
      }
      length = value(forms[index] ?? 'text', body, at, at + size, out, length);
      at += size;
    }
    out[length++] = 0x7d;
    this.#length = length;
  }

  finish(): Buffer {
    this.#reserve(1);
    this.#buffer[this.#length++] = 0x5d;
    return this.#buffer.subarray(0, this.#length);
  }

  /** Call when the bytes are out; without it the memory is merely collected later. */
  release(): void {
    POOL.give(this.#buffer);
  }

  #reserve(bytes: number): void {
    if (this.#length + bytes <= this.#buffer.length) return;
    const grown = POOL.take(Math.max(this.#buffer.length * 2, this.#length + bytes));
    this.#buffer.copy(grown, 0, 0, this.#length);
    POOL.give(this.#buffer);
    this.#buffer = grown;
  }
}

/** Each of these returns where the next byte goes. */
function value(
  form: TextForm,
  body: Buffer,
  start: number,
  end: number,
  out: Buffer,
  length: number,
): number {
  switch (form) {
    case 'json':
      return copy(body, start, end, out, length);
    case 'boolean':
      return body[start] === 0x74
        ? copy(TRUE, 0, TRUE.length, out, length)
        : copy(FALSE, 0, FALSE.length, out, length);
    case 'number':
      // NaN and Infinity are no JSON numbers; they end in a letter.
      return (body[end - 1] ?? 0) <= 0x39
        ? copy(body, start, end, out, length)
        : quoted(body, start, end, out, length);
    case 'text':
      return quoted(body, start, end, out, length);
  }
}

function quoted(body: Buffer, start: number, end: number, out: Buffer, from: number): number {
  let length = from;
  out[length++] = QUOTE;
  let at = start;
  for (;;) {
    const plain = at;
    // Hardly any text needs an escape: look first, then copy in one piece.
    while (at < end && SPECIAL[body[at] ?? 0] === 0) at++;
    length = copy(body, plain, at, out, length);
    if (at === end) break;
    const byte = body[at++] ?? 0;
    const escape = SHORT_ESCAPES.get(byte) ?? `\\u${byte.toString(16).padStart(4, '0')}`;
    length += out.write(escape, length, 'latin1');
  }
  out[length++] = QUOTE;
  return length;
}

function copy(from: Buffer, start: number, end: number, out: Buffer, length: number): number {
  // Short pieces are faster by hand than by a call into the runtime.
  if (end - start > 48) {
    from.copy(out, length, start, end);
    return length + end - start;
  }
  let to = length;
  for (let at = start; at < end; at++) out[to++] = from[at] ?? 0;
  return to;
}
