// Parses request bodies. JSON stays unchanged; CSV and forms are converted to JSON, so that later stages handle one
// form.
import { foreignCharset } from '../../http/charset.ts';
import { CsvError, readCsv, type Csv } from '../../lib/text/csv.ts';
import { withoutByteOrderMark } from '../../lib/text/text-file.ts';
import type { Problem } from '../../problem/problem.ts';
import { badBody, invalidJson, unsupportedCharset } from '../problem.ts';
import { readJsonBody, type JsonBody } from './json-keys.ts';

export type Payload = JsonBody & {
  readonly bytes: Buffer;
  /** The values are texts without types, as in CSV and forms: the text for a json column is JSON. */
  readonly isText: boolean;
};

type BodyFormat = 'json' | 'csv' | 'form';

const FORMATS: ReadonlyMap<string, BodyFormat> = new Map([
  ['application/json', 'json'],
  ['application/vnd.pgrst.object+json', 'json'],
  ['application/vnd.pgrst.array+json', 'json'],
  ['text/csv', 'csv'],
  ['application/x-www-form-urlencoded', 'form'],
]);

export function bodyFormat(contentType: string | undefined): BodyFormat {
  if (contentType === undefined || contentType === '') return 'json';
  checkCharset(contentType);
  const semicolon = contentType.indexOf(';');
  const type = (semicolon < 0 ? contentType : contentType.slice(0, semicolon)).trim().toLowerCase();
  const format = FORMATS.get(type);
  if (format) return format;
  throw badBody(
    `Content-Type not acceptable: ${type}`,
    'Send application/json, text/csv or application/x-www-form-urlencoded.',
  );
}

/** Rejects encodings other than UTF-8, which PostgreSQL would misread as UTF-8. */
function checkCharset(contentType: string): void {
  const charset = foreignCharset(contentType);
  if (charset !== undefined) throw unsupportedCharset(charset);
}

export function readPayload(bytes: Buffer, format: BodyFormat): Payload {
  const json = toJson(bytes, format);
  const body = readJsonBody(json);
  if (!body) throw invalidJson();
  return { ...body, bytes: json, isText: format !== 'json' };
}

function toJson(bytes: Buffer, format: BodyFormat): Buffer {
  if (format === 'json') return withoutByteOrderMark(bytes);
  return format === 'csv' ? csvToJson(text(bytes)) : formToJson(text(bytes));
}

/** Returns the body as the text of one value. PostgreSQL validates JSON. */
export function wholeBody(bytes: Buffer, baseType: string, contentType: string | undefined): Buffer {
  const wanted = WHOLE_BODIES.get(baseType);
  const type = (contentType ?? '').split(';')[0]?.trim().toLowerCase() ?? '';
  if (wanted !== undefined && type !== wanted)
    throw badBody(
      `Content-Type not acceptable: ${type}`,
      `The body is one ${baseType}: send ${wanted}, or JSON with an empty name: {"": …}.`,
    );
  if (baseType !== 'bytea') checkCharset(contentType ?? '');
  if (wanted === undefined) {
    if (bodyFormat(contentType) === 'json') return bytes.length === 0 ? EMPTY_OBJECT.bytes : bytes;
    throw badBody(
      `Content-Type not acceptable: ${type}`,
      'The body is one JSON value: send application/json.',
    );
  }
  return baseType === 'bytea' ? Buffer.from(`\\x${bytes.toString('hex')}`) : Buffer.from(text(bytes));
}

const WHOLE_BODIES: ReadonlyMap<string, string> = new Map([
  ['text', 'text/plain'],
  ['bytea', 'application/octet-stream'],
]);

/** Removes the byte order mark of spreadsheets, and rejects invalid UTF-8 instead of storing U+FFFD. */
function text(bytes: Buffer): string {
  try {
    return UTF8.decode(bytes);
  } catch {
    throw invalidText();
  }
}

const UTF8 = new TextDecoder('utf-8', { fatal: true });

function invalidText(): Problem {
  return badBody('The body is not valid UTF-8', 'Save the file as UTF-8 and send it again.');
}

/** Rejects a malformed form field, because its value is stored, unlike that of a query string. */
function formText(raw: string): string {
  try {
    return decodeURIComponent(raw.replaceAll('+', ' '));
  } catch {
    throw invalidText();
  }
}

export const EMPTY_OBJECT: Payload = {
  bytes: Buffer.from('{}'),
  isArray: false,
  rows: 1,
  keys: [],
  uniform: true,
  partial: [],
  used: [],
  fields: [],
  isText: false,
};

function formToJson(text: string): Buffer {
  const fields: Record<string, string> = Object.create(null);
  for (const pair of text.split('&')) {
    if (pair === '') continue;
    const equals = pair.indexOf('=');
    const key = formText(equals < 0 ? pair : pair.slice(0, equals));
    fields[key] = equals < 0 ? '' : formText(pair.slice(equals + 1));
  }
  return Buffer.from(JSON.stringify(fields));
}

function csvToJson(text: string): Buffer {
  let csv: Csv;
  try {
    csv = readCsv(text);
  } catch (error) {
    throw error instanceof CsvError ? badBody(error.message, error.hint) : error;
  }
  const { names, rows } = csv;
  const keys = names.map((name) => JSON.stringify(name));
  const objects = rows.map(
    (row) => `{${row.map((cell, index) => `${keys[index] ?? ''}:${JSON.stringify(cell)}`).join(',')}}`,
  );
  return Buffer.from(`[${objects.join(',')}]`);
}
