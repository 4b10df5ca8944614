// SQL files as parts of the configuration: read into the keys that say the same, at the places of their statements.
import { Document, isMap, isScalar, isSeq, type YAMLMap } from 'yaml';
import { makeMistake, type Mistake } from '../mistakes/mistake.ts';
import { toMap } from '../sql/key-nodes.ts';
import { toKeys, type SqlFile, type Surroundings } from '../sql/to-keys.ts';
import type { SvcDocument } from './document.ts';
import { lineStartsOf } from './line-starts.ts';

export type SqlPart = {
  readonly document: SvcDocument;
  /** The same as YAML. */
  readonly yaml: string;
};

/** `contents`: of the YAML files, which the statements refer to. */
export function readSqlParts(
  files: readonly SqlFile[],
  contents: readonly YAMLMap[],
): { readonly parts: readonly SqlPart[]; readonly mistakes: readonly Mistake[] } {
  const { keys, problems } = toKeys(files, surroundingsOf(contents));
  const lines = new Map(files.map((file) => [file, lineStartsOf(file.text)]));
  const parts = files.map((file, index): SqlPart => {
    const map = toMap(keys[index] ?? {}, { start: 0, end: 0 });
    const document = {
      text: file.text,
      contents: map,
      mayHaveAliases: false,
      lines: lineStartsOf(file.text),
    };
    return { document, yaml: textOf(map) };
  });
  const mistakes = problems.map(({ file, extent, code, message, hint }) => {
    const { line, col } = lines.get(file)?.linePos(extent.start) ?? { line: 1, col: 1 };
    const position = { line: Math.max(1, line), column: Math.max(1, col), file: file.name };
    const length = extent.end - extent.start;
    const place = { text: file.text, position, offset: extent.start, length };
    return makeMistake(place, { code, path: ['sql'], message, hint });
  });
  return { parts, mistakes };
}

function textOf(map: YAMLMap): string {
  if (map.items.length === 0) return '';
  const document = new Document();
  document.contents = map as never;
  return document.toString({ lineWidth: 0 });
}

/** What cannot be seen at once, behind an alias for example, is taken as absent. */
function surroundingsOf(contents: readonly YAMLMap[]): Surroundings {
  const tables = new Set<string>();
  const views = new Set<string>();
  const exposedFunctions = new Map<string, { readonly authRequired: boolean }>();
  const exposedRelations = new Set<string>();
  for (const root of contents) {
    for (const name of namesUnder(root, 'tables')) tables.add(name);
    for (const name of namesUnder(root, 'views')) views.add(name);
    const expose: unknown = root.get('expose', true);
    for (const [name, authRequired] of entriesOf(expose, 'functions'))
      exposedFunctions.set(name, { authRequired });
    for (const [name] of entriesOf(expose, 'relations')) exposedRelations.add(name);
  }
  return { tables, views, exposedFunctions, exposedRelations };
}

function namesUnder(root: YAMLMap, key: string): string[] {
  const map: unknown = root.get(key, true);
  if (!isMap(map)) return [];
  return map.items.flatMap((pair) => (isScalar(pair.key) ? [String(pair.key.value)] : []));
}

/** `schema.name`, and whether callers must be signed in. */
function entriesOf(expose: unknown, key: string): Array<readonly [name: string, authRequired: boolean]> {
  const list: unknown = isMap(expose) ? expose.get(key, true) : undefined;
  if (!isSeq(list)) return [];
  return list.items.flatMap((item): Array<readonly [string, boolean]> => {
    const name: unknown = isMap(item) ? item.get('name') : isScalar(item) ? item.value : undefined;
    const authRequired = isMap(item) && String(item.get('auth_required')) === 'true';
    return typeof name === 'string' ? [[name.includes('.') ? name : `public.${name}`, authRequired]] : [];
  });
}
