// Converts declared types to the model and to SQL.
import type { DeclaredType } from '../../config/config.ts';
import { declaredType } from '../../config/schema/declared-type.ts';
import { plainOrQuoted, quoteIdent, quoteLiteral } from '../../postgres/sql.ts';
import { defaultSql, toDefaultModel } from './sql/default-sql.ts';
import type { DesiredType, FunctionNames } from './desired.ts';
import { expression, type Expression } from './expression.ts';
import { qualifiedSql } from './sql/index-sql.ts';
import { unnamedCheckLabel, isReplacedType } from './label.ts';
import { quoteName, type CompositeModel, type DomainModel, type EnumModel, type TypeModel } from './model.ts';
import { sqlWords } from '../../lib/sql/sql-text.ts';

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
 * Returns an expression that converts a column from a replaced enum type to its replacement by the text of the labels.
 * `type` is the printed type of the column. Returns null unless the type is being replaced.
 */
export function conversionByText(column: string, type: string, typeSql: string): string | null {
  if (!isReplacedType(type)) return null;
  const brackets = /(?:\[\])*$/.exec(type)?.[0] ?? '';
  return `${quoteIdent(column)}::text${brackets}::${typeSql}`;
}

/**
 * Returns an expression that converts a text column to a declared enum, or null for other types. PostgreSQL has no
 * implicit cast for it. Values without a label are rejected before anything changes. `enums`: printed names of the enum
 * types.
 */
export function conversionToEnum(
  column: string,
  { from, to }: { readonly from: string; readonly to: string },
  enums: ReadonlySet<string>,
): string | null {
  const brackets = TEXT_TYPE.exec(from)?.[1];
  if (brackets === undefined || !to.endsWith(brackets)) return null;
  if (!enums.has(to.slice(0, to.length - brackets.length))) return null;
  return `${quoteIdent(column)}::text${brackets}::${to}`;
}

const TEXT_TYPE = /^(?:text|character(?: varying)?(?:\(\d+\))?)((?:\[\])*)$/;

/**
 * Returns a function that qualifies the names of declared types. It keeps a SETOF prefix and other types as written.
 */
export function typeNameResolver(types: readonly DeclaredType[]): (written: string) => string {
  if (types.length === 0) return (written) => written;
  const byName = Object.fromEntries(types.map((type) => [type.name, type]));
  return (written) => {
    const setOf = /^\s*setof\s+/i.exec(written)?.[0] ?? '';
    const found = declaredType(written.slice(setOf.length), byName);
    if (found === undefined) return written;
    return `${setOf}${plainOrQuoted(found.type.schema)}.${plainOrQuoted(found.name)}${found.brackets}`;
  };
}

export function toDesiredType(model: TypeModel, functions: FunctionNames): DesiredType {
  const normal = model.kind === 'enum' ? ({ kind: 'enum' } as const) : null;
  return { schema: model.schema, name: model.name, model, normal, functions, at: model.at };
}

/** Returns a CREATE statement. The checks of a domain are added separately, because they may call functions. */
export function createTypeSql({ model }: Pick<DesiredType, 'model'>): string {
  const create = (objectType: string, definition: string): string =>
    `create ${objectType} ${quoteName(model)} as ${definition}`;
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
  /** The check calls a declared function. */
  readonly callsDeclaredFunction: boolean;
};

/** Returns the checks of a domain. Other types have none. */
export function domainChecks({ model, normal, functions, name, at }: DesiredType): DomainCheck[] {
  if (model.kind !== 'domain') return [];
  const { checks = [] } = model;
  return checks.map((text, n) => ({
    label: unnamedCheckLabel(name, text),
    callsDeclaredFunction: [...sqlWords(text)].some((word) => functions.has(word)),
    expression: {
      ...expression(text, checks.length > 1 ? `${at}.check[${n}]` : `${at}.check`),
      normal: normal?.kind === 'domain' ? (normal.checks[n] ?? '') : '',
    },
  }));
}

/** Sorts types so that each follows the types that it names. */
export function sortTypesByUse<T extends { readonly model: TypeModel }>(types: readonly T[]): T[] {
  const pending = new Map(types.map((type) => [type.model.name, type]));
  const ordered: T[] = [];
  const place = (type: T): void => {
    pending.delete(type.model.name);
    for (const word of sqlWords(typeText(type.model))) {
      const named = pending.get(word);
      if (named) place(named);
    }
    ordered.push(type);
  };
  for (const type of types) if (pending.has(type.model.name)) place(type);
  return ordered;
}

/** Returns the types that use one of the names, directly or through other types. `types` are sorted by use. */
export function findTypesUsing<T extends { readonly model: TypeModel }>(
  names: ReadonlySet<string>,
  types: readonly T[],
): ReadonlySet<T> {
  const known = new Set(names);
  const found = new Set<T>();
  if (known.size === 0) return found;
  for (const type of types) {
    if (![...sqlWords(typeText(type.model))].some((word) => known.has(word))) continue;
    found.add(type);
    known.add(type.model.name);
  }
  return found;
}

/** Returns the text of a type in which names of other declarations can occur. */
export function typeText(model: TypeModel): string {
  if (model.kind === 'enum') return '';
  if (model.kind === 'composite') return model.attributes.map(({ type }) => type).join('\n;\n');
  return [model.base, ...(model.checks ?? []), domainDefaultSql(model) ?? ''].join('\n;\n');
}
