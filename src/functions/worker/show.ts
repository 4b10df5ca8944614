// Formats what a handler logs or throws for a frame.
import { inspect } from 'node:util';
import { adviceFor, withoutOwnFrames } from './explain-load-error.ts';
import type { Failure } from './protocol.ts';

const MAX_LENGTH = 32 * 1024;

export function showMessage(message: unknown): string {
  return cut(typeof message === 'string' ? message : inspect(message, { breakLength: Infinity }));
}

/** Fields as JSON; what JSON cannot represent (cycles, bigints) becomes text. */
export function showFields(fields: unknown): unknown {
  try {
    const text = JSON.stringify(fields, (_key, value: unknown) => {
      if (typeof value === 'bigint') return value.toString();
      if (value instanceof Error) return { name: value.name, message: value.message, stack: value.stack };
      return value;
    });
    if (text === undefined) return inspect(fields);
    return text.length > MAX_LENGTH ? cut(text) : JSON.parse(text);
  } catch {
    // A cycle, or the handler's own getter or toJSON threw.
    return inspect(fields, { depth: 4, breakLength: Infinity, getters: false });
  }
}

export function toFailure(kind: Failure['kind'], error: unknown): Failure {
  const message = error instanceof Error ? error.message : inspect(error);
  const advice = kind === 'load' ? adviceFor(error) : undefined;
  const stack = withoutOwnFrames(renderStack(error));
  return { kind, message, stack: advice === undefined ? stack : `${advice}\n${stack}` };
}

/** Includes causes and own properties, which `error.stack` lacks. */
export function renderStack(error: unknown): string {
  try {
    return inspect(error, { breakLength: Infinity });
  } catch {
    // The error's own getter threw.
    return 'an error that cannot be displayed';
  }
}

function cut(text: string): string {
  return text.length > MAX_LENGTH ? `${text.slice(0, MAX_LENGTH)}… (cut)` : text;
}
