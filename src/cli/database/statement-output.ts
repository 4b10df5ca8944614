// Renders the result of a statement as a table, JSON or CSV.
import type { Answered } from '../../postgres/one-statement.ts';

export const FORMATS = ['table', 'json', 'csv'] as const;
export type Format = (typeof FORMATS)[number];

const MAX_CELL_WIDTH = 60;

export function renderAnswer(answered: Answered, format: Format): string {
  return RENDERERS[format](answered);
}

const RENDERERS: Readonly<Record<Format, (answered: Answered) => string>> = {
  table: ({ columns, rows, more, command, affected }) => {
    if (columns.length === 0) return affected === null ? command : `${command} ${affected}`;
    const head = columns.map(({ name }) => shorten(name));
    const cells = rows.map((row) => row.map((value) => (value === null ? '∅' : shorten(value))));
    const widths = head.map((name, at) => Math.max(name.length, ...cells.map((row) => row[at]?.length ?? 0)));
    const line = (values: readonly string[]): string =>
      values
        .map((value, at) => value.padEnd(widths[at] ?? 0))
        .join('  ')
        .trimEnd();
    const note = more ? '; more rows exist, see --limit' : '';
    const count = `(${rows.length} ${rows.length === 1 ? 'row' : 'rows'}${note})`;
    return [line(head), widths.map((width) => '-'.repeat(width)).join('  '), ...cells.map(line), count].join(
      '\n',
    );
  },
  json: (answered) => JSON.stringify(asObject(answered), null, 2),
  csv: ({ columns, rows }) =>
    [columns.map(({ name }) => name), ...rows].map((row) => row.map(csvField).join(',')).join('\r\n'),
};

export type AnswerObject = {
  readonly command: string;
  readonly affected: number | null;
  readonly more: boolean;
  readonly rows: Array<Record<string, unknown>>;
};

export function asObject({ columns, rows, more, command, affected }: Answered): AnswerObject {
  return {
    command,
    affected,
    more,
    rows: rows.map((row) =>
      Object.fromEntries(columns.map(({ name, type }, at) => [name, jsonValue(row[at] ?? null, type)])),
    ),
  };
}

/**
 * Returns the value on one line, without control characters that a terminal would obey: users of the app
 * wrote it.
 */
function shorten(value: string): string {
  const line = value.replaceAll('\n', '↵').replaceAll(/\p{Cc}/gu, '�');
  return line.length > MAX_CELL_WIDTH ? `${line.slice(0, MAX_CELL_WIDTH - 1)}…` : line;
}

/** Type numbers whose values have a JSON form: int2, int4, float4, float8; bool; json, jsonb. */
const NUMBERS: ReadonlySet<number> = new Set([21, 23, 700, 701]);
const BOOLEAN = 16;
const JSONS: ReadonlySet<number> = new Set([114, 3802]);

function jsonValue(text: string | null, type: number): unknown {
  if (text === null) return null;
  if (type === BOOLEAN) return text === 't';
  if (JSONS.has(type)) return JSON.parse(text) as unknown;
  // `NaN`, `Infinity` and numbers that JavaScript would round stay text.
  if (NUMBERS.has(type) && Number.isFinite(Number(text))) return Number(text);
  return text;
}

/** Formats a field by RFC 4180. Null is an empty field, an empty text is a quoted one. */
function csvField(value: string | null): string {
  if (value === null) return '';
  return value === '' || /[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value;
}
