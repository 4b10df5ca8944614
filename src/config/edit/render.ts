// Values as YAML text that fits among what is there already: in brackets where the neighbours are, in lines where
// they are, indented as they are.
import { isMap, isSeq, stringify } from 'yaml';

export type Layout = { readonly text: string; readonly newline: string };

export type Addition = {
  readonly value: unknown;
  /** Where the entry starts; what is inside of it goes two further. */
  readonly column: number;
  /** A neighbour whose style is taken over. */
  readonly like: unknown;
};

const STEP = 2;

/** On one line, whatever it is. */
export function renderInline(value: unknown): string {
  if (typeof value === 'string' && /[\n\r#]/.test(value)) return JSON.stringify(value);
  // As an entry of a list in brackets, where it may end up: `a, b` needs quotes there and nowhere else.
  return stringify([value], { collectionStyle: 'flow', lineWidth: 0, flowCollectionPadding: true })
    .trim()
    .slice(1, -1)
    .trim()
    .replaceAll(/\s*\n\s*/g, ' ');
}

/** `key: value`, the first line without its indentation. */
export function renderEntry(
  layout: Layout,
  { key, value, column, like }: Addition & { readonly key: string },
): string {
  if (isInline(value, like)) return `${key}: ${renderInline(value)}`;
  const gap = isCollection(value) ? layout.newline + ' '.repeat(column + STEP) : ' ';
  return `${key}:${gap}${renderBlock(layout, value, column + STEP)}`;
}

/** `- value`, with its indentation. */
export function renderItem(layout: Layout, { value, column, like }: Addition): string {
  const written = isInline(value, like) ? renderInline(value) : renderBlock(layout, value, column + STEP);
  return `${' '.repeat(column)}- ${written}`;
}

/** The first line without its indentation. */
function renderBlock({ newline }: Layout, value: unknown, column: number): string {
  // A `#` inside of a word begins no comment, but people and editors take it for one.
  if (typeof value === 'string' && value.includes('#') && !value.includes('\n')) return JSON.stringify(value);
  return stringify(value, { lineWidth: 0, blockQuote: 'literal' })
    .trimEnd()
    .split('\n')
    .map((line, index) => (line === '' || index === 0 ? line : ' '.repeat(column) + line))
    .join(newline);
}

/** In brackets, because it is empty or because its neighbour is. */
function isInline(value: unknown, like: unknown): boolean {
  return isCollection(value) && (Object.keys(value).length === 0 || isFlow(like));
}

function isCollection(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

export function isFlow(node: unknown): boolean {
  return (isMap(node) || isSeq(node)) && node.flow === true;
}
