// Values as YAML text that fits among what is there already: flow where the neighbours are flow, block where they
// are block, indented as they are.
import { isMap, isSeq, stringify, type Node } from 'yaml';

export type Layout = { readonly text: string; readonly newline: string };

export type Addition = {
  readonly value: unknown;
  /** Where the entry starts; what is inside of it goes two further. */
  readonly column: number;
  /** A neighbour whose style is taken over. */
  readonly likes: Node | undefined;
};

const STEP = 2;

/** On one line, whatever it is. */
export function renderInline(value: unknown): string {
  if (typeof value === 'string' && (/[\n\r]/.test(value) || looksLikeComment(value)))
    return JSON.stringify(value);
  // Inside of a flow collection, because that is where it may end up: `a, b` needs quotes there and nowhere else.
  const list = stringify([value], {
    collectionStyle: 'flow',
    lineWidth: 0,
    flowCollectionPadding: true,
  }).trim();
  return list
    .slice(1, -1)
    .trim()
    .replaceAll(/\s*\n\s*/g, ' ');
}

/** `key: value`, the first line without its indentation. */
export function renderEntry(
  layout: Layout,
  { key, value, column, likes }: Addition & { readonly key: string },
): string {
  if (!isCollection(value)) return `${key}: ${renderScalar(layout, value, column)}`;
  if (isEmptyCollection(value) || isFlow(likes)) return `${key}: ${renderInline(value)}`;
  return `${key}:${layout.newline}${renderBlock(layout, value, column + STEP)}`;
}

/** `- value`, with its indentation. */
export function renderItem(layout: Layout, { value, column, likes }: Addition): string {
  const dash = `${' '.repeat(column)}- `;
  if (!isCollection(value)) return dash + renderScalar(layout, value, column);
  if (isEmptyCollection(value) || isFlow(likes)) return dash + renderInline(value);
  return dash + renderBlock(layout, value, column + STEP).slice(column + STEP);
}

/** True when the value stands inside of brackets, where a block cannot be. */
export function isInFlow({ text }: Layout, node: Node): boolean {
  const start = node.range?.[0] ?? 0;
  const line = text.slice(text.lastIndexOf('\n', start - 1) + 1, start);
  return /[{[,]/.test(line.replaceAll(/"[^"]*"|'[^']*'/g, ''));
}

function renderScalar(layout: Layout, value: unknown, column: number): string {
  if (typeof value === 'string' && value.includes('\n')) {
    const [head = '', ...lines] = stringify(value, { lineWidth: 0, blockQuote: 'literal' })
      .trimEnd()
      .split('\n');
    const indented = lines.map((line) => (line === '' ? '' : ' '.repeat(column + STEP) + line));
    return [head, ...indented].join(layout.newline);
  }
  if (looksLikeComment(value)) return JSON.stringify(value);
  return stringify(value, { lineWidth: 0 }).trimEnd();
}

/** A `#` inside of a word begins no comment, but people and their editors take it for one. */
function looksLikeComment(value: unknown): boolean {
  return typeof value === 'string' && value.includes('#');
}

function renderBlock({ newline }: Layout, value: unknown, column: number): string {
  const lines = stringify(value, { lineWidth: 0, blockQuote: 'literal' }).trimEnd().split('\n');
  return lines.map((line) => (line === '' ? '' : ' '.repeat(column) + line)).join(newline);
}

function isCollection(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

function isEmptyCollection(value: object): boolean {
  return Object.keys(value).length === 0;
}

function isFlow(node: Node | undefined): boolean {
  return (isMap(node) || isSeq(node)) && node.flow === true;
}
