// Renders values as YAML in the style of their neighbours: inline or as a block, with the same indentation.
import { isMap, isSeq, stringify } from 'yaml';

export type Layout = { readonly text: string; readonly newline: string };

export type Addition = {
  readonly value: unknown;
  /** Column of the entry. Nested lines are indented by two more columns. */
  readonly column: number;
  /** A neighbour whose style is copied. */
  readonly like: unknown;
};

const STEP = 2;

/** Renders any value on one line. */
export function renderInline(value: unknown): string {
  if (typeof value === 'string' && /[\n\r#]/.test(value)) return JSON.stringify(value);
  // Render as an item of an inline list, because `a, b` needs quotes only there.
  return stringify([value], { collectionStyle: 'flow', lineWidth: 0, flowCollectionPadding: true })
    .trim()
    .slice(1, -1)
    .trim()
    .replaceAll(/\s*\n\s*/g, ' ');
}

/** Renders `key: value` without the indentation of the first line. */
export function renderEntry(
  layout: Layout,
  { key, value, column, like }: Addition & { readonly key: string },
): string {
  if (isInline(value, like)) return `${key}: ${renderInline(value)}`;
  const gap = isCollection(value) ? layout.newline + ' '.repeat(column + STEP) : ' ';
  return `${key}:${gap}${renderBlock(layout, value, column + STEP)}`;
}

/** Renders `- value` with its indentation. */
export function renderItem(layout: Layout, { value, column, like }: Addition): string {
  const written = isInline(value, like) ? renderInline(value) : renderBlock(layout, value, column + STEP);
  return `${' '.repeat(column)}- ${written}`;
}

/** Renders without the indentation of the first line. */
function renderBlock({ newline }: Layout, value: unknown, column: number): string {
  // A `#` inside a word does not begin a comment, but readers and editors may take it for one.
  if (typeof value === 'string' && value.includes('#') && !value.includes('\n')) return JSON.stringify(value);
  return stringify(value, { lineWidth: 0, blockQuote: 'literal' })
    .trimEnd()
    .split('\n')
    .map((line, index) => (line === '' || index === 0 ? line : ' '.repeat(column) + line))
    .join(newline);
}

/** True for an empty collection, or next to an inline collection. */
function isInline(value: unknown, like: unknown): boolean {
  return isCollection(value) && (Object.keys(value).length === 0 || isFlow(like));
}

function isCollection(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

export function isFlow(node: unknown): boolean {
  return (isMap(node) || isSeq(node)) && node.flow === true;
}
