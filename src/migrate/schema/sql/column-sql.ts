// Column definitions for CREATE TABLE and ADD COLUMN.
import type { DesiredColumn } from '../desired.ts';
import type { IdentityKind } from '../model.ts';
import type { Generated } from '../relation.ts';

/** Returns the type with its collation. */
export function columnTypeSql({
  typeSql,
  collateSql,
}: Pick<DesiredColumn, 'typeSql' | 'collateSql'>): string {
  return `${typeSql}${collateSql}`;
}

/** Returns the type with its identity, serial or generation clause, without the default. */
export function columnDefinitionSql(column: DesiredColumn): string {
  const { identity, type } = column.model;
  if (identity !== undefined) return `${columnTypeSql(column)} ${identitySql(identity)}`;
  // `serial` types also create the sequence.
  if (column.serial) return type ?? column.typeSql;
  return `${columnTypeSql(column)}${generatedSql(column)}`;
}

export function identitySql(identity: IdentityKind): string {
  return `generated ${identity === 'always' ? 'always' : 'by default'} as identity`;
}

/** Returns ` generated always as (…) stored`, or an empty string. */
export function generatedSql(column: {
  readonly generated: Generated | null;
  readonly default: { readonly sql: string } | null;
}): string {
  if (column.generated === null || column.default === null) return '';
  return ` generated always as (\n${column.default.sql}\n) ${column.generated}`;
}
