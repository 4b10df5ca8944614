// Parses the messages of `pgoutput`, protocol 1 (PostgreSQL documentation, "Logical Replication Message Formats"). A
// transaction arrives after its commit. Its first message contains the position and time of the commit. Values are
// text.

export type Relation = {
  readonly oid: number;
  readonly schema: string;
  readonly table: string;
  /** d: primary key, f: whole row, i: an index, n: nothing. */
  readonly identity: string;
  readonly columns: readonly RelationColumn[];
};

export type RelationColumn = { readonly name: string; readonly isKey: boolean; readonly type: number };

/** Values by column. Undefined for a large value that did not change, which the server omits. */
export type Tuple = ReadonlyArray<string | null | undefined>;

export type Begin = {
  readonly kind: 'begin';
  readonly lsn: bigint;
  /** Commit time in milliseconds since 1970. */
  readonly committedAt: number;
  /** Lower 32 bits of the transaction id. */
  readonly xid: number;
};

export type RowChange = {
  readonly kind: 'insert' | 'update' | 'delete';
  readonly relation: number;
  readonly new: Tuple | undefined;
  /** Set for an update only if the key changed or the whole row is sent. Columns that are not sent are null. */
  readonly old: Tuple | undefined;
  /** True if `old` has all columns. */
  readonly isWholeOld: boolean;
  readonly bytes: number;
};

export type Message =
  | Begin
  | RowChange
  | { readonly kind: 'commit'; readonly lsn: bigint }
  | { readonly kind: 'relation'; readonly relation: Relation }
  /** Message of `pg_logical_emit_message`. Unless it is transactional, it arrives at any time. */
  | { readonly kind: 'message'; readonly prefix: string; readonly isTransactional: boolean }
  /** Messages that svc ignores: TRUNCATE, types, origins. */
  | { readonly kind: 'other' };

const EPOCH_2000_MS = 946_684_800_000;
const OTHER: Message = { kind: 'other' };

/** Throws RangeError when the bytes end too early. */
export function readMessage(bytes: Buffer, start: number, end: number): Message {
  const reader = new Reader(bytes, start + 1, end);
  switch (String.fromCharCode(bytes[start] ?? 0)) {
    case 'B': {
      const lsn = reader.int64();
      const committedAt = reader.time();
      return { kind: 'begin', lsn, committedAt, xid: reader.uint32() };
    }
    case 'C':
      reader.skip(1 + 8);
      return { kind: 'commit', lsn: reader.int64() };
    case 'R':
      return { kind: 'relation', relation: readRelation(reader) };
    case 'I': {
      const relation = reader.uint32();
      reader.skip(1);
      return change('insert', relation, reader.tuple(), undefined, false, end - start);
    }
    case 'U': {
      const relation = reader.uint32();
      let kind = reader.char();
      const isWholeOld = kind === 'O';
      const old = kind === 'N' ? undefined : reader.tuple();
      if (old) kind = reader.char();
      return change('update', relation, reader.tuple(), old, isWholeOld, end - start);
    }
    case 'D': {
      const relation = reader.uint32();
      const isWholeOld = reader.char() === 'O';
      return change('delete', relation, undefined, reader.tuple(), isWholeOld, end - start);
    }
    case 'M': {
      const isTransactional = (reader.uint8() & 1) === 1;
      reader.skip(8);
      return { kind: 'message', prefix: reader.text(), isTransactional };
    }
    default:
      return OTHER;
  }
}

function change(
  kind: RowChange['kind'],
  relation: number,
  now: Tuple | undefined,
  old: Tuple | undefined,
  isWholeOld: boolean,
  bytes: number,
): RowChange {
  return { kind, relation, new: now, old, isWholeOld, bytes };
}

function readRelation(reader: Reader): Relation {
  const oid = reader.uint32();
  const schema = reader.text();
  const table = reader.text();
  const identity = reader.char();
  const columns = Array.from({ length: reader.uint16() }, () => {
    const isKey = (reader.uint8() & 1) === 1;
    const name = reader.text();
    const type = reader.uint32();
    reader.skip(4);
    return { name, isKey, type };
  });
  // An empty name means pg_catalog.
  return { oid, schema: schema === '' ? 'pg_catalog' : schema, table, identity, columns };
}

class Reader {
  readonly #bytes: Buffer;
  readonly #end: number;
  #at: number;

  constructor(bytes: Buffer, start: number, end: number) {
    this.#bytes = bytes;
    this.#at = start;
    this.#end = end;
  }

  skip(length: number): number {
    const at = this.#at;
    this.#at += length;
    if (this.#at > this.#end) throw new RangeError('a message of the write-ahead log is cut off');
    return at;
  }

  uint8(): number {
    return this.#bytes.readUInt8(this.skip(1));
  }

  uint16(): number {
    return this.#bytes.readUInt16BE(this.skip(2));
  }

  uint32(): number {
    return this.#bytes.readUInt32BE(this.skip(4));
  }

  int64(): bigint {
    return this.#bytes.readBigInt64BE(this.skip(8));
  }

  time(): number {
    return EPOCH_2000_MS + Number(this.int64()) / 1000;
  }

  char(): string {
    return String.fromCharCode(this.uint8());
  }

  /** Reads up to the terminating zero. */
  text(): string {
    const zero = this.#bytes.indexOf(0, this.#at);
    if (zero < 0) throw new RangeError('a message of the write-ahead log is cut off');
    const at = this.skip(zero - this.#at + 1);
    return this.#bytes.toString('utf8', at, zero);
  }

  tuple(): Tuple {
    const values: Array<string | null | undefined> = [];
    for (let left = this.uint16(); left > 0; left--) {
      const kind = this.char();
      if (kind === 'n') values.push(null);
      else if (kind === 'u') values.push(undefined);
      else {
        const length = this.uint32();
        const at = this.skip(length);
        values.push(this.#bytes.toString('utf8', at, at + length));
      }
    }
    return values;
  }
}
