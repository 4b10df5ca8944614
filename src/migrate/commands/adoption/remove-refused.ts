// Removes entries that svc would reject from a pulled file and lists them, as the last resort of a pull.
import type { Document } from 'yaml';
import { loadConfig } from '../../../config/load.ts';
import type { KeyPath, Mistake } from '../../../config/mistakes/mistake.ts';

/** The removal of an entry may make others invalid, so validation is repeated. */
const MAX_ROUNDS = 20;
const LISTS: ReadonlySet<unknown> = new Set(['indexes', 'constraints', 'rls', 'triggers', 'partitions']);

/** Removes rejected entries. Returns one line for each. */
export function removeRefused(document: Document): string[] {
  const lines: string[] = [];
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const errors = refusedIn(document);
    const objects = new Map<string, { readonly path: KeyPath; readonly line: string }>();
    for (const { path = [], message } of errors) {
      const object = objectAt(path);
      const reason = message.replaceAll('\n', ' ');
      const line = `${object.join('.')}${nameAt(document, object)}: svc rejects it (${reason})`;
      if (object.length > 0 && !objects.has(object.join('\0')))
        objects.set(object.join('\0'), { path: object, line });
    }
    if (objects.size === 0) return lines;
    // From the end of each list, so that the positions of the other entries do not change.
    for (const { path, line } of [...objects.values()].toReversed().toSorted(byLastPlace)) {
      document.deleteIn(path);
      lines.push(line);
    }
  }
  return lines;
}

function refusedIn(document: Document): readonly Mistake[] {
  const text = document.toString({ lineWidth: 0 });
  const loaded = loadConfig({ name: 'svc.yaml', directory: undefined, text }, { variables: {} });
  return loaded.ok ? [] : loaded.mistakes.filter(({ severity }) => severity === 'error');
}

/** Returns the path of the smallest removable part: an entry in a list of a table, or a whole entry of a section. */
function objectAt(path: KeyPath): KeyPath {
  const [block, name, list, number] = path;
  if (block === undefined || name === undefined) return [];
  return LISTS.has(list) && typeof number === 'number' ? [block, name, String(list), number] : [block, name];
}

function nameAt(document: Document, path: KeyPath): string {
  const name: unknown = path.length === 4 ? document.getIn([...path, 'name']) : undefined;
  return typeof name === 'string' ? ` (${name})` : '';
}

function byLastPlace(
  { path: one }: { readonly path: KeyPath },
  { path: other }: { readonly path: KeyPath },
): number {
  return Number(other.at(-1)) - Number(one.at(-1)) || 0;
}
