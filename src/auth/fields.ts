// Reads the fields of a request. `null` counts as absent, because clients send null challenges. Unknown keys are
// ignored, because clients spread whole argument objects. A wrong JSON type is a 400, never a 500.
import { problems } from './problem.ts';

export type JsonObject = Record<string, unknown>;

export class Fields {
  readonly #values: Readonly<Record<string, unknown>>;

  constructor(values: Readonly<Record<string, unknown>>) {
    this.#values = values;
  }

  has(name: string): boolean {
    return this.#get(name) !== undefined;
  }

  text(name: string): string | undefined {
    return this.#typed(name, 'a string', (value) => typeof value === 'string');
  }

  /** Same as `text`, but an empty string counts as absent. */
  filled(name: string): string | undefined {
    return this.text(name) || undefined;
  }

  flag(name: string): boolean | undefined {
    return this.#typed(name, 'a boolean', (value) => typeof value === 'boolean');
  }

  object(name: string): JsonObject | undefined {
    return this.#typed(name, 'an object', isJsonObject);
  }

  #typed<T>(name: string, type: string, is: (value: unknown) => value is T): T | undefined {
    const value = this.#get(name);
    if (value === undefined || is(value)) return value;
    throw problems.badJson(`${name} must be ${type}`);
  }

  /** Reads a non-negative integer from the query. An empty string counts as absent. */
  count(name: string): number | undefined {
    const text = this.filled(name);
    if (text === undefined) return undefined;
    if (!/^\d{1,9}$/.test(text)) throw problems.validationFailed(`${name} must be a non-negative integer`);
    return Number(text);
  }

  #get(name: string): unknown {
    const value = Object.hasOwn(this.#values, name) ? this.#values[name] : undefined;
    return value === null ? undefined : value;
  }
}

export const NO_FIELDS: Fields = new Fields({});

export function parseJsonBody(bytes: Buffer): Fields {
  if (bytes.length === 0) return NO_FIELDS;
  let value: unknown;
  try {
    value = JSON.parse(bytes.toString('utf8'));
  } catch {
    // The parser's own message would repeat parts of the body.
    throw problems.badJson('Could not parse request body as JSON');
  }
  if (!isJsonObject(value)) throw problems.badJson('The request body must be a JSON object');
  return new Fields(value);
}

export function parseFormBody(bytes: Buffer): Fields {
  return new Fields(Object.fromEntries(new URLSearchParams(bytes.toString('utf8'))));
}

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

export function isUuid(text: string): boolean {
  return UUID.test(text);
}

/** Reads an id from the path. A value that is not a UUID is treated as an unknown path. */
export function parsePathUuid(text: string | undefined, name: string): string {
  if (text === undefined || !isUuid(text)) throw problems.badPath(`${name} must be a UUID`);
  return text.toLowerCase();
}
