// Reads CSV (RFC 4180) with a header line. An unquoted empty field, or an unquoted NULL, is null; `""` is the empty
// text.

export type Csv = {
  readonly names: readonly string[];
  /** Rows with one cell for every name. */
  readonly rows: ReadonlyArray<ReadonlyArray<string | null>>;
};

/** The text is not CSV. The message does not contain values. */
export class CsvError extends Error {
  readonly hint: string;

  constructor(message: string, hint: string) {
    super(message);
    this.name = 'CsvError';
    this.hint = hint;
  }
}

/** Throws a CsvError. `text` has no byte order mark. */
export function readCsv(text: string): Csv {
  const [header, ...lines] = readLines(text);
  if (!header) throw new CsvError('The CSV is empty', 'The first line names the columns.');
  const names = header.map((field) => field.text);
  const twice = names.find((name, index) => names.indexOf(name) < index);
  if (twice !== undefined)
    throw new CsvError(`The header line names '${twice}' twice`, 'Give each column a unique name.');
  const rows = lines.map((line) => {
    if (line.length === names.length) return line.map(toCell);
    throw new CsvError(
      'All lines must have same number of fields',
      'Every line needs as many fields as the header line.',
    );
  });
  return { names, rows };
}

type Field = { readonly text: string; readonly isQuoted: boolean };

function toCell({ text, isQuoted }: Field): string | null {
  return !isQuoted && (text === '' || text === 'NULL') ? null : text;
}

/** Skips empty lines. */
function readLines(text: string): Field[][] {
  const lines: Field[][] = [];
  let line: Field[] = [];
  let at = 0;
  while (at < text.length) {
    const { field, end } = text.charAt(at) === '"' ? readQuoted(text, at) : readPlain(text, at);
    line.push(field);
    at = end;
    const separator = text.charAt(at);
    if (separator === ',') {
      at++;
      if (at < text.length) continue;
      // A comma at the very end still opens an empty field.
      line.push({ text: '', isQuoted: false });
    } else if (separator === '\r' || separator === '\n') {
      at += text.startsWith('\r\n', at) ? 2 : 1;
    } else if (at < text.length) {
      throw new CsvError(
        'parse error (endOfInput)',
        'Text behind a closing quote must be a comma or a line end.',
      );
    }
    if (line.length > 1 || line[0]?.isQuoted === true || line[0]?.text !== '') lines.push(line);
    line = [];
  }
  return lines;
}

type Read = { readonly field: Field; readonly end: number };

function readQuoted(text: string, start: number): Read {
  let value = '';
  let at = start + 1;
  for (;;) {
    const quote = text.indexOf('"', at);
    if (quote < 0) throw new CsvError('parse error (not enough input)', 'A quoted field is not closed.');
    value += text.slice(at, quote);
    at = quote + 1;
    if (text.charAt(at) !== '"') return { field: { text: value, isQuoted: true }, end: at };
    value += '"';
    at++;
  }
}

const PLAIN = /[^,\r\n]*/y;

function readPlain(text: string, start: number): Read {
  PLAIN.lastIndex = start;
  const value = PLAIN.exec(text)?.[0] ?? '';
  return { field: { text: value, isQuoted: false }, end: start + value.length };
}

/** Quotes a field if necessary. */
export function csvField(text: string): string {
  return text === '' || text === 'NULL' || /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
