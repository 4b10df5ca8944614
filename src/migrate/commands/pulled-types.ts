// Types of the database as the key `types`.
import type { Live, LiveType } from '../schema/live-schema.ts';
import { plainOrQuoted } from '../schema/sql-text.ts';

type Node = Record<string, unknown>;

/** `left`: what the file cannot say. */
export function pulledTypes(types: Live['types']): { types: Record<string, Node>; left: string[] } {
  const said: Record<string, Node> = {};
  const left: string[] = [];
  for (const type of types.values()) {
    const name = `${plainOrQuoted(type.schema)}.${plainOrQuoted(type.name)}`;
    if (type.kind !== 'enum') left.push(`type ${name}: it is a ${type.kind} type`);
    else if (Object.hasOwn(said, type.name))
      left.push(`type ${name}: another schema has a type of this name`);
    else if (type.values.length === 0) left.push(`type ${name}: it has no values`);
    else said[type.name] = toNode(type);
  }
  return { types: said, left };
}

function toNode({ schema, values, comment }: LiveType): Node {
  return {
    ...(schema === 'public' ? {} : { schema }),
    enum: values,
    ...(comment === null ? {} : { comment }),
  };
}
