// Types of the file: their names, their values, and the values that fields start with.
import type { KeyPath } from '../mistakes/mistake.ts';
import { declaredType } from '../schema/declared-type.ts';
import type { RawField } from '../schema/tables/tables.ts';
import type { RawType } from '../schema/types.ts';
import { type CheckContext, didYouMean } from './context.ts';
import { checkDefault } from './tables/default.ts';
import { checkObjectName, checkRenames, checkSchema } from './name.ts';
import { isOfPostgres } from './tables/type-family.ts';

/** PostgreSQL keeps no longer value of an enum. */
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

/** A type may not have the name of one of PostgreSQL's, which would be found first, nor of a table: each is a type. */
function checkFree(context: CheckContext, path: KeyPath, name: string, type: RawType): void {
  if (isOfPostgres(name)) {
    context.report({
      code: 'reserved-name',
      path,
      message: `${name} is a type of PostgreSQL`,
      hint: 'Choose another name.',
      part: 'key',
    });
  } else if (context.file.tables[name]?.schema === type.schema) {
    context.report({
      code: 'duplicate',
      path,
      message: `there is a table ${name}, and each table is a type of its name`,
      hint: 'Choose another name for the type.',
      part: 'key',
    });
  }
}

/** The keys of each kind of type; the first of them makes it one. */
const KEYS = {
  enum: ['enum', 'renamed_values'],
  domain: ['domain', 'check', 'not_null', 'default', 'collate'],
  composite: ['composite'],
} as const;

const ONE = { enum: 'an enum', domain: 'a domain', composite: 'a composite type' } as const;

function checkForm(context: CheckContext, path: KeyPath, type: RawType): void {
  if (context.broken.touches(path)) return;
  const kinds = [
    ...(type.values === undefined ? [] : ['enum' as const]),
    ...(type.domain === undefined ? [] : ['domain' as const]),
    ...(type.composite === undefined ? [] : ['composite' as const]),
  ];
  const [kind, other] = kinds;
  if (kind === undefined)
    return context.report({
      code: 'missing-key',
      path,
      message: `the type ${path[1]} is nothing yet`,
      hint: 'Say enum: [values], domain: <type> or composite: { attribute: <type> }.',
      part: 'key',
    });
  if (other !== undefined)
    return context.conflict(
      [...path, other],
      `a type is either ${ONE[kind]} or ${ONE[other]}`,
      'Declare two types.',
      'key',
    );
  for (const [home, keys] of Object.entries(KEYS))
    for (const key of home === kind ? [] : keys)
      if (context.isWritten([...path, key]))
        context.conflict(
          [...path, key],
          `${key} is for ${ONE[home as keyof typeof KEYS]}, and ${path[1]} is ${ONE[kind]}`,
          `Remove ${key}.`,
          'key',
        );
  if (type.domain !== undefined) {
    checkDefault(context, [...path, 'default'], type.domain, type.default);
    if (declaredType(type.domain, { [String(path[1])]: type }) !== undefined)
      context.conflict([...path, 'domain'], `${path[1]} cannot be made of itself`, 'Name another type.');
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
        `${context.quote(at, value)} is no value of an enum type: these are 1 to ${MAX_VALUE_BYTES} bytes long`,
        'For longer texts use a column of text with enum: beside it.',
      );
    if (seen.has(value)) context.reportTwice(at, `${context.quote(at, value)} is listed twice`);
    seen.add(value);
  }
  const targets = new Map<string, string>();
  for (const [old, now] of Object.entries(renamedValues ?? {})) {
    const at = [...path, 'renamed_values', old];
    const other = targets.get(now);
    targets.set(now, old);
    if (!seen.has(now))
      context.conflict(
        at,
        `${old} was renamed to ${context.quote(at, now)}, which is not among the values`,
        () => didYouMean(now, seen) ?? 'Add it to enum.',
      );
    else if (seen.has(old))
      context.conflict(
        at,
        `${old} is still listed under enum, so it was not renamed`,
        'Remove one of the two. To swap two values, deploy a third name first.',
      );
    else if (other !== undefined)
      context.conflict(at, `both ${other} and ${old} claim to be ${now} now`, 'Keep one of the two.');
  }
}

/** A default must be among the values of the field's type. */
export function checkTypedDefault(context: CheckContext, field: RawField, at: KeyPath): void {
  const found = declaredType(field.type, context.file.types);
  if (found === undefined || context.broken.touches(['types', found.name])) return;
  const { values } = found.type;
  if (values === undefined) return;
  const path = [...at, 'default'];
  const isList = Array.isArray(field.default);
  if (isList !== found.isArray && (isList || typeof field.default === 'string')) {
    if (isList)
      return context.badValue(path, `a list is no value of ${field.type}`, 'Correct one of the two.');
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
      `the default ${context.quote(place, scalar.text)} is not among the values of ${found.name}`,
      () => didYouMean(scalar.text, values) ?? `Add it to types.${found.name}, or choose another default.`,
    );
  }
}
