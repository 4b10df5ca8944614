// Reads svc.yaml, the files of its `include` and `sql` patterns, and the overlay of the mode, each as a separate
// document. Paths in all files are relative to the directory of svc.yaml and cannot leave it.
import { existsSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { basename, dirname, isAbsolute, join, normalize, relative, sep } from 'node:path';
import { isDynamicPattern } from 'tinyglobby';
import { isScalar, isSeq } from 'yaml';
import { formatBytes } from '../../lib/bytes.ts';
import { matching } from './matching-files.ts';
import { isOverlay, overlayPaths } from './overlay-file.ts';
import { makeMistake, type Mistake, type MistakeText } from '../mistakes/mistake.ts';
import { MAX_BYTES, readDocument, topValue, type Contents } from './document.ts';
import type { SqlFile } from '../sql/to-keys.ts';
import { loadSqlParser } from '../sql/parser.ts';
import { decodeSource, type Source } from './source.ts';
import { readSqlParts } from './sql-parts.ts';
import type { PartDocument } from './combined-source.ts';

const MAX_FILES = 200;
const MAX_INCLUDE_DEPTH = 5;
const MERGE_HINT = 'Merge several of them into one file.';

export type Part = PartDocument & {
  /** Relative to the directory of svc.yaml, with slashes. Empty for svc.yaml, which comes first. */
  readonly path: string;
  readonly text: string;
  /** YAML form of an SQL file. */
  readonly yaml?: string;
};

export type ReadParts = {
  /** Merge order. */
  readonly parts: readonly Part[];
  /** Applied to the merged parts. */
  readonly overlay: Part | undefined;
  /** Texts of all files except svc.yaml, by name in messages. Includes files with syntax errors. */
  readonly texts: ReadonlyMap<string, string>;
  readonly mistakes: readonly Mistake[];
  /** Additional relative paths to watch: empty files, and folders in which a new file would become a part. */
  readonly watched: readonly string[];
};

/** Requires a finished `prepareToRead` for this source. */
export function readParts(source: Source): ReadParts {
  return new PartReader(source).read(true);
}

/** Reads parts without SQL files. */
export function readYamlParts(source: Source): readonly Part[] {
  return new PartReader(source).read(false).parts;
}

/** Returns the texts of all readable files, to search for references. */
export function readAllTexts(source: Source): string {
  const { parts, overlay } = new PartReader(source).read(false);
  return [...parts, ...(overlay ? [overlay] : [])].map(({ text }) => text).join('\n');
}

type FilePattern = { readonly key: 'include' | 'sql'; readonly pattern: string; readonly node: unknown };

/** Loads the SQL parser if the source has SQL files. */
export async function prepareToRead({ text, directory }: Source): Promise<void> {
  if (directory !== undefined && /^["']?sql["']?\s*:/m.test(text)) await loadSqlParser();
}

class PartReader {
  readonly #source: Source;
  readonly #parts: Part[] = [];
  readonly #mistakes: Mistake[] = [];
  readonly #texts = new Map<string, string>();
  readonly #watched = new Set<string>();
  #bytes = 0;

  constructor(source: Source) {
    this.#source = source;
  }

  read(withSql: boolean): ReadParts {
    this.#add('', this.#source.text, []);
    const [main] = this.#parts;
    if (main && withSql) this.#addSql(main);
    const overlay = this.#readOverlay();
    return {
      parts: this.#parts,
      overlay,
      texts: this.#texts,
      mistakes: this.#mistakes,
      watched: [...this.#watched],
    };
  }

  /** Watches all overlay paths, because an overlay may be created or deleted while svc serves the file. */
  #readOverlay(): Part | undefined {
    const { name, directory, mode } = this.#source;
    if (directory === undefined || mode === undefined) return undefined;
    const paths = overlayPaths(name, mode);
    for (const path of paths) {
      this.#watched.add(path);
    }
    const [path, second] = paths.filter((candidate) => existsSync(join(directory, candidate)));
    if (path === undefined) return undefined;
    const refuse = (code: MistakeText['code'], message: string, hint: string): undefined => {
      const place = {
        text: '',
        position: { line: 1, column: 1, file: this.#displayName(path) },
        offset: 0,
        length: 1,
      };
      this.#mistakes.push(makeMistake(place, { code, path: [], message, hint }));
    };
    if (second !== undefined)
      return refuse('conflict', `both ${path} and ${second} exist`, 'Remove one of the two overlays.');
    const text = this.#read(directory, path, {
      folderHint: 'Replace it with a file: an overlay is not a folder.',
      refuse: (message, hint) => refuse('missing-file', message, hint),
    });
    if (text === undefined || isBlank(text)) return undefined;
    this.#bytes += Buffer.byteLength(text);
    if (this.#bytes > MAX_BYTES)
      return refuse(
        'too-large',
        `with ${path} the files exceed ${formatBytes(MAX_BYTES)} in total`,
        'Check that this is the right file.',
      );
    return this.#parse(path, text);
  }

  /** `includers`: chain of files that include this file. */
  #add(path: string, text: string, includers: readonly string[]): void {
    if (path !== '' && isBlank(text)) {
      this.#watched.add(path);
      return;
    }
    const part = this.#parse(path, text);
    if (!part) return;
    this.#parts.push(part);
    this.#bytes += Buffer.byteLength(text);
    for (const pattern of readPatterns(part.document.contents, 'include'))
      this.#include(part, pattern, [...includers, path]);
    const [sql] = path === '' ? [] : readPatterns(part.document.contents, 'sql');
    if (sql)
      this.#report(part, sql, 'conflict', 'sql is only allowed in svc.yaml', 'Move the key to svc.yaml.');
  }

  #parse(path: string, text: string): Part | undefined {
    const name = this.#displayName(path);
    if (path !== '') this.#texts.set(name, text);
    const read = readDocument(text);
    if (read.ok) return { path, name, text, document: read.document };
    for (const { position, ...mistake } of read.mistakes)
      this.#mistakes.push({ ...mistake, position: path === '' ? position : { ...position, file: name } });
    return undefined;
  }

  #addSql(main: Part): void {
    const yaml = this.#parts.map(({ document }) => document.contents);
    const files: SqlFile[] = [];
    const paths: string[] = [];
    for (const pattern of readPatterns(main.document.contents, 'sql')) {
      for (const path of this.#resolve(main, pattern, [''])) {
        if (paths.includes(path)) continue;
        const text = this.#readFile(main, pattern, path);
        if (text === undefined) continue;
        this.#bytes += Buffer.byteLength(text);
        if (this.#bytes > MAX_BYTES || this.#parts.length + files.length > MAX_FILES)
          return this.#report(
            main,
            pattern,
            'too-large',
            `with ${path} the files are too many or too large`,
            MERGE_HINT,
          );
        paths.push(path);
        const name = this.#displayName(path);
        this.#texts.set(name, text);
        files.push({ name, text });
      }
    }
    if (files.length === 0) return;
    const { parts, mistakes } = readSqlParts(files, yaml);
    this.#mistakes.push(...mistakes);
    parts.forEach((part, index) =>
      this.#parts.push({
        path: paths[index] ?? '',
        name: files[index]?.name ?? '',
        text: part.document.text,
        ...part,
      }),
    );
  }

  #include(from: Part, pattern: FilePattern, includers: readonly string[]): void {
    const found = this.#resolve(from, pattern, includers);
    for (const path of found) {
      if (this.#parts.some((part) => part.path === path)) continue;
      if (includers.length > MAX_INCLUDE_DEPTH)
        return this.#report(
          from,
          pattern,
          'too-large',
          `includes are nested more than ${MAX_INCLUDE_DEPTH} levels deep`,
          'Include the files directly from svc.yaml.',
        );
      if (this.#parts.length > MAX_FILES)
        return this.#report(from, pattern, 'too-large', `there are more than ${MAX_FILES} files`, MERGE_HINT);
      const text = this.#readFile(from, pattern, path);
      if (text === undefined) continue;
      if (this.#bytes + Buffer.byteLength(text) > MAX_BYTES) {
        const message = `with ${path} the files exceed ${formatBytes(MAX_BYTES)} in total`;
        return this.#report(from, pattern, 'too-large', message, MERGE_HINT);
      }
      this.#add(path, text, includers);
    }
  }

  /** Returns relative paths, in order. */
  #resolve(from: Part, filePattern: FilePattern, includers: readonly string[]): readonly string[] {
    const { pattern } = filePattern;
    const { directory } = this.#source;
    const refuse = (code: 'bad-value' | 'missing-file' | 'conflict', message: string, hint: string): [] => {
      this.#report(from, filePattern, code, message, hint);
      return [];
    };
    if (directory === undefined)
      return refuse(
        'missing-file',
        'a remote configuration cannot refer to files',
        'Merge the files first: `svc config print` writes a single file.',
      );
    if (/^\w+:\/\//.test(pattern))
      return refuse('bad-value', `${pattern} is a URL`, 'Name a file in the directory of svc.yaml.');
    const path = normalize(pattern).split(sep).join('/');
    if (isAbsolute(pattern) || path === '..' || path.startsWith('../'))
      return refuse(
        'bad-value',
        `${pattern} is outside the directory of svc.yaml`,
        'Write a path within the directory of svc.yaml, relative to it.',
      );
    if (isDynamicPattern(pattern)) {
      const found = matching(path, directory);
      this.#watched.add(patternFolder(path));
      const paths = found.filter(
        (file) => !this.#isIncluder(file, includers) && !isOverlay(file, this.#source.name),
      );
      if (paths.length > 0) return paths;
      const hint = 'Add a file that the pattern matches, or remove the pattern.';
      this.#report(from, filePattern, 'missing-file', `no file matches ${pattern}`, hint, 'warning');
      return [];
    }
    if (isOverlay(path, this.#source.name))
      return refuse(
        'conflict',
        `${path} is the overlay of a mode`,
        'svc applies it in its mode without an include. Rename a file that belongs to all modes.',
      );
    if (this.#isIncluder(path, includers)) {
      const chain = [...includers.slice(1), path].join(' → ');
      return refuse('conflict', `${path} includes itself: ${chain}`, 'Remove one of these includes.');
    }
    return [path];
  }

  #isIncluder(path: string, includers: readonly string[]): boolean {
    return includers.includes(path) || path === basename(this.#source.name);
  }

  #readFile(from: Part, pattern: FilePattern, path: string): string | undefined {
    const { directory = '.', drafts } = this.#source;
    const draft = drafts?.get(path);
    if (draft !== undefined) return draft;
    return this.#read(directory, path, {
      folderHint: `To name all files of the folder, write ${path}/*.${pattern.key === 'sql' ? 'sql' : 'yaml'}`,
      refuse: (message, hint) => {
        this.#report(from, pattern, 'missing-file', message, hint);
      },
    });
  }

  /** `folderHint`: hint for a path that is a folder. */
  #read(
    directory: string,
    path: string,
    { folderHint, refuse }: { folderHint: string; refuse: (message: string, hint: string) => undefined },
  ): string | undefined {
    const whole = join(directory, path);
    const stats = statSync(whole, { throwIfNoEntry: false });
    if (!stats)
      return refuse(
        `there is no file ${path}`,
        `Create it, or correct the path, which is relative to ${directory}.`,
      );
    if (!stats.isFile()) return refuse(`${path} is not a file`, folderHint);
    const inside = relative(realpathSync(directory), realpathSync(whole));
    // Names can begin with dots, for example in a mounted ConfigMap of Kubernetes.
    if (isAbsolute(inside) || inside.split(sep)[0] === '..')
      return refuse(
        `${path} is a link to a file outside the directory of svc.yaml`,
        'Replace the link with the file.',
      );
    try {
      return decodeSource(this.#displayName(path), readFileSync(whole));
    } catch (cause) {
      return refuse(
        cause instanceof Error ? cause.message : String(cause),
        'Check the file and its permissions.',
      );
    }
  }

  #displayName(path: string): string {
    const { name } = this.#source;
    return path === '' ? name : join(dirname(name), path);
  }

  #report(
    { path, name, document }: Part,
    { key, node }: FilePattern,
    code: MistakeText['code'],
    message: string,
    hint: string,
    severity?: MistakeText['severity'],
  ): void {
    const [offset, end] = nodeRange(node);
    const { line, col } = document.lines.linePos(offset);
    const position = { line, column: col, ...(path === '' ? {} : { file: name }) };
    const place = { text: document.text, position, offset, length: end - offset };
    this.#mistakes.push(makeMistake(place, { code, path: [key], message, hint, severity }));
  }
}

/** Skips values that are not text, which the schema reports. */
function readPatterns(contents: Contents, name: FilePattern['key']): FilePattern[] {
  const value = topValue(contents, name);
  const nodes: readonly unknown[] = isSeq(value) ? value.items : [value];
  return nodes.flatMap((node) =>
    isScalar(node) && typeof node.value === 'string' ? [{ key: name, pattern: node.value, node }] : [],
  );
}

function nodeRange(node: unknown): readonly [number, number] {
  const [start = 0, end = start] = isScalar(node) ? (node.range ?? []) : [];
  return [start, end];
}

/** Returns the folder that contains all files of a pattern. */
function patternFolder(pattern: string): string {
  const steps = pattern.split('/');
  const fixed = steps.findIndex((step) => isDynamicPattern(step));
  return steps.slice(0, fixed === -1 ? steps.length - 1 : fixed).join('/') || '.';
}

/** True for a text that contains only comments. */
function isBlank(text: string): boolean {
  return text.split('\n').every((line) => /^\s*(?:#|$)/.test(line));
}
