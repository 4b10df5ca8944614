// Entry point of a worker process. It has one socket to the server (descriptor 3) that multiplexes calls, and no keys,
// database or environment. It exits when the socket closes.
import { AsyncLocalStorage } from 'node:async_hooks';
import { Socket } from 'node:net';
import { ClientLibrary } from './client-library.ts';
import { captureConsole } from './console.ts';
import { FunctionContext } from './context.ts';
import { Handlers, type Handler } from './handlers.ts';
import { Invocation } from './invocation.ts';
import { resolveSvcyaml } from './resolve-svcyaml.ts';
import {
  CANCEL_REASONS,
  FrameReader,
  FrameWriter,
  FROM_WORKER,
  fromJson,
  splitHead,
  TO_WORKER,
  toJson,
  type Failure,
  type LogLevel,
  type LogLine,
  type RequestHead,
  type WorkerSettings,
} from './protocol.ts';
import { BadJson, toRequest } from './request.ts';
import { BadAnswer, toAnswer, type Answer } from './response.ts';
import { sendAnswer } from './send-answer.ts';
import { toFailure, showFields, showMessage, renderStack } from './show.ts';

// Bound before any handler can delete or replace them.
const exit = process.exit.bind(process);
const residentBytes = process.memoryUsage.rss.bind(process.memoryUsage);

const socket = new Socket({ fd: 3, readable: true, writable: true });
const writer = new FrameWriter(socket);
const running = new Map<number, Invocation>();
const current = new AsyncLocalStorage<Invocation>();
const tokenWaits = new Map<number, Array<(token: string) => void>>();
let project: { readonly handlers: Handlers; readonly library: ClientLibrary } | undefined;

resolveSvcyaml();
captureConsole((level, message) => writeLog(level, message));
// Node has read what it needs; handlers get only `ctx.env`.
for (const name of Object.keys(process.env)) if (name !== 'TZ') delete process.env[name];

// Signals may reach the whole process tree (a service manager's SIGTERM); the server decides when workers end.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});
process.on('unhandledRejection', (reason) => {
  writeLog('error', `unhandled rejection: ${renderStack(reason)}`);
});
process.on('uncaughtException', (error) => {
  // AsyncLocalStorage knows the call if its handler started the throwing callback. Other calls may finish.
  writeLog('error', `uncaught exception: ${renderStack(error)}`);
  const cause = current.getStore();
  if (cause) fail(cause, toFailure('threw', error));
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
      // Flush before later frames run: the server treats calls behind an unanswered ping as unread.
      writer.flush();
      return;
    }
    case TO_WORKER.token:
      for (const resolve of tokenWaits.get(id) ?? []) resolve(payload.toString('utf8'));
      tokenWaits.delete(id);
      return;
    case TO_WORKER.load:
      void loadAhead(id, payload.toString('utf8'));
      return;
    case TO_WORKER.configure: {
      const settings = fromJson<WorkerSettings>(payload);
      project = { handlers: new Handlers(settings), library: new ClientLibrary(settings) };
      writer.send(FROM_WORKER.ready, 0);
      return;
    }
    case TO_WORKER.shutdown:
      writer.flush();
      socket.end(() => exit(0));
  }
}

function start(id: number, head: RequestHead, body: Buffer): void {
  const invocation = new Invocation(id, head);
  running.set(id, invocation);
  let request: object;
  try {
    request = toRequest(head, body);
  } catch (error) {
    if (!(error instanceof BadJson)) throw error;
    fail(invocation, { kind: 'bad-json', message: error.message });
    return;
  }
  const context = new FunctionContext({
    head,
    library: () => configured().library,
    signal: () => invocation.signal,
    writeLog: (level, message, fields) => writeLog(level, message, fields, invocation),
    serviceToken: () => serviceToken(invocation),
  });
  current.run(invocation, () => void handle(invocation, request, context));
}

async function handle(invocation: Invocation, request: object, context: object): Promise<void> {
  let handler: Handler;
  try {
    handler = await configured().handlers.load(invocation.head.functionName);
  } catch (error) {
    fail(invocation, toFailure('load', error));
    return;
  }
  let answer: Answer;
  try {
    const returned: unknown = await handler(request, context);
    // The answer to an event is not used, so the handler can return nothing.
    answer = toAnswer(returned === undefined && invocation.head.event ? {} : returned);
  } catch (error) {
    fail(invocation, toFailure(error instanceof BadAnswer ? 'bad-answer' : 'threw', error));
    return;
  }
  try {
    await sendAnswer(writer, invocation, answer);
    running.delete(invocation.id);
  } catch (error) {
    const failure = toFailure('threw', error);
    if (invocation.streaming && !invocation.cancelled) {
      writeLog('error', `the response stream failed: ${failure.stack}`);
    }
    fail(invocation, failure);
  }
}

/** Ignored for a call that has already ended. */
function fail({ id }: Invocation, failure: Failure): void {
  if (running.delete(id)) writer.send(FROM_WORKER.failed, id, toJson(failure));
}

async function loadAhead(id: number, name: string): Promise<void> {
  const startedAt = performance.now();
  let failure: Failure | undefined;
  try {
    await configured().handlers.load(name);
  } catch (error) {
    failure = toFailure('load', error);
  }
  writer.send(FROM_WORKER.loaded, id, toJson({ name, failure, ms: performance.now() - startedAt }));
}

function serviceToken({ id }: Invocation): Promise<string> {
  return new Promise((resolve) => {
    const waiting = tokenWaits.get(id);
    if (waiting) waiting.push(resolve);
    else {
      tokenWaits.set(id, [resolve]);
      writer.send(FROM_WORKER.needToken, id);
    }
  });
}

/** The server sends `configure` first. */
function configured(): NonNullable<typeof project> {
  if (!project) throw new Error('the worker is not configured');
  return project;
}

function writeLog(
  level: LogLevel,
  message: unknown,
  fields?: unknown,
  invocation = current.getStore(),
): void {
  const line: LogLine = {
    level,
    message: showMessage(message),
    ...(fields === undefined ? {} : { fields: showFields(fields) }),
    requestId: invocation?.head.requestId,
    functionName: invocation?.head.functionName,
  };
  writer.send(FROM_WORKER.log, 0, toJson(line));
}
