// svc.yaml, the files that its `include` and `sql` name, and the overlay of the mode, each read by itself. Paths start from
// the directory of svc.yaml, in whichever file they stand, and stay in it.
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
const FEWER = 'Put several of them together into one file.';

export type Part = PartDocument & {
  /** Relative to the directory of svc.yaml, with slashes; empty for svc.yaml itself, which comes first. */
  readonly path: string;
  readonly text: string;
  /** Of an SQL file: what it says, as YAML. */
  readonly yaml?: string;
};

export type ReadParts = {
  /** In the order in which they are put together. */
  readonly parts: readonly Part[];
  /** Laid over them. */
  readonly overlay: Part | undefined;
  /** Of all files but svc.yaml, by their names in messages; also of those that could not be read as YAML. */
  readonly texts: ReadonlyMap<string, string>;
  readonly mistakes: readonly Mistake[];
  /** Relative paths beside those of the parts: files that say nothing yet, folders in which a new one may become a part. */
  readonly watched: readonly string[];
};

/** `prepareToRead` must have been awaited for this source. */
export function readParts(source: Source): ReadParts {
  return new PartReader(source).read(true);
}

/** Without SQL files and overlay. */
export function readYamlParts(source: Source): readonly Part[] {
  return new PartReader(source).read(false).parts;
}

/** The texts of all files, for those who look for references in them. Files that cannot be read have none. */
export function readAllTexts(source: Source): string {
  const { parts, overlay } = new PartReader(source).read(false);
  return [...parts, ...(overlay ? [overlay] : [])].map(({ text }) => text).join('\n');
}

type Wanted = { readonly key: 'include' | 'sql'; readonly pattern: string; readonly node: unknown };

/** Reading it may take the parser of SQL, which has to be loaded first. */
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

  /** One may be written or removed while its file is served. */
  #readOverlay(): Part | undefined {
    const { name, directory, mode } = this.#source;
    if (directory === undefined || mode === undefined) return undefined;
    const paths = overlayPaths(name, mode);
    for (const path of paths) {
      this.#watched.add(path);
    }
    const [path, second] = paths.filter((one) => existsSync(join(directory, one)));
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
      return refuse('conflict', `${second} is there, too`, 'Keep one of the two overlays.');
    const text = this.#read(directory, path, {
      ofFolder: 'An overlay is a file.',
      refuse: (message, hint) => refuse('missing-file', message, hint),
    });
    if (text === undefined || isBlank(text)) return undefined;
    this.#bytes += Buffer.byteLength(text);
    if (this.#bytes > MAX_BYTES)
      return refuse(
        'too-large',
        `with ${path} the files are larger than ${formatBytes(MAX_BYTES)} together`,
        'Is this the right file?',
      );
    return this.#parse(path, text);
  }

  /** `around`: the files on the way to this one. */
  #add(path: string, text: string, around: readonly string[]): void {
    if (path !== '' && isBlank(text)) {
      this.#watched.add(path);
      return;
    }
    const part = this.#parse(path, text);
    if (!part) return;
    this.#parts.push(part);
    this.#bytes += Buffer.byteLength(text);
    for (const wanted of readPatterns(part.document.contents, 'include'))
      this.#include(part, wanted, [...around, path]);
    const [sql] = path === '' ? [] : readPatterns(part.document.contents, 'sql');
    if (sql)
      this.#report(
        part,
        sql,
        'conflict',
        'sql stands in an included file',
        'Name SQL files in svc.yaml itself.',
      );
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
    for (const wanted of readPatterns(main.document.contents, 'sql')) {
      for (const path of this.#resolve(main, wanted, [''])) {
        if (paths.includes(path)) continue;
        const text = this.#readFile(main, wanted, path);
        if (text === undefined) continue;
        this.#bytes += Buffer.byteLength(text);
        if (this.#bytes > MAX_BYTES || this.#parts.length + files.length > MAX_FILES)
          return this.#report(
            main,
            wanted,
            'too-large',
            `with ${path} these are too many files, or too large`,
            FEWER,
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

  #include(from: Part, wanted: Wanted, around: readonly string[]): void {
    const found = this.#resolve(from, wanted, around);
    for (const path of found) {
      if (this.#parts.some((part) => part.path === path)) continue;
      if (around.length > MAX_INCLUDE_DEPTH)
        return this.#report(
          from,
          wanted,
          'too-large',
          `files include files more than ${MAX_INCLUDE_DEPTH} levels deep`,
          'Include the files from svc.yaml itself.',
        );
      if (this.#parts.length > MAX_FILES)
        return this.#report(from, wanted, 'too-large', `these are more than ${MAX_FILES} files`, FEWER);
      const text = this.#readFile(from, wanted, path);
      if (text === undefined) continue;
      if (this.#bytes + Buffer.byteLength(text) > MAX_BYTES) {
        const message = `with ${path} the files are larger than ${formatBytes(MAX_BYTES)} together`;
        return this.#report(from, wanted, 'too-large', message, FEWER);
      }
      this.#add(path, text, around);
    }
  }

  /** Relative paths, in order. */
  #resolve(from: Part, wanted: Wanted, around: readonly string[]): readonly string[] {
    const { pattern } = wanted;
    const { directory } = this.#source;
    const refuse = (code: 'bad-value' | 'missing-file' | 'conflict', message: string, hint: string): [] => {
      this.#report(from, wanted, code, message, hint);
      return [];
    };
    if (directory === undefined)
      return refuse(
        'missing-file',
        'a configuration that is read from elsewhere has no files beside it',
        'Put them together first: `svc config print` writes one file.',
      );
    if (/^\w+:\/\//.test(pattern))
      return refuse('bad-value', `${pattern} is a URL`, 'Only files of the project can be named.');
    const path = normalize(pattern).split(sep).join('/');
    if (isAbsolute(pattern) || path === '..' || path.startsWith('../'))
      return refuse(
        'bad-value',
        `${pattern} is outside the directory of svc.yaml`,
        'Paths start from the directory of svc.yaml and stay in it.',
      );
    if (isDynamicPattern(pattern)) {
      const found = matching(path, directory);
      this.#watched.add(patternFolder(path));
      const others = found.filter(
        (one) => !this.#isAround(one, around) && !isOverlay(one, this.#source.name),
      );
      if (others.length > 0) return others;
      const hint = 'Add a file that the pattern matches, or remove the pattern.';
      this.#report(from, wanted, 'missing-file', `no file is called like ${pattern}`, hint, 'warning');
      return [];
    }
    if (isOverlay(path, this.#source.name))
      return refuse(
        'conflict',
        `${path} is the overlay of a mode`,
        'It is laid over the file by itself, in its mode. Call a file that belongs to all modes otherwise.',
      );
    if (this.#isAround(path, around)) {
      const way = [...around.slice(1), path].join(' → ');
      return refuse('conflict', `${path} includes itself: ${way}`, 'Remove one of the lines.');
    }
    return [path];
  }

  #isAround(path: string, around: readonly string[]): boolean {
    return around.includes(path) || path === basename(this.#source.name);
  }

  #readFile(from: Part, wanted: Wanted, path: string): string | undefined {
    const { directory = '.', drafts } = this.#source;
    const draft = drafts?.get(path);
    if (draft !== undefined) return draft;
    return this.#read(directory, path, {
      ofFolder: `For all files of a folder: ${path}/*.${wanted.key === 'sql' ? 'sql' : 'yaml'}`,
      refuse: (message, hint) => {
        this.#report(from, wanted, 'missing-file', message, hint);
      },
    });
  }

  /** `ofFolder`: the hint where a folder has that name. */
  #read(
    directory: string,
    path: string,
    { ofFolder, refuse }: { ofFolder: string; refuse: (message: string, hint: string) => undefined },
  ): string | undefined {
    const whole = join(directory, path);
    const stats = statSync(whole, { throwIfNoEntry: false });
    if (!stats)
      return refuse(
        `there is no file ${path}`,
        `Create it, or correct the path: it starts from ${directory}.`,
      );
    if (!stats.isFile()) return refuse(`${path} is not a file`, ofFolder);
    const inside = relative(realpathSync(directory), realpathSync(whole));
    // Names may begin with dots: those in a mounted ConfigMap of Kubernetes do.
    if (isAbsolute(inside) || inside.split(sep)[0] === '..')
      return refuse(
        `${path} leads outside the directory of svc.yaml`,
        'Replace the link by the file itself.',
      );
    try {
      return decodeSource(this.#displayName(path), readFileSync(whole));
    } catch (cause) {
      return refuse(
        cause instanceof Error ? cause.message : String(cause),
        'Check the file and who may read it.',
      );
    }
  }

  #displayName(path: string): string {
    const { name } = this.#source;
    return path === '' ? name : join(dirname(name), path);
  }

  #report(
    { path, name, document }: Part,
    { key, node }: Wanted,
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

/** What is no text is reported by the schema. */
function readPatterns(contents: Contents, name: Wanted['key']): Wanted[] {
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

/** The folder that all files of a pattern are in. */
function patternFolder(pattern: string): string {
  const steps = pattern.split('/');
  const fixed = steps.findIndex((step) => isDynamicPattern(step));
  return steps.slice(0, fixed === -1 ? steps.length - 1 : fixed).join('/') || '.';
}

/** Nothing but comments. */
function isBlank(text: string): boolean {
  return text.split('\n').every((line) => /^\s*(?:#|$)/.test(line));
}
