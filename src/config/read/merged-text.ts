// All files as one text: what the migration history keeps, what `svc deploy` uploads and `svc config print` shows.
import {
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  parseDocument,
  visit,
  type Document,
  type Node,
  type YAMLMap,
} from 'yaml';

/** `texts`: svc.yaml first; they have been read without mistakes. */
export function mergedText(texts: readonly string[]): string {
  const [first, ...others] = texts.map(parse);
  if (!first || !isMap(first.contents)) return '';
  for (const key of OF_ONE_FILE) first.contents.delete(key);
  for (const { contents } of others) if (isMap(contents)) mergeInto(first.contents, contents, true);
  return first.toString({ lineWidth: 0 });
}

/** What they name is put together here. */
const OF_ONE_FILE = ['include', 'sql'];

/** Names of anchors hold within one file only, so what an alias stands for is written out. */
function parse(text: string): Document {
  const document = parseDocument(text, { merge: true, uniqueKeys: false });
  visit(document, {
    Alias: (_key, alias) => {
      const target = alias.resolve(document);
      return isNode(target) ? (target.clone() as Node) : undefined;
    },
  });
  visit(document, {
    Node: (_key, node) => {
      if (!isAlias(node)) delete node.anchor;
    },
  });
  return document;
}

function mergeInto(target: YAMLMap, from: YAMLMap, isTop = false): void {
  for (const pair of from.items) {
    const name = isScalar(pair.key) ? pair.key.value : pair.key;
    if (isTop && (name === 'version' || OF_ONE_FILE.some((key) => key === name))) continue;
    const before = target.items.find(({ key }) => isScalar(key) && key.value === name);
    const isEmpty = isScalar(pair.value) && pair.value.value === null;
    if (!before) target.items.push(pair);
    else if (isMap(before.value) && isMap(pair.value)) mergeInto(before.value, pair.value);
    else if (isSeq(before.value) && isSeq(pair.value)) before.value.items.push(...pair.value.items);
    else if (!isEmpty) before.value = pair.value;
  }
}
