// Request bodies: JSON as it came, CSV and forms turned into JSON, so that every later stage knows one form.
import type { Problem } from '../../problem/problem.ts';
import { badBody, invalidJson } from '../problem.ts';
import { readJsonBody, type JsonBody } from './json-keys.ts';

export type Payload = JsonBody & { readonly bytes: Buffer };

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
  const semicolon = contentType.indexOf(';');
  const type = (semicolon < 0 ? contentType : contentType.slice(0, semicolon)).trim().toLowerCase();
  const format = FORMATS.get(type);
  if (format) return format;
  throw badBody(
    `Content-Type not acceptable: ${type}`,
    'Send application/json, text/csv or application/x-www-form-urlencoded.',
  );
}

export function readPayload(bytes: Buffer, format: BodyFormat): Payload {
  const json =
    format === 'json' ? bytes : format === 'csv' ? csvToJson(text(bytes)) : formToJson(text(bytes));
  const body = readJsonBody(json);
  if (!body) throw invalidJson();
  return { ...body, bytes: json };
}

/** The body as the text of one value; PostgreSQL checks JSON. */
export function wholeBody(bytes: Buffer, baseType: string, contentType: string | undefined): Buffer {
  const wanted = WHOLE_BODIES.get(baseType);
  const type = (contentType ?? '').split(';')[0]?.trim().toLowerCase() ?? '';
  if (wanted !== undefined && type !== wanted)
    throw badBody(`Content-Type not acceptable: ${type}`, `The body is one ${baseType}: send ${wanted}.`);
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

/** Drops the byte order mark that spreadsheets write, and refuses bytes that are not UTF-8 instead of storing U+FFFD. */
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

/** A form field is stored, so unlike in a query string a malformed one is refused. */
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
  fields: [],
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

/** Unquoted NULL is null; everything else is text, an empty field the empty text. */
function csvToJson(text: string): Buffer {
  const [header, ...lines] = csvLines(text);
  if (!header || header.length === 0) throw invalidJson();
  const names = new Set<string>();
  for (const { text: name } of header) {
    if (names.has(name)) {
      throw badBody(`The header line names '${name}' twice`, 'Give each column a name of its own.');
    }
    names.add(name);
  }
  const rows = lines.map((line) => {
    if (line.length !== header.length) {
      throw badBody(
        'All lines must have same number of fields',
        'Every line needs as many fields as the header line.',
      );
    }
    const row: Record<string, string | null> = Object.create(null);
    header.forEach((name, index) => {
      const field = line[index];
      row[name.text] = field === undefined || (field.text === 'NULL' && !field.quoted) ? null : field.text;
    });
    return row;
  });
  return Buffer.from(JSON.stringify(rows));
}

type CsvField = { readonly text: string; readonly quoted: boolean };

function csvLines(text: string): CsvField[][] {
  const lines: CsvField[][] = [];
  let line: CsvField[] = [];
  let at = 0;
  while (at < text.length) {
    let field: CsvField;
    if (text.charAt(at) === '"') {
      let value = '';
      at++;
      for (;;) {
        const quote = text.indexOf('"', at);
        if (quote < 0) throw badBody('parse error (not enough input)', 'A quoted field is not closed.');
        value += text.slice(at, quote);
        at = quote + 1;
        if (text.charAt(at) !== '"') break;
        value += '"';
        at++;
      }
      field = { text: value, quoted: true };
    } else {
      const match = /[^,\r\n]*/y;
      match.lastIndex = at;
      const value = match.exec(text)?.[0] ?? '';
      at += value.length;
      field = { text: value, quoted: false };
    }
    line.push(field);
    const separator = text.charAt(at);
    if (separator === ',') {
      at++;
      // A comma at the very end still opens an empty field.
      if (at === text.length) line.push({ text: '', quoted: false });
      else continue;
    } else if (separator === '\r' || separator === '\n') {
      at += text.startsWith('\r\n', at) ? 2 : 1;
    } else if (at < text.length) {
      throw badBody('parse error (endOfInput)', 'Text behind a closing quote must be a comma or a line end.');
    }
    lines.push(line);
    line = [];
  }
  return lines;
}
