// Converts table constraints from the configuration to the model, and from the model to the desired schema.
import type { Constraint } from '../../config/config.ts';
import { toReferenced } from '../../config/schema/tables/reference.ts';
import { quoteIdent } from '../../postgres/sql.ts';
import type { DesiredCheck, DesiredExclusion, DesiredForeignKey, DesiredKey } from './desired.ts';
import { expression } from './expression.ts';
import { exclusionLabel, foreignKeyLabel, unnamedCheckLabel, uniqueLabel } from './label.ts';
import type { ConstraintModel, TableModel } from './model.ts';
import { deferrableSql } from './sql/foreign-key-sql.ts';
import { indexColumns, partSql } from './sql/index-sql.ts';
import { sqlWords } from '../../lib/sql/sql-text.ts';

export function toConstraint(constraint: Constraint, at: string): ConstraintModel {
  const { unique, foreignKey, references = '', check = '', name, deferrable } = constraint;
  const common = {
    ...(name === undefined ? {} : { name }),
    ...(deferrable === undefined ? {} : { deferrable }),
    at,
  };
  if (unique)
    return {
      kind: 'unique',
      columns: unique,
      ...(constraint.nullsNotDistinct ? { nullsNotDistinct: true } : {}),
      ...common,
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
      ...common,
    };
  const notValid = constraint.notValid ? ({ notValid: true } as const) : {};
  if (!foreignKey) return { kind: 'check', sql: check, ...notValid, ...common };
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
    ...common,
  };
}

export function tableUniqueKeys({ name: table, constraints = [] }: TableModel): DesiredKey[] {
  return constraints.flatMap((constraint) =>
    constraint.kind !== 'unique'
      ? []
      : {
          kind: 'unique',
          columns: constraint.columns,
          label: constraint.name ?? uniqueLabel(table, constraint.columns),
          deferrable: constraint.deferrable ?? null,
          nullsNotDistinct: constraint.nullsNotDistinct === true,
          at: constraint.at,
        },
  );
}

export function tableForeignKeys({ name: table, constraints = [] }: TableModel): DesiredForeignKey[] {
  return constraints.flatMap((constraint) =>
    constraint.kind !== 'foreign_key'
      ? []
      : {
          columns: constraint.columns,
          targetSchema: constraint.target.schema,
          targetTable: constraint.target.table,
          targetColumns: constraint.target.columns,
          onDelete: constraint.onDelete,
          onUpdate: constraint.onUpdate ?? 'restrict',
          onDeleteColumns: constraint.onDeleteColumns ?? null,
          deferrable: constraint.deferrable ?? null,
          matchFull: constraint.matchFull === true,
          notValid: constraint.notValid === true,
          label: constraint.name ?? foreignKeyLabel(table, constraint.columns),
          at: constraint.at,
        },
  );
}

export function tableExclusions({ name: table, columns, constraints = [] }: TableModel): DesiredExclusion[] {
  return constraints.flatMap((constraint) => {
    if (constraint.kind !== 'exclude') return [];
    const parts = constraint.parts.map((part) => `${partSql(part)} with ${part.with}`);
    const where = constraint.where === undefined ? '' : ` where (\n${constraint.where}\n)`;
    const sql =
      `exclude using ${quoteIdent(constraint.using)} ` +
      `(${parts.join(', ')})${where}${deferrableSql(constraint.deferrable ?? null)}`;
    const named = indexColumns(
      { columns: constraint.parts },
      columns.map(({ name }) => name),
    );
    const words = sqlWords(constraint.where ?? '');
    const text = constraint.parts.flatMap(({ expression: part }) => part ?? []).join(' ');
    return {
      label:
        constraint.name ??
        exclusionLabel(table, named, text === '' && constraint.where === undefined ? null : sql),
      columns: [...new Set([...named, ...columns.map(({ name }) => name).filter((name) => words.has(name))])],
      sql,
      text: `${text} ${constraint.where ?? ''}`,
      definition: '',
      describe: `exclude (${constraint.parts
        .map((part) => `${part.column ?? part.expression} ${part.with}`)
        .join(', ')})`,
      at: constraint.at,
    };
  });
}

export function tableChecks({ name: table, columns, constraints = [] }: TableModel): DesiredCheck[] {
  return constraints.flatMap((constraint) => {
    if (constraint.kind !== 'check') return [];
    const words = sqlWords(constraint.sql);
    return {
      role: 'check',
      column: null,
      columns: columns.map(({ name }) => name).filter((name) => words.has(name)),
      label: constraint.name ?? unnamedCheckLabel(table, constraint.sql),
      expression: expression(constraint.sql, `${constraint.at}.check`),
      notValid: constraint.notValid === true,
    };
  });
}
