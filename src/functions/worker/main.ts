// The worker process. One socket to the server (descriptor 3), many requests at once, nothing else: no keys, no
// database, no environment. It ends when the socket does.
import { AsyncLocalStorage } from 'node:async_hooks';
import { Socket } from 'node:net';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { inspect } from 'node:util';
import { ClientLibrary } from './client-library.ts';
import { captureConsole } from './console.ts';
import { FunctionContext } from './context.ts';
import {
  CANCEL_REASONS,
  CHUNK_BYTES,
  FrameReader,
  FrameWriter,
  FROM_WORKER,
  fromJson,
  splitHead,
  STREAM_WINDOW_BYTES,
  TO_WORKER,
  toJson,
  withHead,
  type CancelReason,
  type Failure,
  type LogLevel,
  type RequestHead,
  type WorkerSettings,
} from './protocol.ts';
import { BadJson, toRequest } from './request.ts';
import { BadAnswer, toAnswer, type Answer } from './response.ts';
import { locateSyntaxError } from './syntax-error.ts';

type Handler = (request: object, context: object) => unknown;
const MAX_MESSAGE_LENGTH = 32 * 1024;

/** One request while its handler runs or its body is under way. */
class Running {
  readonly id: number;
  readonly head: RequestHead;
  #controller: AbortController | undefined;
  #cancelled: CancelReason | undefined;
  #credit = STREAM_WINDOW_BYTES;
  #wake: (() => void) | undefined;
  readonly #onCancel: Array<() => void> = [];

  constructor(id: number, head: RequestHead) {
    this.id = id;
    this.head = head;
  }

  /** Called at the cancellation; at once when that has been. */
  onCancel(act: () => void): void {
    if (this.#cancelled) act();
    else this.#onCancel.push(act);
  }

  get cancelled(): boolean {
    return this.#cancelled !== undefined;
  }

  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#cancelled) this.#controller.abort(abortReason(this.#cancelled));
    return this.#controller.signal;
  }

  cancel(reason: CancelReason): void {
    if (this.#cancelled) return;
    this.#cancelled = reason;
    this.#controller?.abort(abortReason(reason));
    this.#wake?.();
    for (const act of this.#onCancel) act();
  }

  grant(bytes: number): void {
    this.#credit += bytes;
    this.#wake?.();
  }

  /** Waits until the client has taken enough of what was sent before. */
  async spend(bytes: number): Promise<void> {
    while (this.#credit <= 0 && !this.#cancelled) {
      await new Promise<void>((wake) => (this.#wake = wake));
    }
    this.#credit -= bytes;
  }
}

// Taken before any handler can delete or replace them.
const exit = process.exit.bind(process);
const residentBytes = process.memoryUsage.rss.bind(process.memoryUsage);

const socket = new Socket({ fd: 3, readable: true, writable: true });
const writer = new FrameWriter(socket);
const running = new Map<number, Running>();
const current = new AsyncLocalStorage<Running>();
const handlers = new Map<string, Promise<Handler>>();
const tokenWaits = new Map<number, Array<(token: string) => void>>();
let settings: WorkerSettings | undefined;
let library: ClientLibrary | undefined;

captureConsole((level, message) => writeLog(level, message));
scrubEnvironment();

// A terminal's Ctrl-C and a service manager's SIGTERM reach the whole group; the server decides when to end.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});
process.on('unhandledRejection', (reason) => {
  writeLog('error', `unhandled rejection: ${stackOf(reason)}`);
});
process.on('uncaughtException', (error) => {
  // Whose it was is known when the throwing callback began in a handler. The others may end in peace.
  writeLog('error', `uncaught exception: ${stackOf(error)}`);
  const cause = current.getStore();
  if (cause && running.has(cause.id)) fail(cause, failureOf('threw', error));
  writer.send(FROM_WORKER.faulty, 0);
});

const reader = new FrameReader(onFrame);
socket.on('data', (chunk: Buffer) => reader.push(chunk));
socket.on('close', () => exit(0));
socket.on('error', () => exit(0));

function onFrame(type: number, id: number, payload: Buffer): void {
  switch (type) {
    case TO_WORKER.request: {
      const { head, body } = splitHead(payload);
      start(id, fromJson<RequestHead>(head), body);
      return;
    }
    case TO_WORKER.cancel:
      running.get(id)?.cancel(CANCEL_REASONS[payload[0] ?? 0] ?? 'deadline');
      return;
    case TO_WORKER.credit:
      running.get(id)?.grant(payload.readUInt32LE(0));
      return;
    case TO_WORKER.ping: {
      const rss = Buffer.allocUnsafe(8);
      rss.writeDoubleLE(residentBytes(), 0);
      writer.send(FROM_WORKER.pong, id, rss);
      // Out before anything behind it is begun: the server takes what follows an unanswered ping for unread.
      writer.flush();
      return;
    }
    case TO_WORKER.token:
      for (const take of tokenWaits.get(id) ?? []) take(payload.toString('utf8'));
      tokenWaits.delete(id);
      return;
    case TO_WORKER.load:
      void report(id, payload.toString('utf8'));
      return;
    case TO_WORKER.configure:
      settings = fromJson<WorkerSettings>(payload);
      library = new ClientLibrary(settings);
      writer.send(FROM_WORKER.ready, 0);
      return;
    case TO_WORKER.shutdown:
      writer.flush();
      socket.end(() => exit(0));
  }
}

function start(id: number, head: RequestHead, body: Buffer): void {
  const request = new Running(id, head);
  running.set(id, request);
  let seen: object;
  try {
    seen = toRequest(head, body);
  } catch (error) {
    if (!(error instanceof BadJson)) throw error;
    fail(request, { kind: 'bad-json', message: error.message });
    return;
  }
  const context = new FunctionContext({
    head,
    library: libraryOrFail,
    signal: () => request.signal,
    writeLog: (level, message, fields) => writeLog(level, message, fields, request),
    serviceToken: () => serviceToken(request),
  });
  current.run(request, () => void handle(request, seen, context));
}

async function handle(request: Running, seen: object, context: object): Promise<void> {
  let handler: Handler;
  try {
    handler = await load(request.head.functionName);
  } catch (error) {
    fail(request, failureOf('load', error));
    return;
  }
  let answer: Answer;
  try {
    answer = toAnswer(await handler(seen, context));
  } catch (error) {
    fail(request, failureOf(error instanceof BadAnswer ? 'bad-answer' : 'threw', error));
    return;
  }
  await send(request, answer);
}

async function send(request: Running, { status, headers, body }: Answer): Promise<void> {
  const { id } = request;
  if (body.kind === 'none' || (body.kind === 'bytes' && body.bytes.length <= STREAM_WINDOW_BYTES)) {
    running.delete(id);
    const bytes = body.kind === 'bytes' ? body.bytes : undefined;
    writer.send(FROM_WORKER.answer, id, ...withHead(toJson({ status, headers, bodyless: !bytes }), bytes));
    return;
  }
  if (body.kind === 'bytes') {
    const length: readonly [string, string] = ['content-length', String(body.bytes.length)];
    writer.send(FROM_WORKER.head, id, toJson({ status, headers: [...headers, length] }));
    await sendBytes(request, body.bytes);
    finish(request);
    return;
  }
  const chunks = iterate(body.chunks);
  // A stream that nobody reads any more must not wait for a chunk that may never come.
  const cancelled = new Promise<undefined>((tell) => request.onCancel(() => tell(undefined)));
  let headSent = false;
  try {
    const first = await Promise.race([chunks.next(), cancelled]);
    const firstBytes = !first || first.done ? undefined : chunkBytes(first.value);
    const second = first && !first.done ? chunks.next() : undefined;
    // A short body is complete by now and gets a length; a live stream must not be kept waiting for its second chunk.
    if (!second || (await isDoneSoon(second))) {
      running.delete(id);
      const head = toJson({ status, headers: withoutLength(headers), bodyless: !firstBytes });
      writer.send(FROM_WORKER.answer, id, ...withHead(head, firstBytes));
      return;
    }
    headSent = true;
    writer.send(FROM_WORKER.head, id, toJson({ status, headers }));
    if (firstBytes) await sendBytes(request, firstBytes);
    let next = await Promise.race([second, cancelled]);
    while (next && !next.done && !request.cancelled) {
      await sendBytes(request, chunkBytes(next.value));
      next = await Promise.race([chunks.next(), cancelled]);
    }
    if (request.cancelled) chunks.stop();
    finish(request);
  } catch (error) {
    const failure = failureOf('threw', error);
    if (headSent && !request.cancelled) writeLog('error', `the response stream failed: ${failure.stack}`);
    fail(request, failure);
  }
}

type Chunks = { next(): Promise<IteratorResult<unknown>>; stop(): void };

/** One chunk after another; `stop` tells the source at once where the source can be told. */
function iterate(source: AsyncIterable<unknown>): Chunks {
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

async function sendBytes(request: Running, bytes: Buffer): Promise<void> {
  for (let at = 0; at < bytes.length && !request.cancelled; at += CHUNK_BYTES) {
    const piece = bytes.subarray(at, at + CHUNK_BYTES);
    await request.spend(piece.length);
    writer.send(FROM_WORKER.chunk, request.id, piece);
  }
}

async function isDoneSoon(next: Promise<IteratorResult<unknown>>): Promise<boolean> {
  const pending = new Promise<undefined>((soon) => setImmediate(() => setImmediate(soon, undefined)));
  // A rejection is met again where the chunk is awaited.
  const outcome = await Promise.race([next.catch(() => undefined), pending]);
  return outcome?.done === true;
}

function withoutLength(headers: Answer['headers']): Answer['headers'] {
  return headers.filter(([name]) => name !== 'content-length');
}

function chunkBytes(chunk: unknown): Buffer {
  if (typeof chunk === 'string') return Buffer.from(chunk);
  if (ArrayBuffer.isView(chunk)) return Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
  if (chunk instanceof ArrayBuffer) return Buffer.from(chunk);
  throw new BadAnswer('a response stream must give text or bytes');
}

function finish(request: Running): void {
  running.delete(request.id);
  writer.send(FROM_WORKER.end, request.id);
}

function fail(request: Running, failure: Failure): void {
  if (!running.delete(request.id)) return;
  writer.send(FROM_WORKER.failed, request.id, toJson(failure));
}

function load(name: string): Promise<Handler> {
  let handler = handlers.get(name);
  if (!handler) {
    handler = importHandler(name);
    handlers.set(name, handler);
  }
  return handler;
}

async function importHandler(name: string): Promise<Handler> {
  const declared = settings?.functions.find((one) => one.name === name);
  if (!settings || !declared) throw new Error(`no function ${name} is declared`);
  let module: unknown;
  try {
    module = await import(pathToFileURL(resolve(settings.root, declared.file)).href);
  } catch (error) {
    await locateSyntaxError(error, settings.root, declared.file);
    throw error;
  }
  const found =
    typeof module === 'object' && module !== null && 'default' in module ? module.default : undefined;
  if (typeof found !== 'function') {
    throw new TypeError(
      `${declared.file} must export the handler as default: export default async function (req, ctx) { … }`,
    );
  }
  return (request, context) => Reflect.apply(found, undefined, [request, context]);
}

async function report(id: number, name: string): Promise<void> {
  const startedAt = performance.now();
  let failure: Failure | undefined;
  try {
    await load(name);
  } catch (error) {
    failure = failureOf('load', error);
  }
  writer.send(FROM_WORKER.loaded, id, toJson({ name, failure, ms: performance.now() - startedAt }));
}

function serviceToken(request: Running): Promise<string> {
  return new Promise((take) => {
    const waiting = tokenWaits.get(request.id);
    if (waiting) waiting.push(take);
    else {
      tokenWaits.set(request.id, [take]);
      writer.send(FROM_WORKER.needToken, request.id);
    }
  });
}

function libraryOrFail(): ClientLibrary {
  if (!library) throw new Error('the worker is not configured');
  return library;
}

function writeLog(level: LogLevel, message: unknown, fields?: unknown, request = current.getStore()): void {
  const text = typeof message === 'string' ? message : inspect(message, { breakLength: Infinity });
  const line = {
    level,
    message: text.length > MAX_MESSAGE_LENGTH ? `${text.slice(0, MAX_MESSAGE_LENGTH)}… (cut)` : text,
    ...(fields === undefined ? {} : { fields: plain(fields) }),
    requestId: request?.head.requestId,
    functionName: request?.head.functionName,
  };
  writer.send(FROM_WORKER.log, 0, toJson(line));
}

/** Fields as JSON can carry them; what it cannot (cycles, bigints) is shown as text. */
function plain(fields: unknown): unknown {
  try {
    const text = JSON.stringify(fields, (_key, value: unknown) => {
      if (typeof value === 'bigint') return value.toString();
      if (value instanceof Error) return { name: value.name, message: value.message, stack: value.stack };
      return value;
    });
    if (text === undefined) return inspect(fields);
    return text.length > MAX_MESSAGE_LENGTH
      ? `${text.slice(0, MAX_MESSAGE_LENGTH)}… (cut)`
      : JSON.parse(text);
  } catch {
    // A cycle, or a getter or toJSON of the handler's own that throws.
    return inspect(fields, { depth: 4, breakLength: Infinity, getters: false });
  }
}

function failureOf(kind: Failure['kind'], error: unknown): Failure {
  const message = error instanceof Error ? error.message : inspect(error);
  return { kind, message, stack: stackOf(error) };
}

function stackOf(error: unknown): string {
  try {
    // inspect shows causes and own properties besides the stack.
    return inspect(error, { breakLength: Infinity });
  } catch {
    // Thrown by the error's own getters.
    return 'an error that cannot be shown';
  }
}

function abortReason(reason: CancelReason): DOMException {
  if (reason === 'deadline') return new DOMException('The function exceeded its timeout', 'TimeoutError');
  const why = reason === 'client-gone' ? 'The caller went away' : 'The service is stopping';
  return new DOMException(why, 'AbortError');
}

/** What Node needed at its start is read by now; handlers are given `ctx.env` and nothing besides. */
function scrubEnvironment(): void {
  for (const name of Object.keys(process.env)) {
    if (name !== 'TZ') delete process.env[name];
  }
}
