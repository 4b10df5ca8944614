// The part of a file with mistakes that fits the schema, so that the checks over several keys can run on it. What
// was taken out is remembered, so that no check reports it again.
import { renderPath, type KeyPath, type Mistake } from '../../mistakes/mistake.ts';
import { svcSchema, type SvcFile } from '../../schema/schema.ts';
import { placeAt, type Tree } from '../../read/tree.ts';
import { leafIssues, valueAt } from '../validate.ts';

export type UsablePart = {
  readonly file: SvcFile;
  readonly broken: BrokenPaths;
};

/** Each round may take out one level; no path of the schema is deeper than this. */
const MAX_ROUNDS = 24;

/** The file without the branches that do not fit the schema; `leftOut` were not even read. */
export function usablePart(tree: Tree, leftOut: readonly KeyPath[]): UsablePart | undefined {
  const copy: unknown = structuredClone(tree.value);
  const broken = new BrokenPaths();
  for (const path of leftOut) {
    broken.add(path);
    // The reference itself stands in where text may stand; where it may not, the next lines take it out.
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
      for (const one of paths) removePart(copy, one, broken);
    }
  }
  return undefined;
}

/** What was taken out. */
export class BrokenPaths {
  readonly #around = new Set<string>();
  readonly #paths = new Set<string>();

  add(path: KeyPath): void {
    this.#paths.add(renderPath(path));
    for (let length = 1; length < path.length; length++) this.#around.add(renderPath(path.slice(0, length)));
  }

  /** True for a broken place and everything inside of it. */
  covers(path: KeyPath): boolean {
    if (this.#paths.size === 0) return false;
    return path.some((_part, index) => this.#paths.has(renderPath(path.slice(0, index + 1))));
  }

  /** True also for what has a broken place somewhere inside. */
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
  // An absent value takes out what lacks it.
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
    const stand = standIn(list, last, parent[last]);
    // What stands in does not fit either: the whole list goes.
    if (stand === undefined || JSON.stringify(parent[last]) === JSON.stringify(stand))
      removePart(root, entry.slice(0, -1), broken);
    else parent[last] = stand;
  }
}

function isEntry(root: unknown, path: KeyPath): boolean {
  const parent = valueAt(root, path.slice(0, -1));
  return Array.isArray(parent) && typeof path.at(-1) === 'number';
}

/** Entries of a list are judged whole: one mistake takes the whole entry out. */
function listEntry(path: KeyPath): KeyPath | undefined {
  const at = path.findIndex((part) => typeof part === 'number');
  return at < 0 ? undefined : path.slice(0, at + 1);
}

/** Stands in for a broken entry, so that the entries behind it keep their numbers. A column keeps its name. */
function standIn(list: string, index: number, entry: unknown): unknown {
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

/** `{ nam: x }` lacks `name` and has an unknown `nam`: that is one mistake, and the second says more. */
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
