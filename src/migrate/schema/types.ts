// Types of the file: from the configuration to the model, and as SQL.
import type { DeclaredType } from '../../config/config.ts';
import { declaredType } from '../../config/schema/declared-type.ts';
import { quoteIdent, quoteLiteral } from '../../postgres/sql.ts';
import type { DesiredType } from './desired.ts';
import { isReplacedType } from './label.ts';
import { nameOf, type TypeModel } from './model.ts';
import { plainOrQuoted } from './sql-text.ts';

export function toTypeModel({
  name,
  schema,
  values,
  renamedValues,
  comment,
  renamedFrom,
}: DeclaredType): TypeModel {
  return {
    schema,
    name,
    kind: 'enum',
    values,
    ...(renamedValues === undefined ? {} : { renamedValues }),
    ...(comment === undefined ? {} : { comment }),
    ...(renamedFrom === undefined ? {} : { renamedFrom }),
    at: `types.${name}`,
  };
}

/**
 * The values of a column go from a type to the one that takes its place by their text. `type`: of the column now, as
 * printed; null where nothing takes its place.
 */
export function conversionByText(column: string, type: string, typeSql: string): string | null {
  if (!isReplacedType(type)) return null;
  const brackets = /(?:\[\])*$/.exec(type)?.[0] ?? '';
  return `${quoteIdent(column)}::text${brackets}::${typeSql}`;
}

/** A type as written, or the full name of the one of the file that it means. `setof mood` is one, too. */
export function typeNamer(types: readonly DeclaredType[]): (written: string) => string {
  if (types.length === 0) return (written) => written;
  const byName = Object.fromEntries(types.map((type) => [type.name, type]));
  return (written) => {
    const setOf = /^\s*setof\s+/i.exec(written)?.[0] ?? '';
    const found = declaredType(written.slice(setOf.length), byName);
    if (found === undefined) return written;
    return `${setOf}${plainOrQuoted(found.type.schema)}.${plainOrQuoted(found.name)}${found.brackets}`;
  };
}

export function toDesiredType(model: TypeModel): DesiredType {
  return { schema: model.schema, name: model.name, model, at: model.at };
}

export function createTypeSql({ model }: Pick<DesiredType, 'model'>): string {
  return `create type ${nameOf(model)} as enum (${model.values.map((value) => quoteLiteral(value)).join(', ')})`;
}
