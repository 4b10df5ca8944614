// YAML documents → one tree, with variables substituted. Aliases are expanded here and counted, so that a few bytes
// cannot become a gigabyte; merge keys (`<<`) work.
import {
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  visit,
  type Alias,
  type Node,
  type Pair,
  type Scalar,
  type YAMLMap,
} from 'yaml';
import { must } from '../../lib/assert.ts';
import {
  makeMistake,
  renderPath,
  type KeyPath,
  type Mistake,
  type MistakeText,
} from '../mistakes/mistake.ts';
import {
  childSchema,
  expectsScalar,
  isOptionalContainer,
  isSql,
  canBeSql,
  rootSchema,
  type SchemaNode,
} from '../schema/known-keys.ts';
import { readPlain, toValue, type ScalarText } from '../schema/scalar.ts';
import { MAX_DEPTH, readByLibrary, type SvcDocument } from './document.ts';
import { interpolate, type Interpolation, type Variables } from './interpolate.ts';
import { isBelow, applyOverlay } from './apply-overlay.ts';
import { mergeParts, type Read } from './merge-parts.ts';
import { NodeTable, type Place, type Span } from './node-table.ts';
import { readTable } from './read-table.ts';
import { withChildren, type Tree } from './tree.ts';
import { CombinedSource, type PartDocument } from './combined-source.ts';

/** Values that aliases may add to what is written out; more than any file repeats by hand. */
const MAX_REPEATED_VALUES = 50_000;

export type TreeWithOverlay = Tree & Required<Pick<Tree, 'changed'>>;

/** `overlay`: laid over all of them. */
export function readTree(
  parts: readonly PartDocument[],
  variables: Variables,
  overlay?: PartDocument,
): TreeWithOverlay {
  const whole = new CombinedSource(overlay ? [...parts, overlay] : parts);
  const found: Found = { mistakes: [], substitutions: new Map<string, string>() };
  const read = ({ document }: PartDocument, index: number, into: Found = found): Read =>
    readContents({ document, whole, base: whole.partOffset(index) }, variables, into);
  const [first = EMPTY, ...others] = parts.map((part, index) => read(part, index));
  const merged = mergeParts(first, others, (path, before, again) => {
    const { file = parts[0]?.name, line } = whole.positionAt((before.key ?? before.value).offset);
    addMistake(whole, found.mistakes, again.key ?? again.value, {
      code: 'duplicate',
      path,
      message: `${renderPath(path)} stands in two files; ${file}:${line} has it first`,
      hint: 'Remove it from one of the two: files are put together, and none wins over another.',
    });
  });
  if (!overlay) return { ...toTree(whole, merged, found), changed: [] };
  const ofOverlay = { mistakes: [], substitutions: found.substitutions };
  const laid = applyOverlay(merged, read(overlay, parts.length, ofOverlay), (place, mistake) =>
    addMistake(whole, ofOverlay.mistakes, place.key ?? place.value, mistake),
  );
  // What the overlay replaces need not be set.
  const left = found.mistakes.filter(
    ({ code, path }) => !code.endsWith('-variable') || !laid.changed.some((one) => isBelow(path, one)),
  );
  const all = { ...found, mistakes: [...left, ...ofOverlay.mistakes] };
  return { ...toTree(whole, laid, all), changed: laid.changed, removed: laid.removed };
}

/** The documents are not needed any more, and have many nodes. */
function toTree(whole: CombinedSource, { value, place }: Read, found: Found): Tree {
  return { whole, value, root: { ...withChildren(place, place.children), value: FIRST_CHARACTER }, ...found };
}

function readContents(text: Text, variables: Variables, found: Found): Read {
  const { contents } = text.document;
  if (!(contents instanceof NodeTable)) return new TreeReader(text, variables, found).read(contents);
  const inTable: Found = { mistakes: [], substitutions: new Map() };
  const reader = new TreeReader(text, variables, inTable);
  const read = readTable(contents, { base: text.base, byNode: (...node) => reader.readNode(...node) });
  if (read) {
    found.mistakes.push(...inTable.mistakes);
    for (const [value, reference] of inTable.substitutions) found.substitutions.set(value, reference);
    return read;
  }
  const again = readByLibrary(text.document.text);
  // The library accepts every text that the fast path accepts.
  const nodes =
    again.ok && !(again.document.contents instanceof NodeTable) ? again.document.contents : undefined;
  return new TreeReader(text, variables, found).read(must(nodes, 'the document'));
}

type Found = { readonly mistakes: Mistake[]; readonly substitutions: Map<string, string> };
type Text = { readonly document: SvcDocument; readonly whole: CombinedSource; readonly base: number };

function addMistake(whole: CombinedSource, mistakes: Mistake[], span: Span, mistake: MistakeText): void {
  mistakes.push(makeMistake({ text: whole.text, position: whole.positionAt(span.offset), ...span }, mistake));
}

type PlainPair = { readonly key: Scalar<string>; readonly value: unknown };

/** Nearly every map: each key a word of its own, nothing merged in. So it needs no second look at its keys. */
function hasPlainKeys(node: YAMLMap): node is YAMLMap & { items: PlainPair[] } {
  const seen = new Set<unknown>();
  for (const { key, value } of node.items) {
    if (!isScalar(key) || typeof key.value !== 'string' || value === null) return false;
    if (key.value === '<<' || key.value === '__proto__') return false;
    seen.add(key.value);
  }
  return seen.size === node.items.length;
}

type Entry = { readonly key: Scalar; readonly node: unknown };
type Context = { readonly schema: SchemaNode; readonly key: Span | undefined };

class TreeReader {
  readonly #text: Text;
  readonly #variables: Variables;
  readonly #found: Found;
  readonly #targets = new Map<Alias, Node>();
  /** Of the node being read. */
  #path: (string | number)[] = [];
  /** Collections around the node that `readNode` reads. */
  #outerDepth = 0;
  /** Collections around the node being read: one that comes again inside of itself has no end. */
  readonly #around = new Set<unknown>();
  /** How many aliases are being expanded inside of each other. */
  #expanding = 0;
  #repeated = 0;

  constructor(text: Text, variables: Variables, found: Found) {
    this.#text = text;
    this.#variables = variables;
    this.#found = found;
  }

  read(contents: YAMLMap): Read {
    this.#resolveAliases(contents);
    return this.#read(contents, { schema: rootSchema(), key: undefined });
  }

  /** Reads a node below the top. It contains no alias. */
  readNode(node: Node, path: KeyPath, { schema, key }: Context): Read {
    this.#path = [...path];
    this.#outerDepth = path.length;
    return this.#read(node, { schema, key });
  }

  /** An alias means the last anchor of its name before it. One walk, because asking each alias is a walk each. */
  #resolveAliases(contents: YAMLMap): void {
    const anchors = new Map<string, Node>();
    visit(contents, {
      Node: (_key, node) => {
        if (isAlias(node)) {
          const target = anchors.get(node.source);
          if (target) this.#targets.set(node, target);
        } else if (node.anchor !== undefined) anchors.set(node.anchor, node);
      },
    });
  }

  #read(node: unknown, context: Context): Read {
    if (isAlias(node)) return this.#readAlias(node, context);
    if (this.#expanding > 0 && !this.#canRepeat(node)) return absent(context);
    if (isScalar(node)) return this.#readScalar(node, context);
    if (!isMap(node) && !isSeq(node)) return absent(context);
    if (this.#around.size + this.#outerDepth >= MAX_DEPTH) {
      this.#report(node, {
        code: 'yaml',
        path: this.#path.slice(0, MAX_DEPTH / 10),
        message: `values are nested more than ${MAX_DEPTH} levels deep`,
        hint: 'Is a bracket left open?',
      });
      return absent(context);
    }
    this.#around.add(node);
    const read = isMap(node) ? this.#readMap(node, context) : this.#readList(node.items, node, context);
    this.#around.delete(node);
    return read;
  }

  /** Reports once when aliases become too much, and says no from then on. */
  #canRepeat(node: unknown): boolean {
    this.#repeated += 1;
    if (this.#repeated === MAX_REPEATED_VALUES + 1) {
      this.#report(node, {
        code: 'yaml',
        path: [...this.#path],
        message: `aliases (*name) expand to more than ${MAX_REPEATED_VALUES} values`,
        hint: 'Write the repeated parts out, or use fewer aliases.',
      });
    }
    return this.#repeated <= MAX_REPEATED_VALUES;
  }

  #readAlias(alias: Alias, context: Context): Read {
    const target = this.#targets.get(alias);
    if (!target || this.#around.has(target)) {
      this.#report(alias, {
        code: 'yaml',
        path: [...this.#path],
        message: target
          ? 'this alias stands inside of what it stands for'
          : `there is no anchor &${alias.source} before this`,
        hint: target
          ? 'Write the value out.'
          : 'A value that starts with * needs quotes, unless it is an alias.',
      });
      return absent(context);
    }
    this.#expanding += 1;
    const read = this.#read(target, context);
    this.#expanding -= 1;
    return read;
  }

  #readMap(node: YAMLMap, { schema, key }: Context): Read {
    const value: Record<string, unknown> = {};
    const children = new Map<string, Place>();
    const readChild = (name: string, written: Scalar, item: unknown): void => {
      const child = { schema: childSchema(schema, name), key: this.#toSpan(written) };
      this.#path.push(name);
      const read = this.#read(item, child);
      this.#path.pop();
      children.set(name, read.place);
      const isAbsent = read.value === undefined || (read.value === null && isOptionalContainer(child.schema));
      if (!isAbsent) value[name] = read.value;
    };
    if (hasPlainKeys(node)) {
      for (const pair of node.items) readChild(pair.key.value, pair.key, pair.value);
    } else for (const [name, entry] of this.#entries(node)) readChild(name, entry.key, entry.node);
    return {
      value,
      place: { key, value: this.#valueSpan(node, key), scalar: undefined, isList: false, children },
    };
  }

  #readList(items: readonly unknown[], node: Node, { schema, key }: Context): Read {
    const value: unknown[] = [];
    const children = new Map<string, Place>();
    // All items have one schema.
    const item = { schema: childSchema(schema, 0), key: undefined };
    for (const [index, one] of items.entries()) {
      this.#path.push(index);
      const read = this.#read(one, item);
      this.#path.pop();
      children.set(String(index), read.place);
      value.push(read.value);
    }
    return {
      value,
      place: { key, value: this.#valueSpan(node, key), scalar: undefined, isList: true, children },
    };
  }

  /** The pairs of a map by their key as written; merged ones stand behind its own. */
  #entries(node: YAMLMap, merging?: Set<YAMLMap>): Map<string, Entry> {
    const entries = new Map<string, Entry>();
    const merged: unknown[] = [];
    for (const [index, pair] of node.items.entries()) {
      if (pair.value === null) {
        this.#reportMissingColon(node, index);
        continue;
      }
      const key = isAlias(pair.key) ? this.#targets.get(pair.key) : pair.key;
      if (!isScalar(key)) {
        this.#report(pair.key, {
          code: 'bad-value',
          path: [...this.#path],
          message: 'a key is a plain word here',
          hint: 'A key that starts with { or [ or ? needs quotes.',
        });
        continue;
      }
      const name = typeof key.value === 'string' ? key.value : (key.source ?? String(key.value));
      if (name === '<<' && key.type === 'PLAIN') {
        merged.push(pair.value);
        continue;
      }
      const first = entries.get(name);
      if (name === '__proto__') {
        this.#report(key, {
          code: 'reserved-name',
          path: [...this.#path, name],
          message: 'nothing can be called __proto__',
          hint: 'Choose another name.',
        });
      } else if (first) {
        const { line } = this.#text.whole.positionAt(this.#toSpan(first.key).offset);
        this.#report(key, {
          code: 'duplicate',
          path: [...this.#path, name],
          message: `the key ${JSON.stringify(name)} is here twice; line ${line} has it first`,
          hint: 'Merge the two, or rename one.',
        });
      } else entries.set(name, { key, node: pair.value });
    }
    for (const source of merged) this.#merge(entries, source, merging ?? new Set());
    return entries;
  }

  /**
   * Rejects an item of a flow map that has no colon: usually the rest of a text that a comma has cut. YAML itself
   * reads `{ using: true, owner = auth.uid() }` as a map whose second key has no value. Reports a run of such items
   * once.
   */
  #reportMissingColon(node: YAMLMap, index: number): void {
    const { items } = node;
    const before = items[index - 1];
    if (before?.value === null) return;
    let last = index;
    while (items[last + 1]?.value === null) last += 1;
    const key = items[index]?.key;
    const { text } = this.#text.document;
    const [start = 0, end = start] = (isNode(key) && key.range) || [];
    const written = text.slice(start, end);
    this.#report(key, {
      code: 'yaml',
      path: [...this.#path],
      message: `${JSON.stringify(shorten(written))} has no colon, so it is not a key with a value`,
      hint: colonHint(text, before, items[last]?.key),
    });
  }

  #merge(entries: Map<string, Entry>, source: unknown, merging: Set<YAMLMap>): void {
    const node = isAlias(source) ? this.#targets.get(source) : source;
    if (isSeq(node)) {
      for (const item of node.items) if (!isSeq(item)) this.#merge(entries, item, merging);
      return;
    }
    if (isMap(node) && !this.#canRepeat(source)) return;
    if (!isMap(node) || merging.has(node) || this.#around.size + merging.size > MAX_DEPTH) {
      this.#report(source, {
        code: 'yaml',
        path: [...this.#path, '<<'],
        message: '<< takes a map, or a list of maps, that does not contain this one',
        hint: 'For example <<: *name.',
      });
      return;
    }
    merging.add(node);
    for (const [name, entry] of this.#entries(node, merging))
      if (!entries.has(name)) entries.set(name, entry);
    merging.delete(node);
  }

  #readScalar(node: Scalar, { schema, key }: Context): Read {
    const source = typeof node.value === 'string' ? node.value : (node.source ?? '');
    const quoted = node.type !== undefined && node.type !== 'PLAIN';
    const expected = expectsScalar(schema);
    if (node.tag !== undefined && node.tag !== 'tag:yaml.org,2002:str') {
      this.#report(node, {
        code: 'yaml',
        path: [...this.#path],
        message: `tags such as ${node.tag.replace('tag:yaml.org,2002:', '!!')} mean nothing here`,
        hint: 'Remove it.',
      });
      return absent({ schema, key }, this.#toSpan(node));
    }
    const interpolated = source.includes('${') ? this.#interpolate(node, source, schema) : undefined;
    const { text, substituted } = interpolated ?? { text: source, substituted: false };
    // Inside { } YAML demands quotes around a reference, so a quoted one may still stand for a number.
    const reread = substituted
      ? expected === 'number' || expected === 'boolean' || (expected === 'any' && !quoted)
      : !quoted && node.tag === undefined;
    const read = reread ? readPlain(text) : { kind: 'string' as const, text };
    const asWritten = expected === 'written' && read.kind !== 'null';
    const scalar: ScalarText = {
      kind: asWritten ? 'string' : read.kind,
      text: asWritten ? text : read.text,
      quoted,
      written: source,
      substituted,
    };
    const span = this.#toSpan(node);
    const place: Place = {
      key,
      // Nothing is written: point at the key.
      value: span.length === 0 && key ? key : span,
      scalar,
      isList: false,
      children: NO_CHILDREN,
    };
    if (!quoted && canBeSql(schema)) this.#checkCutByComment(node, source);
    const isLeftOut = interpolated !== undefined && interpolated.failures.length > 0;
    return { value: isLeftOut ? undefined : toValue(scalar), place };
  }

  #interpolate(node: Scalar, source: string, schema: SchemaNode): Interpolation {
    const interpolated = interpolate(source, this.#variables, {
      sql: isSql(schema),
      functionEnv: this.#path[0] === 'functions' && this.#path[2] === 'env',
    });
    for (const { reference, ...failure } of interpolated.failures) {
      const { offset, length } = this.#toSpan(node);
      const within = Math.max(0, this.#text.whole.text.slice(offset, offset + length).indexOf(reference));
      this.#add({ offset: offset + within, length: reference.length }, { ...failure, path: [...this.#path] });
    }
    for (const [value, reference] of interpolated.used) this.#found.substitutions.set(value, reference);
    return interpolated;
  }

  /** Rejects plain SQL that YAML ends at an operator such as `#>>`, which it reads as a comment. */
  #checkCutByComment(node: Scalar, source: string): void {
    const { text } = this.#text.document;
    CUT_OPERATOR.lastIndex = node.range?.[1] ?? text.length;
    const [cut] = CUT_OPERATOR.exec(text) ?? [];
    if (cut === undefined) return;
    this.#report(node, {
      code: 'yaml',
      path: [...this.#path],
      message: `YAML reads ${cut.trim()} as a comment, so the SQL ends after ${JSON.stringify(shorten(source))}`,
      hint: 'Put the whole SQL text in quotes.',
    });
  }

  #report(node: unknown, mistake: MistakeText): void {
    this.#add(isNode(node) ? this.#toSpan(node) : { ...FIRST_CHARACTER, offset: this.#text.base }, mistake);
  }

  #add(span: Span, mistake: MistakeText): void {
    addMistake(this.#text.whole, this.#found.mistakes, span, mistake);
  }

  #toSpan(node: Node): Span {
    const [start = 0, end = start] = node.range ?? [];
    return { offset: this.#text.base + start, length: end - start };
  }

  /** A block begins on the next line: its key says better what is meant. */
  #valueSpan(node: Node, key: Span | undefined): Span {
    const isBlock = (isMap(node) || isSeq(node)) && !node.flow;
    return isBlock && key ? key : this.#toSpan(node);
  }
}

/** An operator of PostgreSQL that begins like a comment: `#>`, `#>>`, `#-`, `##`, `#=`. */
export const CUT_OPERATOR = /[ \t]+#(?:>>?|[-#=])/y;

/** Suggests the quoted text where a comma has cut a plain value; `last` is the end of the cut text. */
function colonHint(text: string, before: Pair | undefined, last: unknown): string {
  const general = 'Write `key: value`. A text with commas inside { } needs quotes.';
  if (!before || !isScalar(before.key) || !isScalar(before.value) || before.value.type !== 'PLAIN')
    return general;
  const end = isNode(last) ? last.range?.[1] : undefined;
  const whole = text.slice(before.value.range?.[0], end);
  const isShort = whole !== '' && whole.length <= 100 && !/[\n\\]/.test(whole);
  return isShort ? `Quote the text: ${String(before.key.value)}: ${JSON.stringify(whole)}.` : general;
}

function shorten(written: string): string {
  return written.length > 60 ? `${written.slice(0, 57)}…` : written;
}

const FIRST_CHARACTER: Span = { offset: 0, length: 1 };
const EMPTY: Read = {
  value: undefined,
  place: { key: undefined, value: FIRST_CHARACTER, scalar: undefined, isList: false, children: new Map() },
};
const NO_CHILDREN: ReadonlyMap<string, Place> = new Map();

function absent({ key }: Context, span: Span = key ?? FIRST_CHARACTER): Read {
  return {
    value: undefined,
    place: { key, value: span, scalar: undefined, isList: false, children: NO_CHILDREN },
  };
}
