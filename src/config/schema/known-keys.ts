// Looking things up in the schema by path: which keys may stand there, and what kind of scalar. Reads the JSON
// Schema made from it, so that there is one list only.
import type { KeyPath } from '../mistakes/mistake.ts';
import { SQL_MEDIA_TYPE } from './kinds.ts';
import { describeSchema } from './schema.ts';

/** A node of the JSON Schema; undefined where the schema has nothing to say. */
export type SchemaNode = Readonly<Record<string, unknown>> | undefined;

let root: SchemaNode;

export function rootSchema(): SchemaNode {
  root ??= describeSchema();
  return root;
}

export function childSchema(node: SchemaNode, part: string | number): SchemaNode {
  const shape = unwrap(node);
  if (typeof part === 'number') return asNode(shape?.['items']);
  const properties = asNode(shape?.['properties']);
  const own = properties && Object.hasOwn(properties, part) ? properties[part] : undefined;
  return asNode(own ?? shape?.['additionalProperties']);
}

/**
 * What a scalar is meant to be. `written` is text that is taken as it is written even where YAML reads a number or
 * a truth value in it: `using: true`, `enum: [1, 2]`.
 */
export function expectsScalar(node: SchemaNode): ExpectedScalar {
  if (node === undefined) return 'any';
  const expected = expectations.get(node) ?? readExpectation(node);
  expectations.set(node, expected);
  return expected;
}

type ExpectedScalar = 'number' | 'boolean' | 'text' | 'written' | 'any';

/** Asked for each scalar of a file. */
const expectations = new WeakMap<object, ExpectedScalar>();

function readExpectation(node: SchemaNode): ExpectedScalar {
  const types = scalarTypes(node);
  if (types.length > 1 && types.includes('string')) return 'written';
  if (types.includes('integer') || types.includes('number')) return 'number';
  if (types.includes('boolean')) return 'boolean';
  return types.includes('string') ? 'text' : 'any';
}

/** A map or list for which null means absent: `auth:` with everything under it commented out is not a mistake. */
export function isOptionalContainer(node: SchemaNode): boolean {
  return node?.['type'] === 'object' || node?.['type'] === 'array';
}

export function isSql(node: SchemaNode): boolean {
  return node?.['contentMediaType'] === SQL_MEDIA_TYPE;
}

/** The same for a value that may also be written as a map or a list. */
export function canBeSql(node: SchemaNode): boolean {
  const branches = node?.['anyOf'];
  return isSql(node) || (Array.isArray(branches) && branches.some((branch) => isSql(asNode(branch))));
}

/** A value that no message may show. */
export function isSecret(node: SchemaNode): boolean {
  return node?.['writeOnly'] === true;
}

export function schemaAt(path: KeyPath): SchemaNode {
  return path.reduce<SchemaNode>(childSchema, rootSchema());
}

/** The keys that may stand under a path. */
export function knownKeys(path: KeyPath): string[] {
  return Object.keys(asNode(unwrap(schemaAt(path))?.['properties']) ?? {});
}

/** Where else in the file a key of this name belongs, as `server.port`; undefined when that is not one place. */
export function findHome(key: string): string | undefined {
  const homes = collectHomes(rootSchema(), '', key);
  return homes.length === 1 ? homes[0] : undefined;
}

function collectHomes(node: SchemaNode, path: string, key: string): string[] {
  const shape = unwrap(node);
  const homes: string[] = [];
  for (const [name, child] of Object.entries(asNode(shape?.['properties']) ?? {})) {
    const at = path === '' ? name : `${path}.${name}`;
    if (name === key) homes.push(at);
    homes.push(...collectHomes(asNode(child), at, key));
  }
  homes.push(...collectInside(shape?.['items'], `${path}[]`, key));
  homes.push(...collectInside(shape?.['additionalProperties'], `${path}.<name>`, key));
  return homes;
}

function collectInside(node: unknown, path: string, key: string): string[] {
  const inner = asNode(node);
  return inner ? collectHomes(inner, path, key) : [];
}

function scalarTypes(node: SchemaNode): string[] {
  const branches = node?.['anyOf'];
  const nodes = Array.isArray(branches) ? branches.map(asNode) : [node];
  return nodes.flatMap((one) => {
    const type: unknown = one?.['type'];
    if (Array.isArray(type)) return type.map(String);
    if (typeof type === 'string') return [type];
    return Array.isArray(one?.['enum']) ? ['string'] : typeof one?.['const'];
  });
}

/** What the branches of a union have below them: a list and a map may be said in one place. */
export function unwrap(node: SchemaNode): SchemaNode {
  const branches = node?.['anyOf'];
  if (node === undefined || !Array.isArray(branches)) return node;
  const known = unwrapped.get(node);
  if (known) return known;
  const shape = mergeBranches(node, branches);
  unwrapped.set(node, shape);
  return shape;
}

/** Every key of a file asks for the shape of its map. */
const unwrapped = new WeakMap<object, NonNullable<SchemaNode>>();

function mergeBranches(node: NonNullable<SchemaNode>, branches: readonly unknown[]): NonNullable<SchemaNode> {
  const withChildren = branches
    .map(asNode)
    .filter((branch) => branch?.['properties'] ?? branch?.['items'] ?? branch?.['additionalProperties']);
  if (withChildren.length < 2) return withChildren[0] ?? node;
  return Object.assign({}, ...withChildren.toReversed()) as NonNullable<SchemaNode>;
}

export function asNode(value: unknown): SchemaNode {
  return isRecord(value) ? value : undefined;
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
