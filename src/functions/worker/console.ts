// Console output becomes log lines of the call that caused it. Methods that format (table, group, dir) go through a
// Console of Node's that writes into such lines.
import { Console } from 'node:console';
import { Writable } from 'node:stream';
import { formatWithOptions } from 'node:util';
import type { LogLevel } from './protocol.ts';

const DIRECT = { debug: 'debug', log: 'info', info: 'info', warn: 'warn', error: 'error' } as const;
const DRAWN = [
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
  let drawing: Console | undefined;
  for (const method of DRAWN) {
    replace(method, (...values: unknown[]) => {
      drawing ??= new Console({
        stdout: lines(write, 'info'),
        stderr: lines(write, 'warn'),
        colorMode: false,
      });
      Reflect.apply(drawing[method], drawing, values);
    });
  }
}

function replace(method: string, value: (...values: unknown[]) => void): void {
  // The console is the one Node gave; handlers may have taken a reference to it before.
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
