// A replication connection: a temporary slot and the stream that it feeds (PostgreSQL documentation, "Streaming Replication
// Protocol"). The slot ends with its connection, so that nothing keeps the server's log when this process is gone.
import { randomBytes } from 'node:crypto';
import type { Duplex } from 'node:stream';
import { cutOff, GOODBYE_MS, openReplicationSession, type ConnectionSettings } from '../connection.ts';
import { PgServerError } from './server-error.ts';
import type { ByteStream } from '../wire/byte-stream.ts';
import { FrameReader } from '../wire/frames.ts';
import { readMessage, type Message } from './pgoutput.ts';

export type ReplicationHandlers = {
  readonly onMessage: (message: Message) => void;
  /** Once: whatever ended it, except `close`. */
  readonly onLost: (error: Error) => void;
};

export type ReplicationOptions = {
  readonly settings: ConnectionSettings;
  readonly publication: string;
  readonly signal?: AbortSignal | undefined;
};

const STATUS_EVERY_MS = 3_000;
/**
 * Each small transaction wakes the process. Where the next comes within `soonMs`, those of the following `pauseMs` are
 * read at once; a chunk of `fullBytes` is many already.
 */
const GATHER = { soonMs: 2, pauseMs: 5, fullBytes: 16 * 1024 };
/** The server asks for a sign of life after half of its `wal_sender_timeout` of 10 s. */
const SILENT_AFTER_MS = 20_000;
const EPOCH_2000_MS = 946_684_800_000;

/** Resolves when the stream has begun: every transaction that commits from now on comes. */
export async function openReplication(
  { settings, publication, signal }: ReplicationOptions,
  handlers: ReplicationHandlers,
): Promise<ReplicationStream> {
  const { client, take } = await openReplicationSession(settings, { signal });
  try {
    const slot = `svc_rt_${randomBytes(8).toString('hex')}`;
    // Waits for every transaction that is writing now. The command words must be in capitals.
    const cancel = (): void => cutOff(client);
    signal?.addEventListener('abort', cancel);
    await client
      .query(`CREATE_REPLICATION_SLOT ${slot} TEMPORARY LOGICAL pgoutput NOEXPORT_SNAPSHOT`)
      .finally(() => signal?.removeEventListener('abort', cancel));
    signal?.throwIfAborted();
    // From here on the bytes are ours: `pg` does not know copying in both directions.
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
  #heardAt = performance.now();
  /** What has come needs not be kept: nobody could ask this slot for it again. */
  #received = 0n;
  #isPaused = false;
  #isGathering = false;
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
      if (now - this.#heardAt < GATHER.soonMs && length < GATHER.fullBytes) this.#gather();
      this.#heardAt = now;
      try {
        reader.push(chunk, length, isReused);
      } catch (error) {
        this.#lost(error instanceof Error ? error : new Error(String(error)));
      }
    });
    stream.on('error', (error: Error) => this.#lost(error));
    stream.on('close', () => this.#lost(new Error('the replication connection was closed')));
    this.#send(
      0x51,
      Buffer.from(
        `START_REPLICATION SLOT ${slot} LOGICAL 0/0 (proto_version '1', publication_names '${publication}', messages 'true')\0`,
      ),
    );
    this.#status = setInterval(() => this.#tick(), STATUS_EVERY_MS).unref();
    stream.resume();
  }

  /** The server holds back what follows; it is told that somebody is still there. */
  pause(): void {
    if (this.#isPaused) return;
    this.#isPaused = true;
    this.#stream.pause();
  }

  resume(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.#heardAt = performance.now();
    if (!this.#isGathering) this.#readOn();
  }

  /** Reads on after a moment, unless paused meanwhile. */
  #gather(): void {
    if (this.#isGathering) return;
    this.#isGathering = true;
    this.#stream.pause();
    setTimeout(() => {
      this.#isGathering = false;
      if (!this.#isPaused) this.#readOn();
    }, GATHER.pauseMs);
  }

  #readOn(): void {
    // All that has come meanwhile, as one chunk: where Node keeps it, as with TLS, a stream that flows again hands out one
    // of many small ones, after which it would be paused for the next.
    this.#stream.read();
    // Whoever read it may have had enough.
    if (!this.#isPaused && !this.#isGathering) this.#stream.resume();
  }

  get isPaused(): boolean {
    return this.#isPaused;
  }

  /** Says goodbye, and waits until the server has ended the slot; not for long. */
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

  #cut(): void {
    this.#isOver = true;
    clearInterval(this.#status);
    this.#stream.destroy();
  }

  #lost(error: Error): void {
    if (this.#isOver) return;
    this.#cut();
    this.#handlers.onLost(error);
  }

  #tick(): void {
    if (!this.#isPaused && performance.now() - this.#heardAt > SILENT_AFTER_MS) {
      this.#lost(new Error('the server has been silent for 20 s'));
      return;
    }
    this.#sendStatus();
  }

  #read(type: number, bytes: Buffer, start: number, end: number): void {
    if (this.#isOver) return;
    // CopyData
    if (type === 0x64) this.#readCopy(bytes, start, end);
    // ErrorResponse
    else if (type === 0x45) this.#lost(PgServerError.read(bytes, start, end));
    // CopyDone: the server ends it, to shut down for example.
    else if (type === 0x63) this.#lost(new Error('the server ended the stream'));
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
