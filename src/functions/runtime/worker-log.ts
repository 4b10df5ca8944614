// What a worker prints becomes lines of the server's log, without secrets: frames from its console, and whatever
// bypasses the console.
import type { ChildProcess } from 'node:child_process';
import type { Readable } from 'node:stream';
import type { Log } from '../../log/log.ts';
import { LOG_LEVELS, type LogLine } from '../worker/protocol.ts';

const MAX_RAW_LINE = 32 * 1024;

/** Takes secrets out of a text. */
export type Redact = (text: string) => string;

/** A frame that the worker's console sent. */
export function logLine(log: Log, redact: Redact, payload: Buffer): void {
  const text = payload.toString('utf8');
  let line: unknown;
  try {
    // Every string by itself: escaped in the JSON text, a secret would not be recognised.
    line = JSON.parse(text, (_key, value: unknown) => (typeof value === 'string' ? redact(value) : value));
  } catch {
    // Not from our own code; the text is still worth having.
    log.info(redact(text));
    return;
  }
  if (!isLogLine(line)) return;
  const { level, message, fields, requestId, functionName } = line;
  log[level]({ requestId, function: functionName, fields }, message);
}

function isLogLine(line: unknown): line is LogLine {
  if (typeof line !== 'object' || line === null || !('level' in line) || !('message' in line)) return false;
  return LOG_LEVELS.some((level) => level === line.level) && typeof line.message === 'string';
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
