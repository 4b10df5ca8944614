// Formats short entries of a pulled file in one line.
import { type Document, isMap, isScalar, isSeq, visit, type YAMLMap } from 'yaml';

const MAX_FLOW_WIDTH = 90;

export function compact(document: Document): void {
  visit(document, {
    Seq(_key, list) {
      if (list.items.every((item) => isScalar(item) && isShort(item.value)) && isShort(JSON.stringify(list)))
        list.flow = true;
    },
  });
  for (const key of ['types', 'sequences']) {
    const named = document.get(key);
    for (const pair of isMap(named) ? named.items : []) if (isMap(pair.value)) pair.value.flow = true;
  }
  const tables = document.get('tables');
  if (!isMap(tables)) return;
  for (const pair of tables.items) {
    if (!isMap(pair.value)) continue;
    flowWhenShort(pair.value, ['partition_by', 'partitions', 'grants']);
    for (const key of ['fields', 'indexes', 'constraints', 'triggers', 'partitions']) {
      const list = pair.value.get(key);
      for (const item of isSeq(list) ? list.items : []) if (isMap(item)) item.flow = true;
    }
    flowItemsWhenShort(pair.value.get('rls'));
  }
  flowItemsWhenShort(document.get('extensions'));
  const [views, rpc] = [document.get('views'), document.get('rpc')];
  for (const pair of isMap(views) ? views.items : [])
    if (isMap(pair.value)) {
      flowWhenShort(pair.value, ['grants']);
      flowItemsWhenShort(pair.value.get('indexes'));
    }
  for (const pair of isMap(rpc) ? rpc.items : [])
    if (isMap(pair.value)) {
      flowWhenShort(pair.value, ['returns', 'settings']);
      flowItemsWhenShort(pair.value.get('args'));
    }
}

function flowWhenShort(map: YAMLMap, keys: readonly string[]): void {
  for (const key of keys) {
    const node: unknown = map.get(key);
    if (isMap(node) && isShort(JSON.stringify(node))) node.flow = true;
  }
}

function flowItemsWhenShort(list: unknown): void {
  for (const item of isSeq(list) ? list.items : [])
    if (isMap(item) && isShort(JSON.stringify(item)) && !JSON.stringify(item).includes('\\n'))
      item.flow = true;
}

function isShort(value: unknown): boolean {
  return String(value).length <= MAX_FLOW_WIDTH && !String(value).includes('\n');
}
