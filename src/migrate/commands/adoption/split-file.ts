// A pulled file as several: one for each table, one for each other kind of which there are many, and `svc.yaml`, which
// includes them.
import { Document, isMap, isScalar, type Pair, YAMLMap } from 'yaml';
import { groupBy } from '../../../lib/group-by.ts';

/** By path, relative to the first, which is the root file. */
export type SplitFile = readonly (readonly [path: string, document: Document])[];

/** A file may include 200: beyond this, tables of one first letter share a file. */
const MOST_TABLE_FILES = 150;

const BLOCKS = ['types', 'sequences', 'views', 'statements', 'rpc'] as const;

/** Takes the document apart: it becomes the root. */
export function splitFile(document: Document, root: string): SplitFile {
  const { comment } = document;
  document.comment = null;
  const parts = [
    ...splitTables(pairsOf(document, 'tables')),
    ...BLOCKS.flatMap((block): [string, Document][] => {
      const pairs = pairsOf(document, block);
      return pairs.length === 0 ? [] : [[`${block}.yaml`, partOf(block, pairs)]];
    }),
  ];
  for (const block of ['tables', ...BLOCKS]) document.delete(block);
  if (parts.length > 0) document.set('include', document.createNode(includeOf(parts.map(([path]) => path))));
  document.comment = comment;
  return [[root, document], ...parts];
}

function includeOf(paths: readonly string[]): string[] {
  return [...new Set(paths.map((path) => path.replace(/^tables\/.*/, 'tables/*.yaml')))];
}

function splitTables(tables: readonly Pair[]): [string, Document][] {
  const names = fileNames(tables.map(nameOf));
  const groups =
    tables.length <= MOST_TABLE_FILES
      ? tables.map((table) => [names.get(nameOf(table)) ?? '', [table]] as const)
      : [...groupBy(tables, (table) => fileName(nameOf(table).slice(0, 1)))];
  return groups.map(([name, pairs]) => [`tables/${name}.yaml`, partOf('tables', pairs)]);
}

function partOf(block: string, pairs: readonly Pair[]): Document {
  const entries = new YAMLMap();
  entries.items.push(...pairs);
  const document = new Document({});
  document.set(block, entries);
  return document;
}

function pairsOf(document: Document, block: string): readonly Pair[] {
  const entries = document.get(block);
  return isMap(entries) ? entries.items : [];
}

function nameOf({ key }: Pair): string {
  return String(isScalar(key) ? key.value : key);
}

/** One each: file systems that ignore case take `Orders` and `orders` for one. */
function fileNames(names: readonly string[]): ReadonlyMap<string, string> {
  const taken = new Set<string>();
  // Sorted, so that a table has the same file at the next pull, whatever the collation of the database.
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
