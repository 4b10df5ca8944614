// The PostgreSQL protocol of the request path (3.0, "Extended Query"). `pg` opens and authenticates the connection.
// Then this class takes over the socket for three features that `pg` lacks: several statements under one Sync in one
// write, several such batches in flight, and results as undecoded bytes.
import { Buffer } from 'node:buffer';
import type { ByteStream } from './byte-stream.ts';
import type { LinkState } from '../link/measure-link.ts';
import { SettingsCompletion } from '../link/settings-completion.ts';
import { ConnectionLost, isDatabaseError, NeverSent } from '../pg-error.ts';
import { FrameReader, FrameWriter } from './frames.ts';
import { readColumns, readError, readRow } from './messages.ts';
import type { WireStatement } from './statement.ts';

export type SendOptions = {
  /** No statement is prepared. */
  readonly isNameless: boolean;
  /** True if the batch writes nothing, so that its commit cannot be in doubt. */
  readonly isRead: boolean;
};

const ORDINARY: SendOptions = { isNameless: false, isRead: false };

export class RowTooLarge extends Error {
  override name = 'RowTooLarge';
  readonly maxBytes: number;

  constructor(maxBytes: number) {
    super(`a row has more than ${maxBytes} bytes`);
    this.maxBytes = maxBytes;
  }
}

export class RowRefused extends Error {
  override name = 'RowRefused';
}

/** Rows up to this size are read without calling `admitRow`. */
const SMALL_ROW_BYTES = 64 * 1024;

/** Called once, with either the results or the error. */
export type OnSettled = (error: Error | undefined, results: WireResult[]) => void;

export type WireResult = {
  readonly rows: ReadonlyArray<ReadonlyArray<Buffer | null>>;
  /** Column names; empty unless `describe` is set. */
  readonly columns: readonly string[];
  /** The command tag, for example `UPDATE 3`. */
  readonly tag: string;
};

/** The transaction has committed, but the server has reported a doubt. */
class CommitUnconfirmed extends ConnectionLost {
  override name = 'CommitUnconfirmed';

  constructor(cause: Error) {
    super(`the server is not sure of the commit: ${cause.message}`, { cause });
  }
}

/** Statements under one Sync, from sending until the server is ready for the next batch. */
export class Batch {
  readonly statements: readonly WireStatement[];
  readonly settle: OnSettled;
  readonly isRead: boolean;
  /** True after its bytes have left this process. */
  isSent = false;
  readonly results: WireResult[] = [];
  /** Names that the batch prepares. */
  readonly parsing: string[] = [];
  rows: Array<ReadonlyArray<Buffer | null>> = [];
  columns: string[] = [];
  error: Error | undefined;
  /** Number of statements whose Bind succeeded. The statement after them has not begun to run. */
  bound = 0;
  /**
   * The server does not know a name that was prepared here, or knows one that was not, because another client uses
   * the same session. The batch had no effect, because it is one transaction.
   */
  lostName = false;
  /** The batch failed because the result columns of a prepared statement have changed. */
  hasStalePlan = false;
  /** The error of a backend that is stopped at once. No further message follows. */
  lastWord: Error | undefined;
  /** `performance.now()` when its turn at the server began; 0 while other batches are before it. */
  startedAt = 0;

  constructor(statements: readonly WireStatement[], isRead: boolean, settle: OnSettled) {
    this.statements = statements;
    this.isRead = isRead;
    this.settle = settle;
  }

  /** Whether only the commit was left: the outcome is open until the server is ready for the next batch. */
  get canBeCommitted(): boolean {
    const { results, statements } = this;
    return results.length === statements.length || statements[results.length]?.commits === true;
  }
}

type Reported = ReturnType<typeof readError>;

/** Maximum number of prepared statements per connection. Beyond it, the least recently used one is closed. */
const MAX_PREPARED = 500;
const SPARE_PREPARED = 20;

const NO_ROWS: ReadonlyArray<ReadonlyArray<Buffer | null>> = [];

export class Wire {
  readonly #socket: ByteStream['socket'];
  readonly #reader = new FrameReader(
    (type, bytes, start, end) => this.#receive(type, bytes, start, end),
    (type, size) => this.#isWanted(type, size),
  );
  readonly #writer = new FrameWriter();
  /** Prepared names and when each was last used, counted in uses. */
  readonly #prepared = new Map<string, { lastUse: number }>();
  /** Names that batches in flight are preparing, with unknown success. */
  readonly #parsing = new Set<string>();
  #uses = 0;
  /** Batches in flight; the server is running the first. */
  readonly #batches: Batch[] = [];
  #isWriteDue = false;
  #failure: Error | undefined;
  /** Prepared statements do not belong to this connection alone: none is relied on. */
  #isNameless: boolean;
  /** Adds the missing parameters of the session. */
  readonly #completion: SettingsCompletion | undefined;
  /** Bytes received, to notice a server that has fallen silent. */
  #received = 0;
  /** Status of the last ReadyForQuery: `I` idle, `T` in a transaction, `E` in a failed one. */
  #transactionStatus = 'I';
  readonly #onNotice: (message: string) => void;
  /** Called once, when the connection has ended. */
  onLost: (() => void) | undefined;

  constructor(
    stream: ByteStream,
    onNotice: (message: string) => void = () => {},
    { verdict, lacking }: LinkState = { verdict: 'direct', lacking: [] },
  ) {
    this.#isNameless = verdict === 'pooled';
    this.#completion = lacking.length > 0 ? new SettingsCompletion(lacking) : undefined;
    const { socket } = stream;
    this.#socket = socket;
    this.#onNotice = onNotice;
    stream.read((bytes, length, isReused) => {
      this.#received += length;
      this.#reader.push(bytes, length, isReused);
    });
    socket.on('close', () => this.#fail(new Error('the connection to PostgreSQL was closed')));
    socket.on('error', (error: Error) => this.#fail(error));
  }

  get usable(): boolean {
    return this.#failure === undefined;
  }

  /** No batch in flight and no transaction open. */
  get idle(): boolean {
    return this.#batches.length === 0 && this.#transactionStatus === 'I';
  }

  /** The batch the server is running, if any. */
  get busy(): Batch | undefined {
    return this.#batches[0];
  }

  get received(): number {
    return this.#received;
  }

  /** Returns false while another batch prepares one of the names: its end decides whether the name exists. */
  knowsNames(statements: readonly WireStatement[]): boolean {
    if (this.#parsing.size === 0) return true;
    return statements.every(({ name }) => name === undefined || !this.#parsing.has(name));
  }

  /** `send` as a promise. */
  run(statements: readonly WireStatement[]): Promise<WireResult[]> {
    return new Promise((resolve, reject) => {
      this.send(statements, (error, results) => (error ? reject(error) : resolve(results)));
    });
  }

  /**
   * Sends all statements under one Sync; outside BEGIN they are one implicit transaction. It waits for earlier
   * batches in flight. An error ends only its batch.
   */
  send(
    statements: readonly WireStatement[],
    settle: OnSettled,
    { isNameless, isRead }: SendOptions = ORDINARY,
  ): Batch | undefined {
    if (this.#failure) {
      settle(new NeverSent(this.#failure), []);
      return undefined;
    }
    const batch = new Batch(statements, isRead, settle);
    const writer = this.#writer;
    const unnamed = isNameless || this.#isNameless;
    if (!unnamed) this.#evict(statements);
    const mark = writer.mark();
    try {
      this.#write(batch, unnamed);
    } catch (error) {
      // A value that cannot be written: the server must not see half a batch.
      writer.rewind(mark);
      for (const name of batch.parsing) this.#parsing.delete(name);
      settle(error instanceof Error ? error : new Error(String(error)), []);
      return undefined;
    }
    if (this.#batches.push(batch) === 1) batch.startedAt = performance.now();
    // Batches of one turn of the event loop share one write. A server that woke earlier would compete for the
    // processor.
    if (!this.#isWriteDue) {
      this.#isWriteDue = true;
      setImmediate(this.#flush);
    }
    return batch;
  }

  destroy(reason: Error = new Error('the connection to PostgreSQL was closed')): void {
    this.#fail(reason);
    this.#socket.destroy();
  }

  readonly #flush = (): void => {
    this.#isWriteDue = false;
    if (this.#failure) return;
    for (const batch of this.#batches) batch.isSent = true;
    this.#socket.write(this.#writer.flush());
  };

  #write({ statements, parsing }: Batch, unnamed: boolean): void {
    const writer = this.#writer;
    for (const statement of statements) {
      const completed = this.#completion ? this.#completion.complete(statement) : statement;
      const { name: known = '', text, values, describe } = completed;
      const name = unnamed ? '' : known;
      if (name === '' || !this.#touch(name)) {
        writer.parse(name, text);
        if (name !== '') {
          parsing.push(name);
          this.#parsing.add(name);
        }
      }
      writer.bind(name, values);
      if (describe) writer.describePortal();
      writer.execute();
    }
    writer.sync();
  }

  #touch(name: string): boolean {
    const prepared = this.#prepared.get(name);
    if (!prepared) return false;
    prepared.lastUse = ++this.#uses;
    return true;
  }

  /** Makes room for this batch's names that are not prepared yet. */
  #evict(statements: readonly WireStatement[]): void {
    if (this.#prepared.size + statements.length <= MAX_PREPARED) return;
    const wanted = new Set(statements.map((statement) => statement.name));
    const oldest = [...this.#prepared].toSorted(([, a], [, b]) => a.lastUse - b.lastUse);
    // Somewhat more than needed, so that not every new statement searches for the oldest again.
    let room = MAX_PREPARED - this.#prepared.size - statements.length - SPARE_PREPARED;
    for (const [name] of oldest) {
      if (room >= 0) return;
      if (wanted.has(name)) continue;
      this.#prepared.delete(name);
      this.#writer.closeStatement(name);
      room += 1;
    }
  }

  #isWanted(type: number, size: number): boolean {
    const batch = this.#batches[0];
    const statement = batch?.statements[batch.results.length];
    if (type !== 0x44 || !batch || !statement) return true;
    const { maxRowBytes, admitRow } = statement;
    if (maxRowBytes !== undefined && size > maxRowBytes) batch.error ??= new RowTooLarge(maxRowBytes);
    else if (size <= SMALL_ROW_BYTES || !admitRow || admitRow(size)) return true;
    else batch.error ??= new RowRefused('there is no room for this row');
    return false;
  }

  #receive(type: number, bytes: Buffer, start: number, end: number): void {
    const batch = this.#batches[0];
    switch (type) {
      case 0x44 /* D DataRow */: {
        if (!batch || !this.#isWanted(type, end - start)) return;
        const onRow = batch.statements[batch.results.length]?.onRow;
        if (onRow) onRow(bytes, start, end);
        else if (this.#reader.isBorrowed)
          batch.rows.push(readRow(Buffer.from(bytes.subarray(start, end)), 0));
        else batch.rows.push(readRow(bytes, start));
        return;
      }
      case 0x54 /* T RowDescription */:
        if (batch) batch.columns = readColumns(bytes.subarray(start, end));
        return;
      case 0x43 /* C CommandComplete */:
        if (!batch) return;
        batch.results.push({
          rows: batch.rows.length > 0 ? batch.rows : NO_ROWS,
          columns: batch.columns,
          tag: bytes.toString('latin1', start, end - 1),
        });
        batch.rows = [];
        batch.columns = [];
        return;
      case 0x31 /* 1 ParseComplete */: {
        // The name exists on the server from now on; unnamed statements are not in `parsing`.
        const name = batch?.parsing.shift();
        if (name === undefined) return;
        this.#parsing.delete(name);
        this.#prepared.set(name, { lastUse: ++this.#uses });
        return;
      }
      case 0x45 /* E ErrorResponse */: {
        const error = readError(bytes.subarray(start, end));
        if (!batch) {
          this.#fail(error);
          return;
        }
        if (!batch.isSent) batch.error ??= new NeverSent(error);
        // The connection ended before the outcome of the commit arrived.
        else if (isFatal(error) && batch.canBeCommitted) batch.error ??= connectionLoss(batch, error);
        else batch.error ??= batch.statements[batch.results.length]?.asError?.(error) ?? error;
        if (batch.bound === batch.results.length) this.#learnAboutNames(batch, error);
        return;
      }
      case 0x4e /* N NoticeResponse */: {
        const notice = readError(bytes.subarray(start, end));
        if (batch && notice.severity === 'WARNING') heed(batch, notice);
        this.#onNotice(notice.message);
        return;
      }
      case 0x5a /* Z ReadyForQuery */:
        this.#transactionStatus = String.fromCharCode(bytes[start] ?? 0x49);
        this.#end();
        return;
      case 0x32 /* 2 BindComplete */:
        if (batch) batch.bound += 1;
        return;
      case 0x49 /* I EmptyQueryResponse */:
        batch?.results.push({ rows: NO_ROWS, columns: [], tag: '' });
        return;
      default:
        // CloseComplete, NoData, ParameterStatus, NotificationResponse: nothing to do.
        return;
    }
  }

  /** Handles a name error that came before the statement ran. A statement can raise the same code itself. */
  #learnAboutNames(batch: Batch, error: Reported): void {
    if (isDatabaseError(error, 'invalid_sql_statement_name', 'duplicate_prepared_statement')) {
      batch.lostName = true;
      this.#isNameless = true;
      this.#prepared.clear();
    } else if (isDatabaseError(error, 'feature_not_supported') && error.routine === 'RevalidateCachedQuery') {
      batch.hasStalePlan = true;
      const name = batch.statements[batch.results.length]?.name;
      if (name !== undefined && this.#prepared.delete(name)) this.#writer.closeStatement(name);
    }
  }

  #end(): void {
    const batch = this.#batches.shift();
    if (!batch) return;
    // Names that the failed batch did not reach.
    for (const name of batch.parsing) this.#parsing.delete(name);
    const [next] = this.#batches;
    if (next) next.startedAt = performance.now();
    batch.settle(batch.error, batch.results);
  }

  #fail(error: Error): void {
    if (this.#failure) return;
    this.#failure = error;
    const batches = this.#batches.splice(0);
    // The server's last error before the close (57P01 on shutdown) is more precise than the close.
    for (const batch of batches)
      batch.settle(batch.error ?? batch.lastWord ?? connectionLoss(batch, error), []);
    this.onLost?.();
  }
}

function isFatal({ severity }: Reported): boolean {
  return severity === 'FATAL' || severity === 'PANIC';
}

/**
 * Handles warnings about the end of a batch. After the last CommandComplete, the wait for synchronous standbys was
 * interrupted by a shutdown or a cancel; after a cancel, success follows. Warnings of deferred triggers have a
 * context.
 */
function heed(batch: Batch, warning: Reported): void {
  if (batch.canBeCommitted) {
    if (!batch.isRead && warning.where === undefined) batch.error ??= new CommitUnconfirmed(warning);
  } else if (warning.routine === 'quickdie') {
    batch.lastWord = warning;
  }
}

/** Returns the error of a batch whose connection ended without a report about the batch. */
function connectionLoss({ isSent }: Batch, error: Error): Error {
  if (!isSent) return new NeverSent(error);
  if (error instanceof ConnectionLost) return error;
  return new ConnectionLost(`the connection to PostgreSQL was closed: ${error.message}`, { cause: error });
}
