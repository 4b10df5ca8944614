// Types of the database as the key `types`.
import type { Live, LiveType } from '../../schema/live/live-schema.ts';
import { bare } from '../pulled-columns.ts';
import { plainOrQuoted } from '../../../postgres/sql.ts';

type Node = Record<string, unknown>;

/** `left`: what the file cannot say. `strip` takes the outermost parentheses away. */
export function pulledTypes(
  types: Live['types'],
  strip: (text: string) => string,
): { types: Record<string, Node>; left: string[] } {
  const said: Record<string, Node> = {};
  const left: string[] = [];
  for (const type of types.values()) {
    const name = `${plainOrQuoted(type.schema)}.${plainOrQuoted(type.name)}`;
    if (Object.hasOwn(said, type.name)) left.push(`type ${name}: another schema has a type of this name`);
    else if (type.kind === 'enum' && type.values.length === 0) left.push(`type ${name}: it has no values`);
    else said[type.name] = toNode(type, strip);
  }
  return { types: said, left };
}

function toNode(type: LiveType, strip: (text: string) => string): Node {
  const { schema, comment } = type;
  return {
    ...(schema === 'public' ? {} : { schema }),
    ...saidOf(type, strip),
    ...(comment === null ? {} : { comment }),
  };
}

function saidOf({ kind, values, domain, attributes }: LiveType, strip: (text: string) => string): Node {
  if (kind === 'composite')
    return { composite: Object.fromEntries(attributes.map(({ name, type }) => [name, type])) };
  if (domain === null) return { enum: values };
  const checks = domain.checks.map(({ expression }) => strip(expression));
  return {
    domain: domain.base,
    ...(domain.collation === null ? {} : { collate: bare(domain.collation) }),
    ...(checks.length === 0 ? {} : { check: checks.length === 1 ? checks[0] : checks }),
    ...(domain.notNull ? { not_null: true } : {}),
    ...(domain.default === null ? {} : { default: { sql: domain.default } }),
  };
}
