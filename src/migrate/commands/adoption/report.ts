// Renders the report of a pull as Markdown: objects in the file, objects that are not in it, and items to review.
import { type Document, isMap, isSeq } from 'yaml';

export type Adoption = {
  readonly document: Document;
  readonly omitted: readonly string[];
  readonly decide: readonly string[];
};

export function renderReport({ document, omitted, decide }: Adoption): string {
  const counts = countObjects(document);
  return `${[
    '# Adoption',
    '## In the file',
    'The file declares these objects. svc manages them from now on.',
    list(counts.map(([what, count]) => `${what}: ${count}`)),
    '## Not in the file',
    'These objects stay unchanged in this database. A new database made from the file does not have them.',
    list(omitted),
    '## To review',
    'These objects work as before. Check whether they are as you intend.',
    list(decide),
  ].join('\n\n')}\n`;
}

function list(lines: readonly string[]): string {
  return lines.length === 0 ? 'Nothing.' : lines.map((line) => `- ${line}`).join('\n');
}

const BLOCKS = ['types', 'sequences', 'extensions', 'tables', 'views', 'statements', 'rpc'] as const;
const TABLE_PARTS = ['fields', 'indexes', 'constraints', 'rls', 'triggers'] as const;
const WORDS: Readonly<Record<string, string>> = { rpc: 'functions', rls: 'policies' };

function countObjects(document: Document): [what: string, count: number][] {
  const tables = document.get('tables');
  const each = isMap(tables) ? tables.items.map(({ value }) => value) : [];
  return [
    ...BLOCKS.map((block) => [block, size(document.get(block))] as const),
    ...TABLE_PARTS.map(
      (key) =>
        [
          key,
          each.reduce<number>((sum, table) => sum + (isMap(table) ? size(table.get(key)) : 0), 0),
        ] as const,
    ),
  ]
    .filter(([, count]) => count > 0)
    .map(([what, count]) => [WORDS[what] ?? what, count]);
}

function size(node: unknown): number {
  return isMap(node) || isSeq(node) ? node.items.length : 0;
}
