// The request path's own reading and writing of the PostgreSQL protocol (version 3.0, "Extended Query").
// `pg` opens and authenticates the connection; from then on the socket is ours, for two reasons it cannot
// serve: several statements under one Sync in one write, and results handed on as bytes, never decoded.
import { Buffer } from 'node:buffer';
import type { Duplex } from 'node:stream';
import pg from 'pg';

export type WireValue = string | Buffer | null;

/** One Parse/Bind/Execute. With a name it is prepared once per connection and reused. */
export type WireStatement = {
  readonly text: string;
  /** Text-format parameters; a Buffer is taken as the UTF-8 bytes of the text. */
  readonly values: readonly WireValue[];
  readonly name?: string | undefined;
  /** Ask for column names too. Off where the caller knows the shape of the row. */
  readonly describe?: boolean | undefined;
  /** Takes each DataRow as it arrives instead of collecting them. */
  readonly onRow?: OnRow | undefined;
};

/** The body of a DataRow message, from `start` to before `end`; the bytes are only good during the call. */
export type OnRow = (bytes: Buffer, start: number, end: number) => void;

/** Told once: either the results or what went wrong. */
export type OnSettled = (error: Error | undefined, results: WireResult[]) => void;

export type WireResult = {
  readonly rows: ReadonlyArray<ReadonlyArray<Buffer | null>>;
  /** Column names; empty unless `describe` was asked for. */
  readonly columns: readonly string[];
  /** The command tag, for example `UPDATE 3`. */
  readonly tag: string;
};

type Pending = {
  readonly statements: readonly WireStatement[];
  readonly results: WireResult[];
  readonly parsing: string[];
  rows: Array<ReadonlyArray<Buffer | null>>;
  columns: string[];
  error: pg.DatabaseError | undefined;
  readonly settle: OnSettled;
};

/** Prepared statements kept per connection; the least recently used one is closed beyond that. */
const MAX_PREPARED = 500;
const SPARE_PREPARED = 20;

const SYNC = Buffer.from([0x53, 0, 0, 0, 4]);
const NO_ROWS: ReadonlyArray<ReadonlyArray<Buffer | null>> = [];

export class Wire {
  readonly #socket: Duplex;
  readonly #reader = new FrameReader((type, bytes, start, end) => this.#receive(type, bytes, start, end));
  readonly #writer = new FrameWriter();
  /** What is prepared, and when it was last used, counted in uses. */
  readonly #prepared = new Map<string, { lastUse: number }>();
  #uses = 0;
  #pending: Pending | undefined;
  #failure: Error | undefined;
  /** `I` idle, `T` in a transaction, `E` in a failed one: the last ReadyForQuery said so. */
  #transactionStatus = 'I';
  readonly #onNotice: (message: string) => void;

  constructor(socket: Duplex, onNotice: (message: string) => void = () => {}) {
    this.#socket = socket;
    this.#onNotice = onNotice;
    socket.on('data', (chunk: Buffer) => this.#reader.push(chunk));
    socket.on('close', () => this.#fail(new Error('the connection to PostgreSQL was closed')));
    socket.on('error', (error: Error) => this.#fail(error));
  }

  get usable(): boolean {
    return this.#failure === undefined;
  }

  get idle(): boolean {
    return this.#pending === undefined && this.#transactionStatus === 'I';
  }

  /** `send` for those who wait anyway. */
  run(statements: readonly WireStatement[]): Promise<WireResult[]> {
    return new Promise((resolve, reject) => {
      this.send(statements, (error, results) => (error ? reject(error) : resolve(results)));
    });
  }

  /** Sends all statements in one write under one Sync; outside BEGIN they are one implicit transaction. */
  send(statements: readonly WireStatement[], settle: OnSettled): void {
    const refusal =
      this.#failure ?? (this.#pending && new Error('a batch is already running on this connection'));
    if (refusal) {
      settle(refusal, []);
      return;
    }
    const parsing: string[] = [];
    const writer = this.#writer;
    this.#evict(statements, writer);
    for (const statement of statements) {
      const name = statement.name ?? '';
      if (name === '' || !this.#touch(name)) {
        writer.parse(name, statement.text);
        if (name !== '') parsing.push(name);
      }
      writer.bind(name, statement.values);
      if (statement.describe) writer.describePortal();
      writer.execute();
    }
    writer.raw(SYNC);
    this.#pending = { statements, results: [], parsing, rows: [], columns: [], error: undefined, settle };
    this.#socket.write(writer.take());
  }

  destroy(): void {
    this.#fail(new Error('the connection to PostgreSQL was closed'));
    this.#socket.destroy();
  }

  #touch(name: string): boolean {
    const prepared = this.#prepared.get(name);
    if (!prepared) return false;
    prepared.lastUse = ++this.#uses;
    return true;
  }

  /** Makes room for the names of this batch that are not prepared yet. */
  #evict(batch: readonly WireStatement[], writer: FrameWriter): void {
    if (this.#prepared.size + batch.length <= MAX_PREPARED) return;
    const wanted = new Set(batch.map((statement) => statement.name));
    const oldest = [...this.#prepared].toSorted(([, a], [, b]) => a.lastUse - b.lastUse);
    // Some more than needed, so that not each new statement looks for the oldest again.
    let room = MAX_PREPARED - this.#prepared.size - batch.length - SPARE_PREPARED;
    for (const [name] of oldest) {
      if (room >= 0) return;
      if (wanted.has(name)) continue;
      this.#prepared.delete(name);
      writer.closeStatement(name);
      room += 1;
    }
  }

  #receive(type: number, bytes: Buffer, start: number, end: number): void {
    const pending = this.#pending;
    switch (type) {
      case 0x44 /* D DataRow */: {
        if (!pending) return;
        const onRow = pending.statements[pending.results.length]?.onRow;
        if (onRow) onRow(bytes, start, end);
        else pending.rows.push(readRow(bytes, start));
        return;
      }
      case 0x54 /* T RowDescription */:
        if (pending) pending.columns = readColumns(bytes.subarray(start, end));
        return;
      case 0x43 /* C CommandComplete */:
        if (!pending) return;
        pending.results.push({
          rows: pending.rows.length > 0 ? pending.rows : NO_ROWS,
          columns: pending.columns,
          tag: bytes.toString('latin1', start, end - 1),
        });
        pending.rows = [];
        pending.columns = [];
        return;
      case 0x31 /* 1 ParseComplete */: {
        // Only now the name exists on the server; unnamed statements are not in `parsing`.
        const name = pending?.parsing.shift();
        if (name !== undefined) this.#prepared.set(name, { lastUse: ++this.#uses });
        return;
      }
      case 0x45 /* E ErrorResponse */: {
        const error = readError(bytes.subarray(start, end));
        if (pending) pending.error ??= error;
        else this.#fail(error);
        return;
      }
      case 0x4e /* N NoticeResponse */:
        this.#onNotice(readError(bytes.subarray(start, end)).message);
        return;
      case 0x5a /* Z ReadyForQuery */: {
        this.#transactionStatus = String.fromCharCode(bytes[start] ?? 0x49);
        this.#pending = undefined;
        if (!pending) return;
        pending.settle(pending.error, pending.results);
        return;
      }
      case 0x49 /* I EmptyQueryResponse */:
        pending?.results.push({ rows: NO_ROWS, columns: [], tag: '' });
        return;
      default:
        // BindComplete, CloseComplete, NoData, ParameterStatus, NotificationResponse: nothing to do.
        return;
    }
  }

  #fail(error: Error): void {
    this.#failure ??= error;
    const pending = this.#pending;
    this.#pending = undefined;
    // An error message may have come just before the close (57P01 on shutdown): it says more.
    pending?.settle(pending.error ?? error, []);
  }
}

/** A message's body lies between `start` and `end`: most messages are looked at and not kept. */
type OnFrame = (type: number, bytes: Buffer, start: number, end: number) => void;

/** Cuts the byte stream into messages; only a message that lies across two chunks is copied. */
class FrameReader {
  readonly #onFrame: OnFrame;
  /** The beginning of a message whose end has not come yet. */
  #chunks: Buffer[] = [];
  #bytes = 0;
  /** Bytes of that message, or of its header as long as the header itself is incomplete. */
  #needed = HEADER_BYTES;

  constructor(onFrame: OnFrame) {
    this.#onFrame = onFrame;
  }

  push(chunk: Buffer): void {
    let at = 0;
    while (this.#bytes > 0) {
      const missing = this.#needed - this.#bytes;
      if (chunk.length - at < missing) {
        this.#keep(chunk.subarray(at), this.#needed);
        return;
      }
      this.#keep(chunk.subarray(at, at + missing), this.#needed);
      at += missing;
      const joined = Buffer.concat(this.#chunks, this.#bytes);
      const size = 1 + joined.readUInt32BE(1);
      if (joined.length < size) {
        this.#chunks = [joined];
        this.#needed = size;
        continue;
      }
      this.#chunks = [];
      this.#bytes = 0;
      this.#onFrame(joined[0] ?? 0, joined, HEADER_BYTES, size);
    }
    let needed = HEADER_BYTES;
    while (chunk.length - at >= HEADER_BYTES) {
      const size = 1 + chunk.readUInt32BE(at + 1);
      if (chunk.length - at < size) {
        needed = size;
        break;
      }
      this.#onFrame(chunk[at] ?? 0, chunk, at + HEADER_BYTES, at + size);
      at += size;
    }
    if (at < chunk.length) this.#keep(chunk.subarray(at), needed);
  }

  #keep(bytes: Buffer, needed: number): void {
    if (bytes.length > 0) this.#chunks.push(bytes);
    this.#bytes += bytes.length;
    this.#needed = needed;
  }
}

/** Type and length. */
const HEADER_BYTES = 5;

/** A batch of statements is mostly a few hundred bytes; one slab serves many of them. */
const SLAB_BYTES = 64 * 1024;

/** Writes frontend messages one behind the other into a slab. */
class FrameWriter {
  #buffer = Buffer.allocUnsafeSlow(SLAB_BYTES);
  /** Where the batch under construction starts. */
  #start = 0;
  #length = 0;

  parse(name: string, text: string): void {
    const start = this.#open(0x50);
    this.#string(name);
    this.#string(text);
    // No parameter types: the server infers each from its context, as rest.md asks for filters.
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

  raw(bytes: Buffer): void {
    this.#reserve(bytes.length);
    bytes.copy(this.#buffer, this.#length);
    this.#length += bytes.length;
  }

  /** The bytes written so far; the writer starts anew. */
  take(): Buffer {
    // The socket may keep the slice until it is flushed, so these bytes are never written again.
    const taken = this.#buffer.subarray(this.#start, this.#length);
    this.#start = this.#length;
    // One large body must not keep its memory for the rest of the connection's life.
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
      this.raw(value);
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

function readRow(body: Buffer, start: number): ReadonlyArray<Buffer | null> {
  const count = body.readUInt16BE(start);
  const row: Array<Buffer | null> = [];
  let offset = start + 2;
  for (let index = 0; index < count; index++) {
    const size = body.readInt32BE(offset);
    offset += 4;
    if (size < 0) {
      row.push(null);
      continue;
    }
    row.push(body.subarray(offset, offset + size));
    offset += size;
  }
  return row;
}

function readColumns(body: Buffer): string[] {
  const count = body.readUInt16BE(0);
  const columns: string[] = [];
  let offset = 2;
  for (let index = 0; index < count; index++) {
    const end = body.indexOf(0, offset);
    columns.push(body.toString('utf8', offset, end));
    // table oid 4, column 2, type oid 4, size 2, modifier 4, format 2
    offset = end + 19;
  }
  return columns;
}

const ERROR_FIELDS = {
  S: 'severity',
  C: 'code',
  D: 'detail',
  H: 'hint',
  P: 'position',
  W: 'where',
  s: 'schema',
  t: 'table',
  c: 'column',
  d: 'dataType',
  n: 'constraint',
  R: 'routine',
} as const;

/** ErrorResponse and NoticeResponse, as the same class that `pg` throws elsewhere. */
function readError(body: Buffer): pg.DatabaseError {
  const fields = new Map<string, string>();
  let offset = 0;
  while (offset < body.length && body[offset] !== 0) {
    const key = String.fromCharCode(body[offset] ?? 0);
    const end = body.indexOf(0, offset + 1);
    fields.set(key, body.toString('utf8', offset + 1, end));
    offset = end + 1;
  }
  const error = new pg.DatabaseError(fields.get('M') ?? 'unknown error', body.length, 'error');
  for (const [key, property] of Object.entries(ERROR_FIELDS)) {
    const value = fields.get(key);
    if (value !== undefined) error[property] = value;
  }
  return error;
}
