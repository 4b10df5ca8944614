// What a worker says becomes lines of the server's log, without secrets: the lines that its console sends as
// frames, and whatever bypasses the console.
import type { ChildProcess } from 'node:child_process';
import type { Readable } from 'node:stream';
import type { Log } from '../../log/log.ts';
import { LOG_LEVELS } from '../worker/protocol.ts';

const MAX_RAW_LINE = 32 * 1024;

/** Takes secrets out of a text. */
export type Redact = (text: string) => string;

/** A frame that the worker's console sent. */
export function logLine(log: Log, redact: Redact, payload: Buffer): void {
  const line = parseLogLine(payload.toString('utf8'), redact);
  if (!line) return;
  const { level, message, fields, requestId, functionName } = line;
  log[level](
    {
      ...(requestId === undefined ? {} : { requestId }),
      ...(functionName === undefined ? {} : { function: functionName }),
      ...(fields === undefined ? {} : { fields }),
    },
    message,
  );
}

/** What bypasses the console: Node's own warnings and crash reports, native code. */
export function logStreams(log: Log, redact: Redact, { stdout, stderr, pid }: ChildProcess): void {
  eachLine(stdout, (line) => log.info({ worker: pid }, redact(line)));
  eachLine(stderr, (line) => log.warn({ worker: pid }, redact(line)));
}

function eachLine(stream: Readable | null, take: (line: string) => void): void {
  let rest = '';
  stream?.setEncoding('utf8');
  stream?.on('data', (text: string) => {
    const lines = (rest + text).split('\n');
    rest = (lines.pop() ?? '').slice(0, MAX_RAW_LINE);
    for (const line of lines) {
      if (line.trim() !== '') take(line.slice(0, MAX_RAW_LINE));
    }
  });
}

type ReceivedLine = {
  level: (typeof LOG_LEVELS)[number];
  message: string;
  fields?: unknown;
  requestId?: string;
  functionName?: string;
};

function parseLogLine(text: string, redact: Redact): ReceivedLine | undefined {
  let line: unknown;
  try {
    // Every string by itself: in the JSON text a secret may look like anything.
    line = JSON.parse(text, (_key, value: unknown) => (typeof value === 'string' ? redact(value) : value));
  } catch {
    // Not from our own code; the text is still worth having.
    return { level: 'info', message: redact(text) };
  }
  if (typeof line !== 'object' || line === null || !('level' in line) || !('message' in line))
    return undefined;
  const level = LOG_LEVELS.find((one) => one === line.level) ?? 'info';
  return {
    level,
    message: String(line.message),
    ...('fields' in line ? { fields: line.fields } : {}),
    ...('requestId' in line && typeof line.requestId === 'string' ? { requestId: line.requestId } : {}),
    ...('functionName' in line && typeof line.functionName === 'string'
      ? { functionName: line.functionName }
      : {}),
  };
}
