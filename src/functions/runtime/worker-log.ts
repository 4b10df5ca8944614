// Copies a worker's output into the server's log, secrets redacted: console frames, and raw stdout and stderr.
import type { ChildProcess } from 'node:child_process';
import type { Readable } from 'node:stream';
import type { Log } from '../../log/log.ts';
import { LOG_LEVELS, type LogLine } from '../worker/protocol.ts';

const MAX_RAW_LINE = 32 * 1024;

/** Replaces secrets in a text. */
export type Redact = (text: string) => string;

export function logLine(log: Log, redact: Redact, payload: Buffer): void {
  const text = payload.toString('utf8');
  let line: unknown;
  try {
    // Redact each string after parsing: JSON escapes could hide a secret in the raw text.
    line = JSON.parse(text, (_key, value: unknown) => (typeof value === 'string' ? redact(value) : value));
  } catch {
    // Not written by our own code, but still worth logging.
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

/** Output that bypasses the console: Node's warnings and crash reports, native code. */
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
