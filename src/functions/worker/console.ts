// Turns console output into log lines of the current call. Methods with their own formatting (table, group, dir) go
// through a Node Console that writes such lines.
import { Console } from 'node:console';
import { Writable } from 'node:stream';
import { formatWithOptions } from 'node:util';
import type { LogLevel } from './protocol.ts';

const DIRECT = { debug: 'debug', log: 'info', info: 'info', warn: 'warn', error: 'error' } as const;
const FORMATTED = [
  'assert',
  'count',
  'countReset',
  'dir',
  'dirxml',
  'group',
  'groupCollapsed',
  'groupEnd',
  'table',
  'time',
  'timeEnd',
  'timeLog',
  'trace',
] as const;

export function captureConsole(write: (level: LogLevel, message: string) => void): void {
  for (const [method, level] of Object.entries(DIRECT)) {
    replace(method, (...values: unknown[]) => write(level, formatWithOptions({ colors: false }, ...values)));
  }
  let formatter: Console | undefined;
  for (const method of FORMATTED) {
    replace(method, (...values: unknown[]) => {
      formatter ??= new Console({
        stdout: lines(write, 'info'),
        stderr: lines(write, 'warn'),
        colorMode: false,
      });
      Reflect.apply(formatter[method], formatter, values);
    });
  }
}

function replace(method: string, value: (...values: unknown[]) => void): void {
  // Patch the existing object: code may already hold a reference to it.
  // oxlint-disable-next-line no-console
  Object.defineProperty(console, method, { value, writable: true, configurable: true, enumerable: true });
}

function lines(write: (level: LogLevel, message: string) => void, level: LogLevel): Writable {
  return new Writable({
    decodeStrings: false,
    write(chunk: unknown, _encoding, done) {
      write(level, String(chunk).replace(/\n$/, ''));
      done();
    },
  });
}
