// What a configuration was read from beside its own text. As long as all of it is found as it was, reading again would
// find the same.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { globSync } from 'tinyglobby';
import type { Variables } from './interpolate.ts';

/** Larger ones are told by their times: rows and objects of seeds, whose contents are no part of a configuration. */
const MOST_HASHED_BYTES = 1024 * 1024;

export type Seen = {
  /** Where paths start from; undefined for a remote file. */
  readonly directory: string | undefined;
  /** By relative path: how it was. */
  readonly paths: ReadonlyMap<string, string>;
  /** By pattern: the paths that matched. */
  readonly patterns: ReadonlyMap<string, readonly string[]>;
  /** By name: the value, or undefined where nobody had set it. */
  readonly variables: ReadonlyMap<string, string | undefined>;
};

export class LookedAt {
  readonly #directory: string | undefined;
  readonly #paths = new Map<string, string>();
  readonly #patterns = new Map<string, readonly string[]>();
  readonly #variables = new Map<string, string | undefined>();

  constructor(directory: string | undefined) {
    this.#directory = directory;
  }

  /** A file or a folder; relative. */
  path(path: string): void {
    if (this.#directory !== undefined) this.#paths.set(path, stateOf(this.#directory, path));
  }

  pattern(pattern: string, found: readonly string[]): void {
    this.#patterns.set(pattern, found);
  }

  /** All that the text may refer to. */
  variables(text: string, variables: Variables): void {
    for (const [, name = ''] of text.matchAll(/\$\{([A-Za-z_]\w*)/g))
      this.#variables.set(name, valueOf(variables, name));
  }

  get seen(): Seen {
    return {
      directory: this.#directory,
      paths: this.#paths,
      patterns: this.#patterns,
      variables: this.#variables,
    };
  }
}

/** `except`: paths that may be otherwise. */
export function isAsSeen(
  { directory, ...seen }: Seen,
  variables: Variables,
  except: ReadonlySet<string> = new Set(),
): boolean {
  for (const [name, value] of seen.variables) if (valueOf(variables, name) !== value) return false;
  if (directory === undefined) return true;
  for (const [path, state] of seen.paths)
    if (!except.has(path) && stateOf(directory, path) !== state) return false;
  for (const [pattern, found] of seen.patterns)
    if (matching(pattern, directory).join('\n') !== found.join('\n')) return false;
  return true;
}

/** Files that a pattern of `include` matches, in order. */
export function matching(pattern: string, directory: string): string[] {
  return globSync(pattern, {
    cwd: directory,
    ignore: '**/node_modules/**',
    expandDirectories: false,
    followSymbolicLinks: false,
  }).sort();
}

function valueOf(variables: Variables, name: string): string | undefined {
  return Object.hasOwn(variables, name) ? variables[name] : undefined;
}

/** Where it really is, too: a link may lead elsewhere one day. */
function stateOf(directory: string, path: string): string {
  const whole = join(directory, path);
  try {
    const stats = statSync(whole, { bigint: true });
    const real = realpathSync(whole);
    if (stats.isDirectory()) {
      readdirSync(whole);
      return `folder ${real}`;
    }
    if (!stats.isFile()) return 'neither';
    if (stats.size > MOST_HASHED_BYTES)
      return `file ${real} ${stats.size} ${stats.mtimeNs} ${stats.ctimeNs} ${stats.ino}`;
    return `file ${real} ${createHash('sha256').update(readFileSync(whole)).digest('base64')}`;
  } catch (error) {
    return error instanceof Error && 'code' in error ? String(error.code) : 'unreadable';
  }
}
