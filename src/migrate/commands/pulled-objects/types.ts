// Converts types of the database to the key `types`.
import type { Live, LiveType } from '../../schema/live/live-schema.ts';
import { isOfPostgres } from '../../../config/check/tables/type-family.ts';
import { bare, shortType } from '../pulled-columns.ts';
import { pulledDefault } from '../pulled-default.ts';
import { plainOrQuoted } from '../../../postgres/sql.ts';

const NO_ENUMS: ReadonlySet<string> = new Set();

type Node = Record<string, unknown>;

/** Converts the types. `omitted` lists omitted types. `strip` removes the outermost parentheses. */
export function pulledTypes(
  types: Live['types'],
  strip: (text: string) => string,
): { types: Record<string, Node>; omitted: string[] } {
  const declared: Record<string, Node> = {};
  const omitted: string[] = [];
  for (const type of types.values()) {
    const name = `${plainOrQuoted(type.schema)}.${plainOrQuoted(type.name)}`;
    if (Object.hasOwn(declared, type.name))
      omitted.push(`type ${name}: another schema has a type of this name`);
    else if (isOfPostgres(type.name)) omitted.push(`type ${name}: PostgreSQL has a type of this name`);
    else if (type.kind === 'enum' && type.values.length === 0) omitted.push(`type ${name}: it has no values`);
    else declared[type.name] = toNode(type, strip);
  }
  return { types: declared, omitted };
}

function toNode(type: LiveType, strip: (text: string) => string): Node {
  const { schema, comment } = type;
  return {
    ...(schema === 'public' ? {} : { schema }),
    ...definitionKeys(type, strip),
    ...(comment === null ? {} : { comment }),
  };
}

function definitionKeys(
  { kind, values, domain, attributes }: LiveType,
  strip: (text: string) => string,
): Node {
  if (kind === 'composite')
    return { composite: Object.fromEntries(attributes.map(({ name, type }) => [name, shortType(type)])) };
  if (domain === null) return { enum: values };
  const checks = domain.checks.map(({ expression }) => strip(expression));
  return {
    domain: shortType(domain.base),
    ...(domain.collation === null ? {} : { collate: bare(domain.collation) }),
    ...(checks.length === 0 ? {} : { check: checks.length === 1 ? checks[0] : checks }),
    ...(domain.notNull ? { not_null: true } : {}),
    ...(domain.default === null
      ? {}
      : { default: pulledDefault({ default: domain.default, type: domain.base }, NO_ENUMS) }),
  };
}
