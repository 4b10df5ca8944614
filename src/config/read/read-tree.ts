// YAML documents → one tree, with variables substituted. Expands merge keys (`<<`) and aliases. Counts expanded
// aliases, so that a small file cannot fill the memory.
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

/** Maximum number of values from aliases, more than any hand-written file needs. */
const MAX_REPEATED_VALUES = 50_000;

export type TreeWithOverlay = Tree & Required<Pick<Tree, 'changed'>>;

/** `overlay`: applied to the merged parts. */
export function readTree(
  parts: readonly PartDocument[],
  variables: Variables,
  overlay?: PartDocument,
): TreeWithOverlay {
  const whole = new CombinedSource(overlay ? [...parts, overlay] : parts);
  const found: Found = { mistakes: [], substitutions: new Map<string, string>() };
  const read = ({ document }: PartDocument, index: number, into: Found = found): Read =>
    readContents({ document, whole, base: whole.partOffset(index) }, variables, into);
  const [first = EMPTY, ...included] = parts.map((part, index) => read(part, index));
  const merged = mergeParts(first, included, (path, before, again) => {
    const { file = parts[0]?.name, line } = whole.positionAt((before.key ?? before.value).offset);
    addMistake(whole, found.mistakes, again.key ?? again.value, {
      code: 'duplicate',
      path,
      message: `${renderPath(path)} is declared in two files, first in ${file}:${line}`,
      hint: 'Remove one of the two. Included files cannot override each other.',
    });
  });
  if (!overlay) return { ...toTree(whole, merged, found), changed: [] };
  const inOverlay = { mistakes: [], substitutions: found.substitutions };
  const applied = applyOverlay(merged, read(overlay, parts.length, inOverlay), (place, mistake) =>
    addMistake(whole, inOverlay.mistakes, place.key ?? place.value, mistake),
  );
  // A variable may be unset if the overlay replaces its value.
  const left = found.mistakes.filter(
    ({ code, path }) =>
      !code.endsWith('-variable') || !applied.changed.some((changedPath) => isBelow(path, changedPath)),
  );
  const all = { ...found, mistakes: [...left, ...inOverlay.mistakes] };
  return { ...toTree(whole, applied, all), changed: applied.changed, removed: applied.removed };
}

/** Drops the documents, which have many nodes and are not needed any more. */
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

/** Detects the most common maps, with distinct keys and without merges. Their keys need no further checks. */
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
  /** Path of the node that is being read. */
  #path: (string | number)[] = [];
  /** Collections around the node that `readNode` reads. */
  #outerDepth = 0;
  /** Collections around the node that is being read. An alias to one of them would never end. */
  readonly #around = new Set<unknown>();
  /** Nesting depth of aliases that are being expanded. */
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

  /** Reads a node below the top level. The node contains no alias. */
  readNode(node: Node, path: KeyPath, { schema, key }: Context): Read {
    this.#path = [...path];
    this.#outerDepth = path.length;
    return this.#read(node, { schema, key });
  }

  /** Resolves each alias to the last anchor with its name before it. Visits the document once, not once per alias. */
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
        hint: 'Close open brackets.',
      });
      return absent(context);
    }
    this.#around.add(node);
    const read = isMap(node) ? this.#readMap(node, context) : this.#readList(node.items, node, context);
    this.#around.delete(node);
    return read;
  }

  /** Reports the first value beyond the limit. Returns false from then on. */
  #canRepeat(node: unknown): boolean {
    this.#repeated += 1;
    if (this.#repeated === MAX_REPEATED_VALUES + 1) {
      this.#report(node, {
        code: 'yaml',
        path: [...this.#path],
        message: `aliases (*name) expand to more than ${MAX_REPEATED_VALUES} values`,
        hint: 'Write out the repeated parts, or use fewer aliases.',
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
          ? 'this alias refers to a value that contains it'
          : `there is no anchor &${alias.source} before this alias`,
        hint: target ? 'Write out the value.' : 'Quote a value that starts with *, unless it is an alias.',
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
    // All items have the same schema.
    const item = { schema: childSchema(schema, 0), key: undefined };
    for (const [index, child] of items.entries()) {
      this.#path.push(index);
      const read = this.#read(child, item);
      this.#path.pop();
      children.set(String(index), read.place);
      value.push(read.value);
    }
    return {
      value,
      place: { key, value: this.#valueSpan(node, key), scalar: undefined, isList: true, children },
    };
  }

  /** Returns the pairs of a map by key as written. Merged pairs come last. */
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
          message: 'a key must be a plain word',
          hint: 'Quote a key that starts with {, [ or ?.',
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
          message: '__proto__ is not allowed as a name',
          hint: 'Choose another name.',
        });
      } else if (first) {
        const { line } = this.#text.whole.positionAt(this.#toSpan(first.key).offset);
        this.#report(key, {
          code: 'duplicate',
          path: [...this.#path, name],
          message: `the key ${JSON.stringify(name)} is declared twice, first in line ${line}`,
          hint: 'Merge the two, or rename one.',
        });
      } else entries.set(name, { key, node: pair.value });
    }
    for (const source of merged) this.#merge(entries, source, merging ?? new Set());
    return entries;
  }

  /**
   * Rejects an item of a flow map without a colon, which is usually the rest of a text after a comma. YAML reads
   * `{ using: true, owner = auth.uid() }` as a map whose second key has no value. Reports consecutive items once.
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
        message: '<< requires a map or a list of maps that do not contain this map',
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
        message: `tags such as ${node.tag.replace('tag:yaml.org,2002:', '!!')} are not supported`,
        hint: 'Remove the tag.',
      });
      return absent({ schema, key }, this.#toSpan(node));
    }
    const interpolated = source.includes('${') ? this.#interpolate(node, source, schema) : undefined;
    const { text, substituted } = interpolated ?? { text: source, substituted: false };
    // Inside { } YAML requires quotes around a reference, so a quoted reference may be a number.
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
      // An empty value has no position: use the key.
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

  /** Rejects unquoted SQL with an operator such as `#>>`, which YAML reads as the start of a comment. */
  #checkCutByComment(node: Scalar, source: string): void {
    const { text } = this.#text.document;
    CUT_OPERATOR.lastIndex = node.range?.[1] ?? text.length;
    const [cut] = CUT_OPERATOR.exec(text) ?? [];
    if (cut === undefined) return;
    this.#report(node, {
      code: 'yaml',
      path: [...this.#path],
      message: `YAML reads ${cut.trim()} as a comment, so the SQL ends after ${JSON.stringify(shorten(source))}`,
      hint: 'Quote the whole SQL text.',
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

  /** Returns the key of a block, because the block itself begins on the next line. */
  #valueSpan(node: Node, key: Span | undefined): Span {
    const isBlock = (isMap(node) || isSeq(node)) && !node.flow;
    return isBlock && key ? key : this.#toSpan(node);
  }
}

/** A PostgreSQL operator that begins like a comment: `#>`, `#>>`, `#-`, `##`, `#=`. */
export const CUT_OPERATOR = /[ \t]+#(?:>>?|[-#=])/y;

/** Suggests the quoted text if a comma has split a plain value. `last`: end of the split text. */
function colonHint(text: string, before: Pair | undefined, last: unknown): string {
  const general = 'Write `key: value`. Quote a text that contains commas inside { }.';
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
