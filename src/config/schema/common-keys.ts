// The common keys: about sixty of the keys of svc.yaml, marked with `COMMON` in the schema.
import { asNode, unwrap, type SchemaNode } from './known-keys.ts';
import { describeSchema, toMarkedJsonSchema, withoutMarks } from './schema.ts';

type Node = NonNullable<SchemaNode>;

type SchemaKey = {
  /** Path of the key, such as `tables.<name>.fields[].type`. */
  readonly path: string;
  readonly node: Node;
  readonly isRequired: boolean;
};

export type ListedKey = SchemaKey & {
  /** True for common keys, for keys that contain common keys, and for required keys next to them. */
  readonly isProminent: boolean;
};

/** Returns the sections of the file, each as its key and all keys below it, in the order of the schema. */
export function listSections(): ListedKey[][] {
  return children('', describeSchema()).map((section) => listBelow(section, true));
}

function listBelow(key: SchemaKey, canBeProminent: boolean): ListedKey[] {
  const { path, node } = key;
  const hasProminentKeys = canBeProminent && node['common'] !== true && hasCommon(node);
  return [
    { ...key, isProminent: canBeProminent && isProminent(node, key.isRequired) },
    ...children(path, node).flatMap((child) => listBelow(child, hasProminentKeys)),
  ];
}

/** Returns the paths of the marked keys. A key below a marked key is part of it and is not listed. */
export function listCommonKeys(path = '', node: Node = describeSchema()): string[] {
  if (typeof node['common'] === 'boolean') return node['common'] ? [path] : [];
  return children(path, node).flatMap((key) => listCommonKeys(key.path, key.node));
}

/**
 * Returns a JSON Schema with the common keys, and with the required keys of their maps. It accepts every file that the
 * complete schema accepts.
 */
export function toCommonJsonSchema(): Record<string, unknown> {
  return {
    ...selectCommon(toMarkedJsonSchema()),
    description: 'The common keys of svc.yaml. Other keys are allowed; `svc schema` prints all of them.',
  };
}

function selectCommon(node: Node): Record<string, unknown> {
  // Without marks inside, such as the arguments of a function, the shape is complete.
  if (!children('', node).some((key) => hasCommon(key.node))) return withoutMarks(node);
  const { additionalProperties, common: _mark, ...selected } = node;
  const properties = Object.entries(asNode(node['properties']) ?? {}).flatMap(([key, value]) => {
    const child = asNode(value) ?? {};
    return isProminent(child, requires(node, key)) ? [[key, selectCommon(child)]] : [];
  });
  const branches = node['anyOf'];
  return {
    ...selected,
    ...(node['properties'] === undefined ? {} : { properties: Object.fromEntries(properties) }),
    ...(node['items'] === undefined ? {} : { items: selectCommon(asNode(node['items']) ?? {}) }),
    ...(Array.isArray(branches)
      ? { anyOf: branches.map((branch) => selectCommon(asNode(branch) ?? {})) }
      : {}),
    // Without `additionalProperties: false`, the keys that are left out stay valid.
    ...(asNode(additionalProperties)
      ? { additionalProperties: selectCommon(asNode(additionalProperties) ?? {}) }
      : {}),
  };
}

function isProminent(node: Node, isRequired: boolean): boolean {
  return isRequired || hasCommon(node);
}

function hasCommon(node: Node): boolean {
  return listCommonKeys('', node).length > 0;
}

function children(path: string, node: Node): SchemaKey[] {
  const shape = unwrap(node) ?? {};
  const prefix = path === '' ? '' : `${path}.`;
  return [
    ...mapKeys(prefix, shape),
    ...mapKeys(`${path}[].`, unwrap(asNode(shape['items']))),
    ...mapKeys(`${path}.<name>.`, unwrap(asNode(shape['additionalProperties']))),
  ];
}

function mapKeys(prefix: string, map: SchemaNode): SchemaKey[] {
  return Object.entries(asNode(map?.['properties']) ?? {}).map(([key, node]) => ({
    path: `${prefix}${key}`,
    node: asNode(node) ?? {},
    isRequired: requires(map, key),
  }));
}

function requires(map: SchemaNode, key: string): boolean {
  return Array.isArray(map?.['required']) && map['required'].includes(key);
}
