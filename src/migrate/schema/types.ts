// Types of the file: from the configuration to the model, and as SQL.
import type { DeclaredType } from '../../config/config.ts';
import { declaredType } from '../../config/schema/declared-type.ts';
import { plainOrQuoted, quoteIdent, quoteLiteral } from '../../postgres/sql.ts';
import { defaultSql, toDefaultModel } from './sql/default-sql.ts';
import type { DesiredType, OwnCalls } from './desired.ts';
import { expression, type Expression } from './expression.ts';
import { qualifiedSql } from './sql/index-sql.ts';
import { namelessCheckLabel, isReplacedType } from './label.ts';
import { nameOf, type CompositeModel, type DomainModel, type EnumModel, type TypeModel } from './model.ts';
import { wordsOf } from '../../lib/sql/sql-text.ts';

export function toTypeModel(type: DeclaredType, typeName: (written: string) => string): TypeModel {
  const { name, schema, comment, renamedFrom } = type;
  return {
    schema,
    name,
    ...(comment === undefined ? {} : { comment }),
    ...(renamedFrom === undefined ? {} : { renamedFrom }),
    ...toKind(type, typeName),
    at: `types.${name}`,
  };
}

function toKind(
  { values = [], renamedValues, domain, checks, notNull, default: value, collate, composite }: DeclaredType,
  typeName: (written: string) => string,
): EnumModel | DomainModel | CompositeModel {
  if (domain !== undefined)
    return {
      kind: 'domain',
      base: typeName(domain),
      ...(checks === undefined ? {} : { checks }),
      ...(notNull ? { notNull: true } : {}),
      ...(value === undefined ? {} : { default: toDefaultModel(value) }),
      ...(collate === undefined ? {} : { collate }),
    };
  if (composite !== undefined) {
    const attributes = Object.entries(composite).map(([name, type]) => ({ name, type: typeName(type) }));
    return { kind: 'composite', attributes };
  }
  return { kind: 'enum', values, ...(renamedValues === undefined ? {} : { renamedValues }) };
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

export function toDesiredType(model: TypeModel, functions: OwnCalls): DesiredType {
  const normal = model.kind === 'enum' ? ({ kind: 'enum' } as const) : null;
  return { schema: model.schema, name: model.name, model, normal, functions, at: model.at };
}

/** Without the checks of a domain, which may call functions. */
export function createTypeSql({ model }: Pick<DesiredType, 'model'>): string {
  const create = (what: string, as: string): string => `create ${what} ${nameOf(model)} as ${as}`;
  switch (model.kind) {
    case 'enum':
      return create('type', `enum (${model.values.map((value) => quoteLiteral(value)).join(', ')})`);
    case 'composite':
      return create(
        'type',
        `(${model.attributes.map(({ name, type }) => `${quoteIdent(name)} ${type}`).join(', ')})`,
      );
    case 'domain': {
      const collate = model.collate === undefined ? '' : ` collate ${qualifiedSql(model.collate)}`;
      const value = domainDefaultSql(model);
      return create(
        'domain',
        `${model.base}${collate}${value === null ? '' : ` default ${value}`}${model.notNull ? ' not null' : ''}`,
      );
    }
  }
}

export function domainDefaultSql(model: DomainModel): string | null {
  return model.default === undefined ? null : defaultSql(model.default, model.base);
}

export type DomainCheck = {
  readonly label: string;
  readonly expression: Expression;
  /** It calls a function of the file. */
  readonly callsOwn: boolean;
};

/** The checks of a domain; none of other types. */
export function domainChecks({ model, normal, functions, name, at }: DesiredType): DomainCheck[] {
  if (model.kind !== 'domain') return [];
  const { checks = [] } = model;
  return checks.map((text, n) => ({
    label: namelessCheckLabel(name, text),
    callsOwn: [...wordsOf(text)].some((word) => functions.has(word)),
    expression: {
      ...expression(text, checks.length > 1 ? `${at}.check[${n}]` : `${at}.check`),
      normal: normal?.kind === 'domain' ? (normal.checks[n] ?? '') : '',
    },
  }));
}

/** Each after those that it names. */
export function inOrderOfUse<T extends { readonly model: TypeModel }>(types: readonly T[]): T[] {
  const pending = new Map(types.map((type) => [type.model.name, type]));
  const ordered: T[] = [];
  const place = (type: T): void => {
    pending.delete(type.model.name);
    for (const word of wordsOf(textOfType(type.model))) {
      const named = pending.get(word);
      if (named) place(named);
    }
    ordered.push(type);
  };
  for (const type of types) if (pending.has(type.model.name)) place(type);
  return ordered;
}

/** Of types in order of use, those that are made of these, or of others that are. `names`: of range types. */
export function typesOf<T extends { readonly model: TypeModel }>(
  names: ReadonlySet<string>,
  types: readonly T[],
): ReadonlySet<T> {
  const known = new Set(names);
  const found = new Set<T>();
  if (known.size === 0) return found;
  for (const type of types) {
    if (![...wordsOf(textOfType(type.model))].some((word) => known.has(word))) continue;
    found.add(type);
    known.add(type.model.name);
  }
  return found;
}

/** What may name other declarations. */
export function textOfType(model: TypeModel): string {
  if (model.kind === 'enum') return '';
  if (model.kind === 'composite') return model.attributes.map(({ type }) => type).join('\n;\n');
  return [model.base, ...(model.checks ?? []), domainDefaultSql(model) ?? ''].join('\n;\n');
}
