// Converts SQL files into parts of the configuration. Each statement becomes keys at the place of the statement.
import { Document, isMap, isScalar, isSeq, type YAMLMap } from 'yaml';
import { makeMistake, type Mistake } from '../mistakes/mistake.ts';
import { toMap } from '../sql/key-nodes.ts';
import { toKeys, type SqlFile, type YamlDeclarations } from '../sql/to-keys.ts';
import { topValue, type Contents, type SvcDocument } from './document.ts';
import { countLines } from './line-starts.ts';

export type SqlPart = {
  readonly document: SvcDocument;
  /** YAML form of the file. */
  readonly yaml: string;
};

/** `contents`: YAML files that the statements refer to. */
export function readSqlParts(
  files: readonly SqlFile[],
  contents: readonly Contents[],
): { readonly parts: readonly SqlPart[]; readonly mistakes: readonly Mistake[] } {
  const { keys, problems } = toKeys(files, yamlDeclarations(contents));
  const lines = new Map(files.map((file) => [file, countLines(file.text)]));
  const parts = files.map((file, index): SqlPart => {
    const map = toMap(keys[index] ?? {}, { start: 0, end: 0 });
    const document = {
      text: file.text,
      contents: map,
      lines: countLines(file.text),
    };
    return { document, yaml: toYaml(map) };
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

function toYaml(map: YAMLMap): string {
  if (map.items.length === 0) return '';
  const document = new Document();
  document.contents = map as never;
  return document.toString({ lineWidth: 0 });
}

/** Collects declared names. Names behind an alias, for example, are not found. */
function yamlDeclarations(contents: readonly Contents[]): YamlDeclarations {
  const tables = new Set<string>();
  const views = new Set<string>();
  const exposedFunctions = new Map<string, { readonly authRequired: boolean }>();
  const exposedRelations = new Set<string>();
  for (const root of contents) {
    for (const name of namesUnder(root, 'tables')) tables.add(name);
    for (const name of namesUnder(root, 'views')) views.add(name);
    const expose = topValue(root, 'expose');
    for (const [name, authRequired] of listExposed(expose, 'functions'))
      exposedFunctions.set(name, { authRequired });
    for (const [name] of listExposed(expose, 'relations')) exposedRelations.add(name);
  }
  return { tables, views, exposedFunctions, exposedRelations };
}

function namesUnder(root: Contents, key: string): string[] {
  const map = topValue(root, key, 1);
  if (!isMap(map)) return [];
  return map.items.flatMap((pair) => (isScalar(pair.key) ? [String(pair.key.value)] : []));
}

/** Returns `schema.name` and `auth_required` of each entry. */
function listExposed(expose: unknown, key: string): Array<readonly [name: string, authRequired: boolean]> {
  const list: unknown = isMap(expose) ? expose.get(key, true) : undefined;
  if (!isSeq(list)) return [];
  return list.items.flatMap((item): Array<readonly [string, boolean]> => {
    const name: unknown = isMap(item) ? item.get('name') : isScalar(item) ? item.value : undefined;
    const authRequired = isMap(item) && String(item.get('auth_required')) === 'true';
    return typeof name === 'string' ? [[name.includes('.') ? name : `public.${name}`, authRequired]] : [];
  });
}
