// Keys of svc.yaml as they would be written for a statement, each with the place in the SQL file that says so.
import { Pair, Scalar, YAMLMap, YAMLSeq, type Node } from 'yaml';
import type { Extent } from './parser.ts';

export type KeyValue = string | boolean | number | readonly KeyValue[] | KeyMap | Said | undefined;
export type KeyMap = { readonly [key: string]: KeyValue };

/** A value that stands in the file at a place of its own. */
export class Said {
  readonly value: KeyValue;
  readonly extent: Extent;

  constructor(value: KeyValue, extent: Extent) {
    this.value = value;
    this.extent = extent;
  }
}

/** What is undefined is left out. */
export function toNode(value: KeyValue, extent: Extent): Node {
  const node = build(value, extent);
  const { start, end } = value instanceof Said ? value.extent : extent;
  node.range = [start, end, end];
  return node;
}

function build(value: KeyValue, extent: Extent): Node {
  if (value instanceof Said) return toNode(value.value, value.extent);
  if (Array.isArray(value)) {
    const list = new YAMLSeq();
    // `isArray` does not see that the list is read-only.
    list.items = (value as readonly KeyValue[]).map((item) => toNode(item, extent));
    return list;
  }
  if (typeof value === 'object') return toMap(value as KeyMap, extent);
  const scalar = new Scalar(typeof value === 'string' ? literally(value) : value);
  if (typeof value === 'string')
    scalar.type = value.includes('\n') ? Scalar.BLOCK_LITERAL : Scalar.QUOTE_DOUBLE;
  else scalar.source = String(value);
  return scalar;
}

export function toMap(entries: KeyMap, extent: Extent): YAMLMap {
  const map = new YAMLMap();
  for (const [name, value] of Object.entries(entries)) {
    if (value === undefined) continue;
    const key = new Scalar(name);
    const { start, end } = value instanceof Said ? value.extent : extent;
    key.range = [start, end, end];
    map.items.push(new Pair(key, toNode(value, extent)));
  }
  map.range = [extent.start, extent.end, extent.end];
  return map;
}

/** SQL files take no variables: what looks like one is text. */
function literally(text: string): string {
  return text.replaceAll(/(\$+)\{(?=[A-Za-z_]\w*(?::-[^{}]*)?\})/g, (whole, run: string) =>
    run.length % 2 === 1 ? `$${whole}` : whole,
  );
}

/** The texts in a node list such as a qualified name. */
export function namesIn(nodes: readonly unknown[] | undefined): string[] {
  return (nodes ?? []).flatMap((node) => {
    const { String: text } = (node ?? {}) as { String?: { sval?: string } };
    return text?.sval === undefined ? [] : [text.sval];
  });
}
