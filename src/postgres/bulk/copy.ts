// Runs COPY from one database to another, or from and to a stream, with back-pressure. Both ends implement the
// methods that `pg` calls on a query.
import type pg from 'pg';
import type { Readable, Writable } from 'node:stream';
import { clientInternals } from '../pg-internals.ts';

/** Copies rows and returns their number. If the statement of one side fails, so does the other. */
export async function copyBetween(
  from: { readonly client: pg.ClientBase; readonly statement: string },
  to: { readonly client: pg.ClientBase; readonly statement: string },
): Promise<number> {
  const source = clientInternals(from.client).connection.stream;
  const sink = new CopyIn(to.statement, source);
  to.client.query(sink);
  await sink.ready;
  const rows = new CopyOut(from.statement, sink);
  from.client.query(rows);
  try {
    await rows.done;
  } catch (error) {
    sink.fail();
    await sink.done.catch(() => {});
    throw error;
  }
  sink.end();
  return await sink.done;
}

/**
 * Runs `COPY … TO STDOUT` into a stream, which stays open, and returns the number of rows. Without a stream, rows are
 * only counted.
 */
export async function copyOut(
  { client, statement }: { readonly client: pg.ClientBase; readonly statement: string },
  into?: Writable,
): Promise<number> {
  const source = clientInternals(client).connection.stream;
  const rows = new CopyOut(statement, {
    write(chunk) {
      // Copies the chunk, because a stream keeps it and the parser reuses its buffer.
      if (into === undefined || into.write(Buffer.from(chunk)) || into.destroyed || source.isPaused()) return;
      source.pause();
      const resume = (): void => {
        into.off('drain', resume).off('close', resume);
        source.resume();
      };
      into.on('drain', resume).on('close', resume);
    },
  });
  client.query(rows);
  return await rows.done;
}

/** Runs `COPY … FROM STDIN` from a stream, which it reads to its end, and returns the number of rows. */
export async function copyIn(
  { client, statement }: { readonly client: pg.ClientBase; readonly statement: string },
  from: Readable,
): Promise<number> {
  const sink = new CopyIn(statement, from);
  client.query(sink);
  await sink.ready;
  const read = Promise.withResolvers<void>();
  from
    .on('data', (chunk: Buffer) => sink.write(chunk))
    .on('end', read.resolve)
    .on('error', read.reject);
  try {
    // A statement that has failed reads no further.
    await Promise.race([read.promise, sink.done]);
  } catch (error) {
    from.destroy();
    sink.fail();
    await sink.done.catch(() => {});
    throw error;
  }
  sink.end();
  return await sink.done;
}

type Connection = pg.Connection & {
  sendCopyFromChunk(chunk: Buffer): void;
  endCopyFrom(): void;
  sendCopyFail(message: string): void;
};

/** Runs `COPY … FROM STDIN`. Pauses its source while the network cannot accept more. */
class CopyIn implements pg.Submittable {
  readonly #text: string;
  readonly #source: Readable;
  readonly #ready = Promise.withResolvers<void>();
  readonly #done = Promise.withResolvers<number>();
  #connection: Connection | undefined;
  #rows = 0;
  #failed = false;

  constructor(text: string, source: Readable) {
    this.#text = text;
    this.#source = source;
    // A caller that waits for one promise may never await the other.
    this.#ready.promise.catch(() => {});
    this.#done.promise.catch(() => {});
  }

  get ready(): Promise<void> {
    return this.#ready.promise;
  }

  get done(): Promise<number> {
    return this.#done.promise;
  }

  submit(connection: pg.Connection): void {
    this.#connection = connection as Connection;
    connection.query(this.#text);
  }

  write(chunk: Buffer): void {
    if (this.#failed || this.#connection === undefined) return;
    this.#connection.sendCopyFromChunk(chunk);
    const { stream } = this.#connection;
    if (!stream.writableNeedDrain || this.#source.isPaused()) return;
    this.#source.pause();
    const resume = (): void => {
      stream.off('drain', resume).off('close', resume);
      this.#source.resume();
    };
    stream.on('drain', resume).on('close', resume);
  }

  end(): void {
    if (!this.#failed) this.#connection?.endCopyFrom();
  }

  fail(): void {
    if (!this.#failed) this.#connection?.sendCopyFail('the source failed');
  }

  handleCopyInResponse(): void {
    this.#ready.resolve();
  }

  handleCommandComplete({ text }: { readonly text: string }): void {
    this.#rows = Number(text.split(' ')[1] ?? 0);
  }

  handleReadyForQuery(): void {
    this.#done.resolve(this.#rows);
  }

  handleError(error: Error): void {
    this.#failed = true;
    this.#ready.reject(error);
    this.#done.reject(error);
  }
}

type Sink = { write(chunk: Buffer): void };

/** `COPY … TO STDOUT`. */
class CopyOut implements pg.Submittable {
  readonly #text: string;
  readonly #sink: Sink;
  readonly #done = Promise.withResolvers<number>();
  #rows = 0;

  constructor(text: string, sink: Sink) {
    this.#text = text;
    this.#sink = sink;
  }

  get done(): Promise<number> {
    return this.#done.promise;
  }

  submit(connection: pg.Connection): void {
    connection.query(this.#text);
  }

  handleCopyData({ chunk }: { readonly chunk: Buffer }): void {
    this.#sink.write(chunk);
  }

  handleCommandComplete({ text }: { readonly text: string }): void {
    this.#rows = Number(text.split(' ')[1] ?? 0);
  }

  handleReadyForQuery(): void {
    this.#done.resolve(this.#rows);
  }

  handleError(error: Error): void {
    this.#done.reject(error);
  }
}
