// Splits a pulled file: one file per table, one file for each other large section, and `svc.yaml`, which includes them.
import { Document, isMap, isScalar, type Pair, YAMLMap } from 'yaml';
import { groupBy } from '../../../lib/group-by.ts';

/** Documents with their paths, relative to the root file, which is the first. */
export type SplitFile = readonly (readonly [path: string, document: Document])[];

/** Above this number, tables with the same first letter share a file. A file can include at most 200 files. */
const MAX_TABLE_FILES = 150;

const BLOCKS = ['types', 'sequences', 'views', 'statements', 'rpc'] as const;

/** Splits the document, which becomes the root file. */
export function splitFile(document: Document, root: string): SplitFile {
  const { comment } = document;
  document.comment = null;
  const parts = [
    ...splitTables(listPairs(document, 'tables')),
    ...BLOCKS.flatMap((block): [string, Document][] => {
      const pairs = listPairs(document, block);
      return pairs.length === 0 ? [] : [[`${block}.yaml`, partDocument(block, pairs)]];
    }),
  ];
  for (const block of ['tables', ...BLOCKS]) document.delete(block);
  if (parts.length > 0)
    document.set('include', document.createNode(includePaths(parts.map(([path]) => path))));
  document.comment = comment;
  return [[root, document], ...parts];
}

function includePaths(paths: readonly string[]): string[] {
  return [...new Set(paths.map((path) => path.replace(/^tables\/.*/, 'tables/*.yaml')))];
}

function splitTables(tables: readonly Pair[]): [string, Document][] {
  const names = fileNames(tables.map(pairName));
  const groups =
    tables.length <= MAX_TABLE_FILES
      ? tables.map((table) => [names.get(pairName(table)) ?? '', [table]] as const)
      : [...groupBy(tables, (table) => fileName(pairName(table).slice(0, 1)))];
  return groups.map(([name, pairs]) => [`tables/${name}.yaml`, partDocument('tables', pairs)]);
}

function partDocument(block: string, pairs: readonly Pair[]): Document {
  const entries = new YAMLMap();
  entries.items.push(...pairs);
  const document = new Document({});
  document.set(block, entries);
  return document;
}

function listPairs(document: Document, block: string): readonly Pair[] {
  const entries = document.get(block);
  return isMap(entries) ? entries.items : [];
}

function pairName({ key }: Pair): string {
  return String(isScalar(key) ? key.value : key);
}

/**
 * Returns a unique file name for each table. File systems may ignore case, so `Orders` and `orders` differ in a
 * suffix.
 */
function fileNames(names: readonly string[]): ReadonlyMap<string, string> {
  const taken = new Set<string>();
  // Sorted, so that a table gets the same file at the next pull, regardless of the collation of the database.
  return new Map(
    [...names].sort().map((name) => {
      const plain = fileName(name);
      let free = plain;
      for (let n = 2; taken.has(free.toLowerCase()); n += 1) free = `${plain}_${n}`;
      taken.add(free.toLowerCase());
      return [name, free];
    }),
  );
}

function fileName(name: string): string {
  return name.replaceAll(/[^\p{L}\p{N}_-]/gu, '_') || '_';
}
