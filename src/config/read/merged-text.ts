// Merges all files into one text for the migration history, `svc deploy` and `svc config print`.
import {
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  LineCounter,
  Pair,
  parseDocument,
  visit,
  Document,
  type Node,
  YAMLMap,
} from 'yaml';

/** `texts`: begins with svc.yaml. All texts and the overlay have been read without mistakes. */
export function mergedText(texts: readonly NamedText[], overlay: NamedText | undefined): string {
  return mergedDocument(texts, overlay).toString({ lineWidth: 0 });
}

export type NamedText = { readonly name: string; readonly text: string };

/** Place of each node as `file:line`. */
export type Origins = WeakMap<Node, string>;

/** Fills `origins`. */
export function mergedDocument(
  texts: readonly NamedText[],
  overlay: NamedText | undefined,
  origins: Origins = new WeakMap(),
): Document {
  const [first = new Document(), ...included] = texts.map((part) => parse(part, origins));
  if (!isMap(first.contents)) return first;
  for (const key of PER_FILE_KEYS) first.contents.delete(key);
  for (const { contents } of included) if (isMap(contents)) mergeInto(first.contents, contents, true);
  const over = overlay && parse(overlay, origins).contents;
  if (isMap(over)) applyOverlay(first.contents, over, true);
  return first;
}

/** The files that these keys name are already merged. */
const PER_FILE_KEYS = ['include', 'sql'];

/** Expands aliases, because names of anchors are only valid within their file. */
function parse({ name, text }: NamedText, origins: Origins): Document {
  const lineCounter = new LineCounter();
  const document = parseDocument(text, { merge: true, uniqueKeys: false, lineCounter });
  visit(document, {
    Alias: (_key, alias) => {
      const target = alias.resolve(document);
      return isNode(target) ? (target.clone() as Node) : undefined;
    },
  });
  visit(document, {
    Node: (_key, node) => {
      if (isAlias(node)) return;
      delete node.anchor;
      const { line } = lineCounter.linePos(node.range?.[0] ?? 0);
      origins.set(node, `${name}:${line}`);
    },
  });
  return document;
}

function mergeInto(target: YAMLMap, from: YAMLMap, isTop = false): void {
  for (const pair of from.items) {
    const name = keyName(pair);
    if (isTop && (name === 'version' || PER_FILE_KEYS.some((key) => key === name))) continue;
    const before = target.items.find((candidate) => keyName(candidate) === name);
    const isEmpty = isScalar(pair.value) && pair.value.value === null;
    if (!before) target.items.push(pair);
    else if (isMap(before.value) && isMap(pair.value)) mergeInto(before.value, pair.value);
    else if (isSeq(before.value) && isSeq(pair.value)) before.value.items.push(...pair.value.items);
    else if (!isEmpty) before.value = pair.value;
  }
}

/** Does the same with nodes as apply-overlay.ts with values. */
function applyOverlay(target: YAMLMap, from: YAMLMap, isTop = false): void {
  expandMergeKeys(target);
  expandMergeKeys(from);
  for (const pair of from.items) {
    const name = keyName(pair);
    if (isTop && name === 'version') continue;
    const isNull = isScalar(pair.value) && pair.value.value === null;
    if (pair.value === null || (isNull && isScalar(pair.value) && pair.value.source === '')) continue;
    const before = target.items.find((candidate) => keyName(candidate) === name);
    if (isNull) target.items = target.items.filter((candidate) => candidate !== before);
    else if (isMap(pair.value)) {
      const map = before && isMap(before.value) ? before.value : new YAMLMap();
      applyOverlay(map, pair.value);
      if (before) before.value = map;
      else target.items.push(new Pair(pair.key, map));
    } else if (before) before.value = pair.value;
    else target.items.push(pair);
  }
}

/** Replaces `<<: …` with the merged keys, because the overlay may change one of them. */
function expandMergeKeys(map: YAMLMap): void {
  const merged = map.items.filter(isMerge);
  map.items = map.items.filter((pair) => !merged.includes(pair));
  for (const { value } of merged) {
    for (const source of isSeq(value) ? value.items : [value]) {
      if (!isMap(source)) continue;
      expandMergeKeys(source);
      for (const pair of source.items)
        if (!map.items.some((existing) => keyName(existing) === keyName(pair))) map.items.push(pair);
    }
  }
}

/** The library represents an unquoted `<<` as a symbol. */
function isMerge({ key }: Pair): boolean {
  return isScalar(key) && typeof key.value === 'symbol';
}

function keyName({ key }: Pair): unknown {
  return isScalar(key) ? key.value : key;
}
