// Structured logging. A logger is handed down, never global. Redaction by path is the second line of defence: a secret
// should not be put into a log call at all.
import fs from 'node:fs';
import { stripVTControlCharacters, styleText } from 'node:util';
import pino, { type DestinationStream, type Logger } from 'pino';
import pretty from 'pino-pretty';
import { hasCode } from '../lib/error-code.ts';
import { REDACTED } from '../lib/secret-mask.ts';
import { errorFields } from './error-fields.ts';
import type { LineSink } from './recent-lines.ts';

export type Log = Logger;

const SECRET_PATHS = [
  'req.headers.authorization',
  'req.headers.apikey',
  'req.headers.cookie',
  'headers.authorization',
  'headers.apikey',
  'headers.cookie',
  'password',
  '*.password',
  'token',
  '*.token',
  'access_token',
  '*.access_token',
  'refresh_token',
  '*.refresh_token',
  'secret',
  '*.secret',
  'apikey',
  '*.apikey',
];

export type LogOptions = {
  readonly level?: string | undefined;
  /** Prints readable lines instead of JSON. `coloured` is for a terminal. */
  readonly pretty?: 'coloured' | 'plain' | undefined;
  readonly destination?: DestinationStream | undefined;
  /** Each gets every line too, as the very text that is written. */
  readonly sinks?: readonly LineSink[] | undefined;
  /** Number of this process, where several write to one place: named in each line. */
  readonly process?: number | undefined;
};

export function createLog(options: LogOptions = {}): Log {
  const settings = {
    level: options.level ?? 'info',
    base: options.process === undefined ? null : { process: options.process },
    redact: { paths: SECRET_PATHS, censor: REDACTED },
    serializers: { err: errorFields },
    formatters: { level: (label: string) => ({ level: label }) },
    timestamp: pino.stdTimeFunctions.isoTime,
  };
  const destination =
    options.destination ??
    (options.pretty
      ? prettyStream(options.pretty === 'coloured')
      : jsonStream(options.process !== undefined));
  const { sinks = [] } = options;
  return pino(settings, sinks.length > 0 ? mirrored(destination, sinks) : destination);
}

/**
 * Returns a log with the same destinations that does not look for secrets, which takes most of the time of a line. Use
 * it only for lines whose fields cannot hold a secret.
 */
export function withoutRedaction(log: Log): Log {
  return log.child({}, { redact: [] });
}

function mirrored(destination: DestinationStream, sinks: readonly LineSink[]): DestinationStream {
  return {
    write(line) {
      destination.write(line);
      for (const sink of sinks) sink.push(line);
    },
  };
}

/** Bytes that a pipe takes as a whole (PIPE_BUF of Linux): lines of several processes do not get into each other. */
const ATOMIC_WRITE = 4096;

/** Lines are written in batches: a write for each would cost more than making the line. */
function jsonStream(isShared: boolean): DestinationStream {
  const size = isShared ? { minLength: ATOMIC_WRITE / 2, maxWrite: ATOMIC_WRITE } : { minLength: 4096 };
  const destination = pino.destination({ fd: 1, sync: false, periodicFlush: 200, ...size });
  // Before the library's own flush on exit.
  process.prependListener('exit', dropWhatCannotBeWritten);
  process.on('exit', () => destination.flushSync());
  return destination;
}

/**
 * The library's last flush repeats a write until it succeeds, whatever the error. Once the reader of the log is gone it
 * never does, and the process would never end.
 */
function dropWhatCannotBeWritten(): void {
  const { writeSync } = fs;
  fs.writeSync = ((fd: number, text: string, ...rest: []) => {
    try {
      return writeSync(fd, text, ...rest);
    } catch (error) {
      if (hasCode(error, 'EAGAIN', 'EBUSY')) throw error;
      return Buffer.byteLength(text);
    }
  }) as typeof writeSync;
}

/** `10:31:02 404 GET /rest/v1/todos PGRST205 3.1 ms` */
function prettyStream(coloured: boolean): DestinationStream {
  const showing = (fields: string): DestinationStream =>
    pretty({
      sync: true,
      colorize: coloured,
      translateTime: 'SYS:HH:MM:ss',
      ignore: `requestId,method,url,status,ms,error${fields}`,
      messageFormat: (line, key) => {
        const shown = prettyMessage(line, text(line[key]));
        return coloured ? shown : stripVTControlCharacters(shown);
      },
    });
  // Fields that are printed below the line, unless the message contains them.
  const ofRequest = showing(',traceId,client,route,function,role,user,code,hint,dbMs,bytes');
  const slow = showing(',traceId,shape,role,rows,sqlstate,before,sql,plan,noPlan');
  const plain = showing('');
  const chooseStream = (line: string): DestinationStream => {
    if (line.endsWith('"msg":"request"}\n')) return ofRequest;
    return line.endsWith('"msg":"slow statement"}\n') ? slow : plain;
  };
  return { write: (line) => chooseStream(line).write(line) };
}

/** Formats a line for a terminal: coloured status, and stack frames that link to the project's files. */
export function prettyMessage(line: Readonly<Record<string, unknown>>, message: string): string {
  if (message === 'request') {
    const { status, method, url, code, hint, ms } = line;
    const shown = styleText(statusColour(Number(status)), text(status), { validateStream: false });
    const reason = code === undefined ? '' : ` ${text(code)}`;
    const advice = hint === undefined ? '' : `\n    → ${text(hint)}`;
    return `${shown} ${text(method)} ${text(url)}${reason} ${text(ms)} ms${advice}`;
  }
  if (message === 'slow statement') {
    const { ms, role, sql, plan, noPlan } = line;
    const below = [text(sql), ...text(plan ?? noPlan).split('\n')].map((line) => `\n    ${line}`);
    return `${message}: ${text(ms)} ms as ${text(role)}${below.join('')}`;
  }
  const { error } = line;
  if (typeof error !== 'string') return message;
  const stack = error.split('\n').filter((line) => !OWN_FRAME.test(line));
  return `${message}\n${stack.map((line) => `    ${line}`).join('\n')}`;
}

/** Frames of svc's worker and of Node, which are left out because the mistake is not there. */
const OWN_FRAME = /^\s+at .*(\/functions\/worker\/[\w-]+\.[jt]s|node:internal\/)/;

function statusColour(status: number): 'green' | 'cyan' | 'yellow' | 'red' {
  if (status >= 500) return 'red';
  if (status >= 400) return 'yellow';
  return status >= 300 ? 'cyan' : 'green';
}

function text(value: unknown): string {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : '';
}

/** Log for parts that run without a server, and for tests that ignore the log. */
export const silentLog: Log = pino({ level: 'silent' });
