// A column as CREATE TABLE and ADD COLUMN take it.
import type { DesiredColumn } from '../desired.ts';
import type { IdentityKind } from '../model.ts';
import type { Generated } from '../relation.ts';

/** Its type, with the collation. */
export function typeOf({ typeSql, collateSql }: Pick<DesiredColumn, 'typeSql' | 'collateSql'>): string {
  return `${typeSql}${collateSql}`;
}

/** The type, and where its values come from: a sequence of its own, or an expression. Not its default. */
export function definitionOf(column: DesiredColumn): string {
  const { identity, type } = column.model;
  if (identity !== undefined) return `${typeOf(column)} ${identitySql(identity)}`;
  // `serial` and its like make the sequence, too.
  if (column.serial) return type ?? column.typeSql;
  return `${typeOf(column)}${generatedSql(column)}`;
}

export function identitySql(identity: IdentityKind): string {
  return `generated ${identity === 'always' ? 'always' : 'by default'} as identity`;
}

/** ` generated always as (…) stored`, or nothing. */
export function generatedSql(column: {
  readonly generated: Generated | null;
  readonly default: { readonly sql: string } | null;
}): string {
  if (column.generated === null || column.default === null) return '';
  return ` generated always as (\n${column.default.sql}\n) ${column.generated}`;
}
