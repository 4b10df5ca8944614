// Sends an answer as frames: in one if it is short, otherwise in chunks with backpressure.
import type { Invocation } from './invocation.ts';
import {
  CHUNK_BYTES,
  FROM_WORKER,
  STREAM_WINDOW_BYTES,
  toJson,
  withHead,
  type FrameWriter,
} from './protocol.ts';
import { toBytes, type Answer } from './response.ts';

/** Throws any error of the body's stream. */
export async function sendAnswer(writer: FrameWriter, invocation: Invocation, answer: Answer): Promise<void> {
  const { body } = answer;
  if (body.kind === 'none') sendWhole(writer, invocation, answer, undefined);
  else if (body.kind === 'stream') await sendStream(writer, invocation, answer, toChunks(body.chunks));
  else if (body.bytes.length <= STREAM_WINDOW_BYTES) sendWhole(writer, invocation, answer, body.bytes);
  else {
    const length: readonly [string, string] = ['content-length', String(body.bytes.length)];
    sendHead(writer, invocation, { ...answer, headers: [...answer.headers, length] });
    await sendBytes(writer, invocation, body.bytes);
    writer.send(FROM_WORKER.end, invocation.id);
  }
}

async function sendStream(
  writer: FrameWriter,
  invocation: Invocation,
  answer: Answer,
  chunks: Chunks,
): Promise<void> {
  // A cancelled stream must not wait for a chunk that may never come.
  const cancelled = invocation.whenCancelled();
  const first = await Promise.race([chunks.next(), cancelled]);
  const firstBytes = !first || first.done ? undefined : toBytes(first.value);
  const second = first && !first.done ? chunks.next() : undefined;
  // A body that ends after one chunk is sent whole, with a length; a live stream must not wait for its second chunk.
  if (!second || (await isDoneSoon(second))) {
    const headers = answer.headers.filter(([name]) => name !== 'content-length');
    sendWhole(writer, invocation, { ...answer, headers }, firstBytes);
    return;
  }
  sendHead(writer, invocation, answer);
  if (firstBytes) await sendBytes(writer, invocation, firstBytes);
  let next = await Promise.race([second, cancelled]);
  while (next && !next.done && !invocation.cancelled) {
    await sendBytes(writer, invocation, toBytes(next.value));
    next = await Promise.race([chunks.next(), cancelled]);
  }
  if (invocation.cancelled) chunks.stop();
  writer.send(FROM_WORKER.end, invocation.id);
}

function sendWhole(
  writer: FrameWriter,
  { id }: Invocation,
  { status, headers }: Answer,
  bytes: Buffer | undefined,
): void {
  const head = toJson({ status, headers, bodyless: !bytes });
  writer.send(FROM_WORKER.answer, id, ...withHead(head, bytes));
}

function sendHead(writer: FrameWriter, invocation: Invocation, { status, headers }: Answer): void {
  invocation.streaming = true;
  writer.send(FROM_WORKER.head, invocation.id, toJson({ status, headers }));
}

async function sendBytes(writer: FrameWriter, invocation: Invocation, bytes: Buffer): Promise<void> {
  for (let at = 0; at < bytes.length && !invocation.cancelled; at += CHUNK_BYTES) {
    const piece = bytes.subarray(at, at + CHUNK_BYTES);
    await invocation.spend(piece.length);
    writer.send(FROM_WORKER.chunk, invocation.id, piece);
  }
}

type Chunks = { next(): Promise<IteratorResult<unknown>>; stop(): void };

/** A common interface to iterate and cancel; cancelling a ReadableStream works even during a pending read. */
function toChunks(source: AsyncIterable<unknown>): Chunks {
  if (source instanceof ReadableStream) {
    const reader: ReadableStreamDefaultReader<unknown> = source.getReader();
    return {
      next: async () => {
        const { done, value } = await reader.read();
        return done ? { done: true, value: undefined } : { done: false, value };
      },
      stop: () => void reader.cancel().catch(() => {}),
    };
  }
  const iterator = source[Symbol.asyncIterator]();
  return {
    next: () => iterator.next(),
    stop: () => void iterator.return?.().catch(() => {}),
  };
}

async function isDoneSoon(next: Promise<IteratorResult<unknown>>): Promise<boolean> {
  const pending = new Promise<undefined>((soon) => setImmediate(() => setImmediate(soon, undefined)));
  // A rejection surfaces where the chunk is awaited.
  const outcome = await Promise.race([next.catch(() => undefined), pending]);
  return outcome?.done === true;
}
