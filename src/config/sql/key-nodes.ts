// Keys of svc.yaml that a statement declares, each with its place in the SQL file.
import { Pair, Scalar, YAMLMap, YAMLSeq, type Node } from 'yaml';
import type { Extent } from './parser.ts';

export type KeyValue = string | boolean | number | readonly KeyValue[] | KeyMap | LocatedValue | undefined;
export type KeyMap = { readonly [key: string]: KeyValue };

/** A value with its own place in the file. */
export class LocatedValue {
  readonly value: KeyValue;
  readonly extent: Extent;

  constructor(value: KeyValue, extent: Extent) {
    this.value = value;
    this.extent = extent;
  }
}

/** Skips undefined values. */
export function toNode(value: KeyValue, extent: Extent): Node {
  const node = build(value, extent);
  const { start, end } = value instanceof LocatedValue ? value.extent : extent;
  node.range = [start, end, end];
  return node;
}

function build(value: KeyValue, extent: Extent): Node {
  if (value instanceof LocatedValue) return toNode(value.value, value.extent);
  if (Array.isArray(value)) {
    const list = new YAMLSeq();
    // `isArray` does not narrow a read-only list.
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
    const { start, end } = value instanceof LocatedValue ? value.extent : extent;
    key.range = [start, end, end];
    map.items.push(new Pair(key, toNode(value, extent)));
  }
  map.range = [extent.start, extent.end, extent.end];
  return map;
}

/** Escapes references, because SQL files have no variables. */
function literally(text: string): string {
  return text.replaceAll(/(\$+)\{(?=[A-Za-z_]\w*(?::-[^{}]*)?\})/g, (whole, run: string) =>
    run.length % 2 === 1 ? `$${whole}` : whole,
  );
}

/** Returns the texts of a node list, such as a qualified name. */
export function namesIn(nodes: readonly unknown[] | undefined): string[] {
  return (nodes ?? []).flatMap((node) => {
    const { String: text } = (node ?? {}) as { String?: { sval?: string } };
    return text?.sval === undefined ? [] : [text.sval];
  });
}
