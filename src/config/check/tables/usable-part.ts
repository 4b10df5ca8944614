// The valid part of a file with mistakes, so that checks over several keys can run on it. Removed paths are recorded,
// so that no check reports them again.
import { renderPath, type KeyPath, type Mistake } from '../../mistakes/mistake.ts';
import { svcSchema, type SvcFile } from '../../schema/schema.ts';
import { placeAt, type Tree } from '../../read/tree.ts';
import { leafIssues, valueAt } from '../validate.ts';

export type UsablePart = {
  readonly file: SvcFile;
  readonly broken: BrokenPaths;
};

/** Each round can remove one level, and no path of the schema is deeper. */
const MAX_ROUNDS = 24;

/** Returns the file without the branches that do not match the schema. `leftOut`: paths that could not be resolved. */
export function usablePart(tree: Tree, leftOut: readonly KeyPath[]): UsablePart | undefined {
  const copy: unknown = structuredClone(tree.value);
  const broken = new BrokenPaths();
  for (const path of leftOut) {
    broken.add(path);
    // Keep the unresolved reference as text. Where text is not allowed, the validation below removes it.
    const parent = valueAt(copy, path.slice(0, -1));
    const last = path.at(-1);
    if (isObject(parent) && last !== undefined)
      Reflect.set(parent, last, placeAt(tree, path)?.scalar?.written ?? null);
  }
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const parsed = svcSchema.safeParse(copy);
    if (parsed.success) return { file: parsed.data, broken };
    for (const { issue, path } of leafIssues(parsed.error.issues)) {
      const paths = issue.code === 'unrecognized_keys' ? issue.keys.map((key) => [...path, key]) : [path];
      for (const brokenPath of paths) removePart(copy, brokenPath, broken);
    }
  }
  return undefined;
}

/** Removed paths. */
export class BrokenPaths {
  readonly #around = new Set<string>();
  readonly #paths = new Set<string>();

  add(path: KeyPath): void {
    this.#paths.add(renderPath(path));
    for (let length = 1; length < path.length; length++) this.#around.add(renderPath(path.slice(0, length)));
  }

  /** Returns true for a removed path and every path below. */
  covers(path: KeyPath): boolean {
    if (this.#paths.size === 0) return false;
    return path.some((_part, index) => this.#paths.has(renderPath(path.slice(0, index + 1))));
  }

  /** Returns true also for a path that contains a removed path. */
  touches(path: KeyPath): boolean {
    if (this.#paths.size === 0) return false;
    return this.#around.has(renderPath(path)) || this.covers(path);
  }
}

function removePart(root: unknown, path: KeyPath, broken: BrokenPaths): void {
  if (path.length <= 1 && (path[0] ?? 'version') === 'version') {
    if (isObject(root)) Reflect.set(root, 'version', 1);
    return;
  }
  // The mistake is a missing key: remove the entry that lacks it.
  if (valueAt(root, path) === undefined && !isEntry(root, path)) {
    removePart(root, path.slice(0, -1), broken);
    return;
  }
  const entry = listEntry(path) ?? path;
  broken.add(entry);
  const parent = valueAt(root, entry.slice(0, -1));
  const last = entry.at(-1);
  if (!isObject(parent) || last === undefined) return;
  if (!Array.isArray(parent) || typeof last !== 'number') Reflect.deleteProperty(parent, last);
  else {
    const list = String(entry.at(-2));
    const placeholder = placeholderFor(list, last, parent[last]);
    // If the placeholder is not valid either, remove the whole list.
    if (placeholder === undefined || JSON.stringify(parent[last]) === JSON.stringify(placeholder))
      removePart(root, entry.slice(0, -1), broken);
    else parent[last] = placeholder;
  }
}

function isEntry(root: unknown, path: KeyPath): boolean {
  const parent = valueAt(root, path.slice(0, -1));
  return Array.isArray(parent) && typeof path.at(-1) === 'number';
}

/** Returns the list entry that contains the path, because a mistake removes the whole entry of a list. */
function listEntry(path: KeyPath): KeyPath | undefined {
  const at = path.findIndex((part) => typeof part === 'number');
  return at < 0 ? undefined : path.slice(0, at + 1);
}

/** Returns a replacement for a broken entry, so that later entries keep their index. A column keeps its name. */
function placeholderFor(list: string, index: number, entry: unknown): unknown {
  switch (list) {
    case 'fields':
    case 'args': {
      const name = valueAt(entry, ['name']);
      return { name: typeof name === 'string' && name !== '' ? name : `(broken ${index})`, type: 'text' };
    }
    case 'indexes':
      return { columns: [`(broken ${index})`] };
    case 'rls':
      return { operations: ['insert'], with_check: 'true' };
    default:
      return undefined;
  }
}

/** Drops missing keys with a misspelt counterpart: in `{ nam: x }` only the unknown key `nam` is reported. */
export function withoutMissingTwins(mistakes: readonly Mistake[]): Mistake[] {
  const meant = new Set(
    mistakes
      .filter((mistake) => mistake.code === 'unknown-key')
      .map(({ path, hint }) =>
        renderPath([...path.slice(0, -1), /^Did you mean (.+)\?$/.exec(hint ?? '')?.[1] ?? '']),
      ),
  );
  return mistakes.filter((mistake) => mistake.code !== 'missing-key' || !meant.has(renderPath(mistake.path)));
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}
