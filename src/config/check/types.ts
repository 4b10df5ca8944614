// Types of the file: names, values, and defaults of their columns.
import type { KeyPath } from '../mistakes/mistake.ts';
import { declaredType } from '../schema/declared-type.ts';
import type { RawField } from '../schema/tables/tables.ts';
import type { RawType } from '../schema/types.ts';
import { type CheckContext, didYouMean } from './context.ts';
import { checkDefault } from './tables/default.ts';
import { checkObjectName, checkRenames, checkSchema } from './name.ts';
import { isOfPostgres } from './tables/type-family.ts';

/** PostgreSQL limits values of an enum to this length. */
const MAX_VALUE_BYTES = 63;

export function checkTypes(context: CheckContext): void {
  const entries = Object.entries(context.file.types);
  for (const [name, type] of entries) {
    const path = ['types', name];
    checkObjectName(context, path, name);
    checkSchema(context, [...path, 'schema'], type.schema);
    checkFree(context, path, name, type);
    checkForm(context, path, type);
    if (type.values !== undefined) checkValues(context, path, type);
  }
  checkRenames(
    context,
    entries.map(([name, type]) => ({ path: ['types', name], name, from: type.renamedFrom })),
  );
}

/** Rejects names of PostgreSQL types, which would take precedence, and names of tables, which are types too. */
function checkFree(context: CheckContext, path: KeyPath, name: string, type: RawType): void {
  if (isOfPostgres(name)) {
    context.report({
      code: 'reserved-name',
      path,
      message: `${name} is a PostgreSQL type`,
      hint: 'Choose another name.',
      part: 'key',
    });
  } else if (context.file.tables[name]?.schema === type.schema) {
    context.report({
      code: 'duplicate',
      path,
      message: `there is a table ${name}, which defines a type with the same name`,
      hint: 'Choose another name for the type.',
      part: 'key',
    });
  }
}

/** Keys of each kind of type. The first key determines the kind. */
const KEYS = {
  enum: ['enum', 'renamed_values'],
  domain: ['domain', 'check', 'not_null', 'default', 'collate'],
  composite: ['composite'],
} as const;

const KIND_LABELS = { enum: 'an enum', domain: 'a domain', composite: 'a composite type' } as const;

function checkForm(context: CheckContext, path: KeyPath, type: RawType): void {
  if (context.broken.touches(path)) return;
  const kinds = [
    ...(type.values === undefined ? [] : ['enum' as const]),
    ...(type.domain === undefined ? [] : ['domain' as const]),
    ...(type.composite === undefined ? [] : ['composite' as const]),
  ];
  const [kind, second] = kinds;
  if (kind === undefined)
    return context.report({
      code: 'missing-key',
      path,
      message: `the type ${path[1]} has no definition`,
      hint: 'Write enum: [values], domain: <type> or composite: { attribute: <type> }.',
      part: 'key',
    });
  if (second !== undefined)
    return context.conflict(
      [...path, second],
      `a type is either ${KIND_LABELS[kind]} or ${KIND_LABELS[second]}`,
      'Declare two types.',
      'key',
    );
  for (const [owner, keys] of Object.entries(KEYS))
    for (const key of owner === kind ? [] : keys)
      if (context.isWritten([...path, key]))
        context.conflict(
          [...path, key],
          `${key} is only valid for ${KIND_LABELS[owner as keyof typeof KEYS]}, and ${path[1]} is ${KIND_LABELS[kind]}`,
          `Remove ${key}.`,
          'key',
        );
  if (type.domain !== undefined) {
    checkDefault(context, [...path, 'default'], type.domain, type.default);
    if (declaredType(type.domain, { [String(path[1])]: type }) !== undefined)
      context.conflict([...path, 'domain'], `${path[1]} cannot be based on itself`, 'Name another type.');
  }
}

function checkValues(context: CheckContext, path: KeyPath, { values = [], renamedValues }: RawType): void {
  const seen = new Set<string>();
  for (const [index, value] of values.entries()) {
    const at = [...path, 'enum', index];
    const bytes = Buffer.byteLength(value);
    if (bytes > MAX_VALUE_BYTES || value === '' || value.includes('\0'))
      context.badValue(
        at,
        `${context.quote(at, value)} is not a valid enum value: values have 1 to ${MAX_VALUE_BYTES} bytes`,
        'For longer texts use a text column with the key enum.',
      );
    if (seen.has(value)) context.reportTwice(at, `${context.quote(at, value)} is listed twice`);
    seen.add(value);
  }
  const targets = new Map<string, string>();
  for (const [old, renamed] of Object.entries(renamedValues ?? {})) {
    const at = [...path, 'renamed_values', old];
    const earlier = targets.get(renamed);
    targets.set(renamed, old);
    if (!seen.has(renamed))
      context.conflict(
        at,
        `${old} was renamed to ${context.quote(at, renamed)}, which is not among the values`,
        () => didYouMean(renamed, seen) ?? 'Add it to enum.',
      );
    else if (seen.has(old))
      context.conflict(
        at,
        `${old} is still listed under enum, so it cannot be renamed`,
        'Remove one of the two. To swap two values, deploy a third name first.',
      );
    else if (earlier !== undefined)
      context.conflict(at, `both ${earlier} and ${old} were renamed to ${renamed}`, 'Remove one of the two.');
  }
}

/** The default must be a value of the enum. */
export function checkTypedDefault(context: CheckContext, field: RawField, at: KeyPath): void {
  const found = declaredType(field.type, context.file.types);
  if (found === undefined || context.broken.touches(['types', found.name])) return;
  const { values } = found.type;
  if (values === undefined) return;
  const path = [...at, 'default'];
  const isList = Array.isArray(field.default);
  if (isList !== found.isArray && (isList || typeof field.default === 'string')) {
    if (isList)
      return context.badValue(
        path,
        `a list is not a valid value of type ${field.type}`,
        'Correct the type or the default.',
      );
    return;
  }
  const places: KeyPath[] = Array.isArray(field.default)
    ? field.default.map((_item, index) => [...path, index])
    : [path];
  for (const place of places) {
    const scalar = context.scalar(place);
    if (scalar === undefined || scalar.kind === 'null' || values.includes(scalar.text)) continue;
    context.conflict(
      place,
      `the default ${context.quote(place, scalar.text)} is not a value of ${found.name}`,
      () => didYouMean(scalar.text, values) ?? `Add it to types.${found.name}, or choose another default.`,
    );
  }
}
