// Looks up keys and scalar types of the schema by path. Reads the JSON Schema that is generated from it, so that there
// is a single source.
import type { KeyPath } from '../mistakes/mistake.ts';
import { SQL_MEDIA_TYPE } from './kinds.ts';
import { describeSchema } from './schema.ts';

/** A node of the JSON Schema. Undefined where the schema is not restricted. */
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
 * Returns the expected type of a scalar. `written`: text in its written form, even if YAML reads a number or a boolean:
 * `using: true`, `enum: [1, 2]`.
 */
export function expectsScalar(node: SchemaNode): ExpectedScalar {
  if (node === undefined) return 'any';
  const expected = expectations.get(node) ?? readExpectation(node);
  expectations.set(node, expected);
  return expected;
}

type ExpectedScalar = 'number' | 'boolean' | 'text' | 'written' | 'any';

/** Caches types, which are looked up for each scalar of a file. */
const expectations = new WeakMap<object, ExpectedScalar>();

function readExpectation(node: SchemaNode): ExpectedScalar {
  const types = scalarTypes(node);
  if (types.length > 1 && types.includes('string')) return 'written';
  if (types.includes('integer') || types.includes('number')) return 'number';
  if (types.includes('boolean')) return 'boolean';
  return types.includes('string') ? 'text' : 'any';
}

/** True for a map or list for which null means absent, so that all keys below `auth:` can be commented out. */
export function isOptionalContainer(node: SchemaNode): boolean {
  return node?.['type'] === 'object' || node?.['type'] === 'array';
}

export function isSql(node: SchemaNode): boolean {
  return node?.['contentMediaType'] === SQL_MEDIA_TYPE;
}

/** Returns true also for a value that can be a map or a list instead of SQL. */
export function canBeSql(node: SchemaNode): boolean {
  const branches = node?.['anyOf'];
  return isSql(node) || (Array.isArray(branches) && branches.some((branch) => isSql(asNode(branch))));
}

/** True for a value that messages must not show. */
export function isSecret(node: SchemaNode): boolean {
  return node?.['writeOnly'] === true;
}

export function schemaAt(path: KeyPath): SchemaNode {
  return path.reduce<SchemaNode>(childSchema, rootSchema());
}

/** Returns the valid keys below a path. */
export function knownKeys(path: KeyPath): string[] {
  return Object.keys(asNode(unwrap(schemaAt(path))?.['properties']) ?? {});
}

/** Returns the only path with this key, such as `server.port`. Undefined without one or with several. */
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
  return nodes.flatMap((branch) => {
    const type: unknown = branch?.['type'];
    if (Array.isArray(type)) return type.map(String);
    if (typeof type === 'string') return [type];
    return Array.isArray(branch?.['enum']) ? ['string'] : typeof branch?.['const'];
  });
}

/** Merges the branches of a union, for keys that accept a list or a map. */
export function unwrap(node: SchemaNode): SchemaNode {
  const branches = node?.['anyOf'];
  if (node === undefined || !Array.isArray(branches)) return node;
  const known = unwrapped.get(node);
  if (known) return known;
  const shape = mergeBranches(node, branches);
  unwrapped.set(node, shape);
  return shape;
}

/** Caches merged shapes, which are looked up for each key of a file. */
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
