// What a pulled file took over, what stays behind, and what somebody has to decide: for people, as Markdown.
import { type Document, isMap, isSeq } from 'yaml';

export type Adoption = {
  readonly document: Document;
  readonly left: readonly string[];
  readonly decide: readonly string[];
};

export function renderReport({ document, left, decide }: Adoption): string {
  const counts = countsOf(document);
  return `${[
    '# Adoption',
    '## Taken',
    'In the file, and looked after from now on.',
    list(counts.map(([what, count]) => `${what}: ${count}`)),
    '## Kept as found',
    'Not in the file. It stays in this database as it is; a new database made from the file does not have it.',
    list(left),
    '## To decide',
    'It works as it did. Perhaps it is not what was meant.',
    list(decide),
  ].join('\n\n')}\n`;
}

function list(lines: readonly string[]): string {
  return lines.length === 0 ? 'Nothing.' : lines.map((line) => `- ${line}`).join('\n');
}

const BLOCKS = ['types', 'sequences', 'extensions', 'tables', 'views', 'statements', 'rpc'] as const;
const OF_TABLES = ['fields', 'indexes', 'constraints', 'rls', 'triggers'] as const;
const WORDS: Readonly<Record<string, string>> = { rpc: 'functions', rls: 'policies' };

function countsOf(document: Document): [what: string, count: number][] {
  const tables = document.get('tables');
  const each = isMap(tables) ? tables.items.map(({ value }) => value) : [];
  return [
    ...BLOCKS.map((block) => [block, size(document.get(block))] as const),
    ...OF_TABLES.map(
      (key) =>
        [key, each.reduce<number>((sum, one) => sum + (isMap(one) ? size(one.get(key)) : 0), 0)] as const,
    ),
  ]
    .filter(([, count]) => count > 0)
    .map(([what, count]) => [WORDS[what] ?? what, count]);
}

function size(node: unknown): number {
  return isMap(node) || isSeq(node) ? node.items.length : 0;
}
