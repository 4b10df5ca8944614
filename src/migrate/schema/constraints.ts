// Constraints of a table, from the configuration to the desired schema.
import type { Constraint } from '../../config/config.ts';
import { toReferenced } from '../../config/schema/tables/reference.ts';
import { quoteIdent } from '../../postgres/sql.ts';
import type { DesiredCheck, DesiredExclusion, DesiredForeignKey, DesiredKey } from './desired.ts';
import { expression } from './expression.ts';
import { exclusionLabel, foreignKeyLabel, namelessCheckLabel, uniqueLabel } from './label.ts';
import type { ConstraintModel, TableModel } from './model.ts';
import { deferrableSql } from './sql/foreign-key-sql.ts';
import { columnsOf, partSql } from './sql/index-sql.ts';
import { wordsOf } from '../../lib/sql/sql-text.ts';

export function toConstraint(constraint: Constraint, at: string): ConstraintModel {
  const { unique, foreignKey, references = '', check = '', name, deferrable } = constraint;
  const said = {
    ...(name === undefined ? {} : { name }),
    ...(deferrable === undefined ? {} : { deferrable }),
    at,
  };
  if (unique)
    return {
      kind: 'unique',
      columns: unique,
      ...(constraint.nullsNotDistinct ? { nullsNotDistinct: true } : {}),
      ...said,
    };
  if (constraint.exclude)
    return {
      kind: 'exclude',
      parts: constraint.exclude.map(
        (part) =>
          Object.fromEntries(Object.entries(part).filter(([, value]) => value !== undefined)) as never,
      ),
      using: constraint.using ?? 'gist',
      ...(constraint.where === undefined ? {} : { where: constraint.where }),
      ...said,
    };
  const notValid = constraint.notValid ? ({ notValid: true } as const) : {};
  if (!foreignKey) return { kind: 'check', sql: check, ...notValid, ...said };
  const { onDelete, onUpdate, onDeleteColumns, match } = constraint;
  return {
    kind: 'foreign_key',
    columns: foreignKey,
    target: toReferenced(references) ?? { schema: '', table: '', columns: [] },
    onDelete,
    ...(onUpdate === 'restrict' ? {} : { onUpdate }),
    ...(onDeleteColumns === undefined ? {} : { onDeleteColumns }),
    ...(match === 'full' ? { matchFull: true } : {}),
    ...notValid,
    ...said,
  };
}

export function uniquesOf({ name: table, constraints = [] }: TableModel): DesiredKey[] {
  return constraints.flatMap((one) =>
    one.kind !== 'unique'
      ? []
      : {
          kind: 'unique',
          columns: one.columns,
          label: one.name ?? uniqueLabel(table, one.columns),
          deferrable: one.deferrable ?? null,
          nullsNotDistinct: one.nullsNotDistinct === true,
          at: one.at,
        },
  );
}

export function foreignKeysOf({ name: table, constraints = [] }: TableModel): DesiredForeignKey[] {
  return constraints.flatMap((one) =>
    one.kind !== 'foreign_key'
      ? []
      : {
          columns: one.columns,
          targetSchema: one.target.schema,
          targetTable: one.target.table,
          targetColumns: one.target.columns,
          onDelete: one.onDelete,
          onUpdate: one.onUpdate ?? 'restrict',
          onDeleteColumns: one.onDeleteColumns ?? null,
          deferrable: one.deferrable ?? null,
          matchFull: one.matchFull === true,
          notValid: one.notValid === true,
          label: one.name ?? foreignKeyLabel(table, one.columns),
          at: one.at,
        },
  );
}

export function exclusionsOf({ name: table, columns, constraints = [] }: TableModel): DesiredExclusion[] {
  return constraints.flatMap((one) => {
    if (one.kind !== 'exclude') return [];
    const parts = one.parts.map((part) => `${partSql(part)} with ${part.with}`);
    const where = one.where === undefined ? '' : ` where (\n${one.where}\n)`;
    const sql = `exclude using ${quoteIdent(one.using)} (${parts.join(', ')})${where}${deferrableSql(one.deferrable ?? null)}`;
    const named = columnsOf(
      { columns: one.parts },
      columns.map(({ name }) => name),
    );
    const words = wordsOf(one.where ?? '');
    const text = one.parts.flatMap(({ expression: part }) => part ?? []).join(' ');
    return {
      label: one.name ?? exclusionLabel(table, named, text === '' && one.where === undefined ? null : sql),
      columns: [...new Set([...named, ...columns.map(({ name }) => name).filter((name) => words.has(name))])],
      sql,
      text: `${text} ${one.where ?? ''}`,
      definition: '',
      describe: `exclude (${one.parts
        .map((part) => `${part.column ?? part.expression} ${part.with}`)
        .join(', ')})`,
      at: one.at,
    };
  });
}

export function checksOf({ name: table, columns, constraints = [] }: TableModel): DesiredCheck[] {
  return constraints.flatMap((one) => {
    if (one.kind !== 'check') return [];
    const words = wordsOf(one.sql);
    return {
      role: 'check',
      column: null,
      columns: columns.map(({ name }) => name).filter((name) => words.has(name)),
      label: one.name ?? namelessCheckLabel(table, one.sql),
      expression: expression(one.sql, `${one.at}.check`),
      notValid: one.notValid === true,
    };
  });
}
