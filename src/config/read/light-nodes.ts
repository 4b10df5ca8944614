// Nodes as the YAML library has them, made in a fraction of the time: its constructors define properties one by one, which
// took a third of the reading of a large file. These inherit from a node of the library, and so does all that it asks them.
import { Pair, Scalar, YAMLMap, YAMLSeq, type Node } from 'yaml';

class LightScalar {
  readonly value: string;
  readonly source: string;
  readonly type: Scalar.Type;
  readonly range: [number, number, number];

  constructor(text: string, type: Scalar.Type, start: number, end: number) {
    this.value = text;
    this.source = text;
    this.type = type;
    this.range = [start, end, end];
  }
}

class LightPair {
  readonly key: Scalar;
  readonly value: Node;

  constructor(key: Scalar, value: Node) {
    this.key = key;
    this.value = value;
  }
}

class LightCollection {
  readonly items: unknown[] = [];
  flow: boolean | undefined;
  range: [number, number, number] | undefined;

  constructor(flow: boolean | undefined) {
    this.flow = flow;
    this.range = undefined;
  }
}

class LightMap extends LightCollection {}
class LightList extends LightCollection {}

Object.setPrototypeOf(LightScalar.prototype, new Scalar(''));
Object.setPrototypeOf(LightPair.prototype, new Pair(''));
Object.setPrototypeOf(LightMap.prototype, new YAMLMap());
Object.setPrototypeOf(LightList.prototype, new YAMLSeq());

// What they inherit makes them nodes, which their declarations cannot say.

/** Values are texts: read-tree.ts reads numbers from them. */
export function scalarOf(text: string, type: Scalar.Type, start: number, end: number): Scalar<string> {
  return new LightScalar(text, type, start, end) as unknown as Scalar<string>;
}

export function pairOf(key: Scalar, value: Node): Pair<Scalar, Node> {
  return new LightPair(key, value) as unknown as Pair<Scalar, Node>;
}

export function mapOf(flow?: true): YAMLMap {
  return new LightMap(flow) as unknown as YAMLMap;
}

export function listOf(flow?: true): YAMLSeq {
  return new LightList(flow) as unknown as YAMLSeq;
}
