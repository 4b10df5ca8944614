// All files as one text: what the migration history keeps, what `svc deploy` uploads and `svc config print` shows.
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

/** `texts`: svc.yaml first; they have been read without mistakes, as has the overlay. */
export function mergedText(texts: readonly NamedText[], overlay: NamedText | undefined): string {
  return mergedDocument(texts, overlay).toString({ lineWidth: 0 });
}

export type NamedText = { readonly name: string; readonly text: string };

/** `file:line` of what nodes come from. */
export type Origins = WeakMap<Node, string>;

/** `origins` is filled. */
export function mergedDocument(
  texts: readonly NamedText[],
  overlay: NamedText | undefined,
  origins: Origins = new WeakMap(),
): Document {
  const [first = new Document(), ...others] = texts.map((one) => parse(one, origins));
  if (!isMap(first.contents)) return first;
  for (const key of PER_FILE_KEYS) first.contents.delete(key);
  for (const { contents } of others) if (isMap(contents)) mergeInto(first.contents, contents, true);
  const over = overlay && parse(overlay, origins).contents;
  if (isMap(over)) applyOverlay(first.contents, over, true);
  return first;
}

/** What they name is put together here. */
const PER_FILE_KEYS = ['include', 'sql'];

/** Names of anchors hold within one file only, so what an alias stands for is written out. */
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
    const before = target.items.find((one) => keyName(one) === name);
    const isEmpty = isScalar(pair.value) && pair.value.value === null;
    if (!before) target.items.push(pair);
    else if (isMap(before.value) && isMap(pair.value)) mergeInto(before.value, pair.value);
    else if (isSeq(before.value) && isSeq(pair.value)) before.value.items.push(...pair.value.items);
    else if (!isEmpty) before.value = pair.value;
  }
}

/** As lay-over.ts does it with values. */
function applyOverlay(target: YAMLMap, from: YAMLMap, isTop = false): void {
  writeMergesOut(target);
  writeMergesOut(from);
  for (const pair of from.items) {
    const name = keyName(pair);
    if (isTop && name === 'version') continue;
    const isNull = isScalar(pair.value) && pair.value.value === null;
    if (pair.value === null || (isNull && isScalar(pair.value) && pair.value.source === '')) continue;
    const before = target.items.find((one) => keyName(one) === name);
    if (isNull) target.items = target.items.filter((one) => one !== before);
    else if (isMap(pair.value)) {
      const map = before && isMap(before.value) ? before.value : new YAMLMap();
      applyOverlay(map, pair.value);
      if (before) before.value = map;
      else target.items.push(new Pair(pair.key, map));
    } else if (before) before.value = pair.value;
    else target.items.push(pair);
  }
}

/** `<<: …` → the keys that it stands for: what is laid over a map may be one of them. */
function writeMergesOut(map: YAMLMap): void {
  const merged = map.items.filter(isMerge);
  map.items = map.items.filter((pair) => !merged.includes(pair));
  for (const { value } of merged) {
    for (const source of isSeq(value) ? value.items : [value]) {
      if (!isMap(source)) continue;
      writeMergesOut(source);
      for (const pair of source.items)
        if (!map.items.some((one) => keyName(one) === keyName(pair))) map.items.push(pair);
    }
  }
}

/** The library gives `<<` a symbol for its value, unless it is in quotes. */
function isMerge({ key }: Pair): boolean {
  return isScalar(key) && typeof key.value === 'symbol';
}

function keyName({ key }: Pair): unknown {
  return isScalar(key) ? key.value : key;
}
