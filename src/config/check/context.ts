// Input and output of every check.
import type { Mode } from '../mode.ts';
import { isBelow } from '../read/apply-overlay.ts';
import type { KeyPath, Mistake, MistakeCode, Severity } from '../mistakes/mistake.ts';
import { MAX_MISTAKES } from '../mistakes/mistake.ts';
import type { SvcFile } from '../schema/schema.ts';
import { listFunctions, type NamedFunction } from '../schema/functions.ts';
import { groupBy } from '../../lib/group-by.ts';
import { closest } from '../../lib/text/closest-word.ts';
import type { ScalarText } from '../schema/scalar.ts';
import type { Place } from '../read/node-table.ts';
import { locate, mistakeAt, placeAt, quote, type Tree } from '../read/tree.ts';
import type { BrokenPaths } from './tables/usable-part.ts';

export type CheckOptions = {
  /** Directory of the file. Undefined for a remote file, whose referenced files cannot be read. */
  readonly directory: string | undefined;
  /** A mail provider is optional in development, where mail is captured. */
  readonly mode?: Mode | undefined;
  /** Reports an open table as an error. */
  readonly strict: boolean;
  /** Also parses SQL and handlers. The SQL parser must be loaded. */
  readonly syntax?: boolean | undefined;
};

export type Finding = {
  readonly code: MistakeCode;
  readonly path: KeyPath;
  readonly message: string;
  /** A function if the hint takes time to compute. */
  readonly hint: string | (() => string);
  readonly severity?: Severity;
  /** Part of the entry that is underlined. */
  readonly part?: 'key' | 'value';
  /** Other keys that cause the mistake. A cause that an overlay sets or removes is underlined instead of `path`. */
  readonly causes?: readonly KeyPath[] | undefined;
};

export class CheckContext {
  readonly file: SvcFile;
  readonly options: CheckOptions;
  /** Paths that the schema has already rejected. Checks do not report them again. */
  readonly broken: BrokenPaths;
  readonly #tree: Tree;
  readonly #mistakes: Mistake[] = [];
  #functions: CheckContext['functions'] | undefined;

  constructor(tree: Tree, file: SvcFile, broken: BrokenPaths, options: CheckOptions) {
    this.#tree = tree;
    this.file = file;
    this.broken = broken;
    this.options = options;
  }

  get root(): Place {
    return this.#tree.root;
  }

  get mistakes(): readonly Mistake[] {
    return this.#mistakes;
  }

  /** Functions of the file, keyed by SQL name. */
  get functions(): ReadonlyMap<string, readonly [NamedFunction, ...NamedFunction[]]> {
    this.#functions ??= groupBy(listFunctions(this.file.rpc), ({ name }) => name);
    return this.#functions;
  }

  /** True when further mistakes would not be shown. */
  get isFull(): boolean {
    return this.#mistakes.length > MAX_MISTAKES;
  }

  report({ code, path, message, hint, severity, part = 'value', causes = [] }: Finding): void {
    if (this.isFull || this.broken.covers(path)) return;
    if (code === 'missing-key' && this.broken.touches(path)) return;
    const cause = this.#isOfOverlay(path)
      ? undefined
      : causes.find((causePath) => this.#isOfOverlay(causePath));
    const span = cause ? locate(this.#tree, cause, 'key') : locate(this.#tree, path, part);
    const text = typeof hint === 'function' ? hint() : hint;
    this.#mistakes.push(mistakeAt(this.#tree, span, { code, path, message, hint: text, severity }));
  }

  conflict(path: KeyPath, message: string, hint: Finding['hint'], part: Finding['part'] = 'value'): void {
    this.report({ code: 'conflict', path, message, hint, part });
  }

  badValue(path: KeyPath, message: string, hint: Finding['hint'], part: Finding['part'] = 'value'): void {
    this.report({ code: 'bad-value', path, message, hint, part });
  }

  reportTwice(path: KeyPath, message: string): void {
    this.report({ code: 'duplicate', path, message, hint: 'Remove one of the two.' });
  }

  /** Quotes a value for a message and hides substituted text. */
  quote(path: KeyPath, value: unknown): string {
    return quote(this.#tree, path, value);
  }

  /** Returns a name for a message without quotes, and hides substituted text. */
  show(path: KeyPath, name: string): string {
    const scalar = this.scalar(path);
    return scalar?.substituted ? scalar.written : name;
  }

  /** False for a key that only has its default value. */
  isWritten(path: KeyPath): boolean {
    return placeAt(this.#tree, path) !== undefined;
  }

  #isOfOverlay(path: KeyPath): boolean {
    return this.#tree.changed?.some((changedPath) => isBelow(path, changedPath)) ?? false;
  }

  scalar(path: KeyPath): ScalarText | undefined {
    return placeAt(this.#tree, path)?.scalar;
  }
}

export function didYouMean(word: string, known: Iterable<string>): string | undefined {
  const near = closest(word, [...known]);
  return near === undefined ? undefined : `Did you mean ${near}?`;
}
