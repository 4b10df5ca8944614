// A replication connection: a temporary slot and its stream (PostgreSQL documentation, "Streaming Replication
// Protocol"). The slot ends with its connection, so the server retains no WAL after this process has ended.
import { randomBytes } from 'node:crypto';
import type { Duplex } from 'node:stream';
import { cutOff, GOODBYE_MS, openReplicationSession, type ConnectionSettings } from '../connection.ts';
import { PgServerError } from './server-error.ts';
import type { ByteStream } from '../wire/byte-stream.ts';
import { FrameReader } from '../wire/frames.ts';
import { readMessage, type Message } from './pgoutput.ts';

export type ReplicationHandlers = {
  readonly onMessage: (message: Message) => void;
  /** Called once when the stream ends, except after `close`. */
  readonly onLost: (error: Error) => void;
};

export type ReplicationOptions = {
  readonly settings: ConnectionSettings;
  readonly publication: string;
  readonly signal?: AbortSignal | undefined;
};

const STATUS_INTERVAL_MS = 3_000;
/**
 * Each small transaction wakes the process. If the next chunk arrives within `soonMs`, the stream pauses for `pauseMs`
 * and then reads all chunks at once. A chunk of `fullBytes` contains many transactions already.
 */
const READ_BATCHING = { soonMs: 2, pauseMs: 5, fullBytes: 16 * 1024 };
/** The server sends a keepalive after half of its `wal_sender_timeout` of 10 s. */
const MAX_SILENCE_MS = 20_000;
const EPOCH_2000_MS = 946_684_800_000;

/** Resolves when the stream has started. It contains every transaction that commits later. */
export async function openReplication(
  { settings, publication, signal }: ReplicationOptions,
  handlers: ReplicationHandlers,
): Promise<ReplicationStream> {
  const { client, take } = await openReplicationSession(settings, { signal });
  try {
    const slot = `svc_rt_${randomBytes(8).toString('hex')}`;
    // Creating the slot waits for all running transactions. The server accepts the keywords only in upper case.
    const cancel = (): void => cutOff(client);
    signal?.addEventListener('abort', cancel);
    await client
      .query(`CREATE_REPLICATION_SLOT ${slot} TEMPORARY LOGICAL pgoutput NOEXPORT_SNAPSHOT`)
      .finally(() => signal?.removeEventListener('abort', cancel));
    signal?.throwIfAborted();
    // `pg` does not support CopyBoth, so this class reads the bytes from here on.
    return new ReplicationStream(take(), slot, publication, handlers);
  } catch (error) {
    cutOff(client);
    throw error;
  }
}

export class ReplicationStream {
  readonly #stream: Duplex;
  readonly #handlers: ReplicationHandlers;
  readonly #status: NodeJS.Timeout;
  #lastReceivedAt = performance.now();
  /** End of the received WAL. The server can discard it, because the temporary slot cannot be read again. */
  #received = 0n;
  #isPaused = false;
  #isBatching = false;
  #isOver = false;

  constructor(bytes: ByteStream, slot: string, publication: string, handlers: ReplicationHandlers) {
    const { socket: stream } = bytes;
    this.#stream = stream;
    this.#handlers = handlers;
    const reader = new FrameReader(
      (type, bytes, start, end) => this.#read(type, bytes, start, end),
      () => true,
    );
    bytes.read((chunk, length, isReused) => {
      const now = performance.now();
      if (now - this.#lastReceivedAt < READ_BATCHING.soonMs && length < READ_BATCHING.fullBytes)
        this.#batchReads();
      this.#lastReceivedAt = now;
      try {
        reader.push(chunk, length, isReused);
      } catch (error) {
        this.#fail(error instanceof Error ? error : new Error(String(error)));
      }
    });
    stream.on('error', (error: Error) => this.#fail(error));
    stream.on('close', () => this.#fail(new Error('the replication connection was closed')));
    this.#send(
      0x51,
      Buffer.from(
        `START_REPLICATION SLOT ${slot} LOGICAL 0/0 ` +
          `(proto_version '1', publication_names '${publication}', messages 'true')\0`,
      ),
    );
    this.#status = setInterval(() => this.#tick(), STATUS_INTERVAL_MS).unref();
    stream.resume();
  }

  /** Stops reading, so that PostgreSQL applies back-pressure. Status messages keep the connection open. */
  pause(): void {
    if (this.#isPaused) return;
    this.#isPaused = true;
    this.#stream.pause();
  }

  resume(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.#lastReceivedAt = performance.now();
    if (!this.#isBatching) this.#resumeReading();
  }

  /** Pauses reading briefly, to read several transactions at once. */
  #batchReads(): void {
    if (this.#isBatching) return;
    this.#isBatching = true;
    this.#stream.pause();
    setTimeout(() => {
      this.#isBatching = false;
      if (!this.#isPaused) this.#resumeReading();
    }, READ_BATCHING.pauseMs);
  }

  #resumeReading(): void {
    // Reads everything that has arrived as one chunk. A resumed stream that buffers, as with TLS, would emit the first
    // of many small chunks, and the next pause would follow.
    this.#stream.read();
    // The reader may have paused the stream.
    if (!this.#isPaused && !this.#isBatching) this.#stream.resume();
  }

  get isPaused(): boolean {
    return this.#isPaused;
  }

  /** Ends the stream and waits until the server has dropped the slot, for at most `GOODBYE_MS`. */
  async close(): Promise<void> {
    this.#isOver = true;
    clearInterval(this.#status);
    if (this.#stream.destroyed) return;
    this.resume();
    const closed = new Promise<void>((resolve) => this.#stream.once('close', () => resolve()));
    const silent = setTimeout(() => this.#stream.destroy(), GOODBYE_MS);
    // CopyDone, then Terminate.
    this.#send(0x63, Buffer.alloc(0));
    this.#send(0x58, Buffer.alloc(0));
    this.#stream.end();
    await closed;
    clearTimeout(silent);
  }

  #destroy(): void {
    this.#isOver = true;
    clearInterval(this.#status);
    this.#stream.destroy();
  }

  #fail(error: Error): void {
    if (this.#isOver) return;
    this.#destroy();
    this.#handlers.onLost(error);
  }

  #tick(): void {
    if (!this.#isPaused && performance.now() - this.#lastReceivedAt > MAX_SILENCE_MS) {
      this.#fail(new Error('the server has been silent for 20 s'));
      return;
    }
    this.#sendStatus();
  }

  #read(type: number, bytes: Buffer, start: number, end: number): void {
    if (this.#isOver) return;
    // CopyData
    if (type === 0x64) this.#readCopy(bytes, start, end);
    // ErrorResponse
    else if (type === 0x45) this.#fail(PgServerError.read(bytes, start, end));
    // CopyDone: the server ends the stream, for example to shut down.
    else if (type === 0x63) this.#fail(new Error('the server ended the stream'));
  }

  #readCopy(bytes: Buffer, start: number, end: number): void {
    if (bytes[start] === 0x77) {
      const message = readMessage(bytes, start + 25, end);
      this.#handlers.onMessage(message);
      if (message.kind === 'commit') this.#received = message.lsn;
    } else if (bytes[start] === 0x6b) {
      const sent = bytes.readBigInt64BE(start + 1);
      if (sent > this.#received) this.#received = sent;
      const asksForAnswer = bytes[start + 17] === 1;
      if (asksForAnswer) this.#sendStatus();
    }
  }

  #sendStatus(): void {
    const body = Buffer.alloc(34);
    body[0] = 0x72;
    for (const at of [1, 9, 17]) body.writeBigInt64BE(this.#received, at);
    body.writeBigInt64BE(BigInt(Date.now() - EPOCH_2000_MS) * 1000n, 25);
    this.#send(0x64, body);
  }

  #send(type: number, body: Buffer): void {
    const head = Buffer.alloc(5);
    head[0] = type;
    head.writeUInt32BE(body.length + 4, 1);
    this.#stream.write(Buffer.concat([head, body]));
  }
}
