// Scans the outermost level of a JSON body without building values: its keys, the number of rows and the positions of
// values. PostgreSQL receives the original bytes, so numbers keep every digit; it also validates them.

export type JsonField = {
  readonly key: string;
  /** Byte positions of the value. */
  readonly start: number;
  readonly end: number;
};

export type JsonBody = {
  readonly isArray: boolean;
  /** Objects at the outermost level. */
  readonly rows: number;
  /** Keys of the first object, sorted, without duplicates. */
  readonly keys: readonly string[];
  /** Whether all objects have the same keys. */
  readonly uniform: boolean;
  /** Keys that only some objects contain, sorted. */
  readonly partial: readonly string[];
  /** Keys that at least one object contains, sorted. */
  readonly used: readonly string[];
  /** Fields of a body that is a single object; otherwise empty. */
  readonly fields: readonly JsonField[];
};

/** Returns undefined if the body is neither an object nor an array of objects. */
export function readJsonBody(bytes: Buffer): JsonBody | undefined {
  const reader = new Reader(bytes);
  reader.skipBlanks();
  if (reader.peek() === OPEN_BRACE) {
    const fields = reader.object();
    if (!fields || !reader.atEnd()) return undefined;
    const keys = uniqueKeys(fields);
    return { isArray: false, rows: 1, keys, uniform: true, partial: [], used: keys, fields };
  }
  if (reader.peek() !== OPEN_BRACKET) return undefined;
  reader.at++;
  reader.skipBlanks();
  let rows = 0;
  let keys: readonly string[] = [];
  const used = new Set<string>();
  const partial = new Set<string>();
  let previous: readonly JsonField[] | undefined;
  if (reader.peek() === CLOSE_BRACKET) {
    reader.at++;
  } else {
    for (;;) {
      reader.skipBlanks();
      const fields = reader.object(previous);
      if (!fields) return undefined;
      rows++;
      if (!previous) {
        keys = uniqueKeys(fields);
        for (const key of keys) used.add(key);
      } else if (!sameKeys(previous, fields)) {
        noteKeys(new Set(fields.map(({ key }) => key)), used, partial);
      }
      previous = fields;
      reader.skipBlanks();
      const separator = reader.peek();
      reader.at++;
      if (separator === CLOSE_BRACKET) break;
      if (separator !== COMMA) return undefined;
    }
  }
  if (!reader.atEnd()) return undefined;
  return {
    isArray: true,
    rows,
    keys,
    uniform: partial.size === 0,
    partial: [...partial].sort(),
    used: [...used].sort(),
    fields: NO_FIELDS,
  };
}

/** Records the differences when an object's keys differ from those of the previous object. */
function noteKeys(keys: ReadonlySet<string>, used: Set<string>, partial: Set<string>): void {
  for (const key of used) if (!keys.has(key)) partial.add(key);
  for (const key of keys) {
    if (used.has(key)) continue;
    used.add(key);
    partial.add(key);
  }
}

/** Returns the value as text for a typed parameter: strings without their quotes, null as null. */
export function fieldText(bytes: Buffer, field: JsonField): string | null {
  const first = bytes[field.start];
  const raw = bytes.toString('utf8', field.start, field.end);
  if (first === QUOTE) return unquote(raw);
  return raw === 'null' ? null : raw;
}

/** Returns false for objects and arrays, which only PostgreSQL can convert to the type of an argument. */
export function isScalar(bytes: Buffer, field: JsonField): boolean {
  const first = bytes[field.start];
  return first !== OPEN_BRACE && first !== OPEN_BRACKET;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const NO_FIELDS: readonly JsonField[] = [];

class Reader {
  readonly #bytes: Buffer;
  at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  peek(): number | undefined {
    return this.#bytes[this.at];
  }

  skipBlanks(): void {
    for (;;) {
      const byte = this.#bytes[this.at];
      if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return;
      this.at++;
    }
  }

  atEnd(): boolean {
    this.skipBlanks();
    return this.at === this.#bytes.length;
  }

  /** `like`: the fields of the previous row. Equal keys are reused without decoding. */
  object(like?: readonly JsonField[]): JsonField[] | undefined {
    if (this.peek() !== OPEN_BRACE) return undefined;
    this.at++;
    const fields: JsonField[] = [];
    this.skipBlanks();
    if (this.peek() === CLOSE_BRACE) {
      this.at++;
      return fields;
    }
    for (;;) {
      this.skipBlanks();
      const keyStart = this.at;
      if (this.peek() !== QUOTE || !this.#skipString()) return undefined;
      const key = this.#key(keyStart, like?.[fields.length]);
      this.skipBlanks();
      if (key === undefined || this.peek() !== COLON) return undefined;
      this.at++;
      this.skipBlanks();
      const start = this.at;
      if (!this.#skipValue()) return undefined;
      fields.push({ key, start, end: this.at });
      this.skipBlanks();
      const separator = this.peek();
      this.at++;
      if (separator === CLOSE_BRACE) return fields;
      if (separator !== COMMA) return undefined;
    }
  }

  #key(start: number, like: JsonField | undefined): string | undefined {
    const text = this.#bytes.toString('latin1', start + 1, this.at - 1);
    // ASCII names are equal in both encodings; other names are decoded.
    if (like && like.key === text) return like.key;
    return unquote(this.#bytes.toString('utf8', start, this.at)) ?? undefined;
  }

  #skipString(): boolean {
    const bytes = this.#bytes;
    let at = this.at + 1;
    for (;;) {
      const byte = bytes[at];
      if (byte === undefined) return false;
      if (byte === QUOTE) break;
      at += byte === BACKSLASH ? 2 : 1;
    }
    this.at = at + 1;
    return true;
  }

  #skipValue(): boolean {
    const first = this.peek();
    if (first === QUOTE) return this.#skipString();
    if (first === OPEN_BRACE || first === OPEN_BRACKET) return this.#skipNested();
    const start = this.at;
    for (;;) {
      const byte = this.peek();
      if (byte === undefined || byte === COMMA || byte === CLOSE_BRACE || byte === CLOSE_BRACKET) break;
      if (byte <= 0x20) break;
      this.at++;
    }
    return this.at > start;
  }

  #skipNested(): boolean {
    let depth = 0;
    for (;;) {
      const byte = this.peek();
      if (byte === undefined) return false;
      if (byte === QUOTE) {
        if (!this.#skipString()) return false;
        continue;
      }
      if (byte === OPEN_BRACE || byte === OPEN_BRACKET) depth++;
      if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) depth--;
      this.at++;
      if (depth === 0) return true;
    }
  }
}

function unquote(json: string): string | null {
  if (!json.includes('\\')) return json.slice(1, -1);
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === 'string' ? value : null;
  } catch {
    // A malformed escape. PostgreSQL rejects the whole body.
    return null;
  }
}

function uniqueKeys(fields: readonly JsonField[]): readonly string[] {
  return [...new Set(fields.map((field) => field.key))].sort();
}

function sameKeys(a: readonly JsonField[], b: readonly JsonField[]): boolean {
  if (a.length !== b.length) return false;
  return a.every((field, index) => field.key === b[index]?.key);
}
