// Constraints of a table: keys over several columns, and constraints that a field cannot express.
import { z } from 'zod';
import { referenceKeys } from './field-keys.ts';
import { flag, sqlExpression, text } from '../kinds.ts';

const columns = (description: string): z.ZodOptional<z.ZodArray<z.ZodString>> =>
  z.array(text('Column name')).min(1, 'must name at least one column').meta({ description }).optional();

const OPERATOR = /^[+\-*/<>=~!@#%^&|`?]+$/;

const exclusionPart = z
  .strictObject({
    column: text('Column name').optional(),
    expression: sqlExpression('SQL expression over the row, instead of a column').optional(),
    with: z
      .string()
      .regex(OPERATOR, 'is not an operator such as = or &&')
      .meta({
        description: 'Operator that compares two rows; it must not be true for all entries',
        examples: ['=', '&&'],
      }),
    opclass: text('Operator class; default: that of the type', 'gist_int4_ops').optional(),
    collate: text('Collation; default: that of the column', 'C').optional(),
  })
  .meta({ description: 'A column or an expression, and the operator that compares two rows' });

export const constraint = z
  .strictObject({
    unique: columns('Columns in which no two rows have equal values'),
    foreign_key: columns('Columns that together refer to a row of another table'),
    exclude: z
      .array(exclusionPart)
      .min(1, 'must name at least one column')
      .meta({
        description:
          'Entries in which no two rows match, such as overlapping bookings of one room. `=` of plain types ' +
          'needs the extension `btree_gist`',
      })
      .optional(),
    using: text('With `exclude`: kind of its index, such as `gist`, `spgist` or `btree`', 'spgist')
      .meta({ default: 'gist' })
      .optional(),
    where: sqlExpression('With `exclude`: SQL condition; only matching rows are compared').optional(),
    check: sqlExpression('SQL condition that every row must satisfy').optional(),
    name: text('Name in the database; default: built from table and columns').optional(),
    references: text(
      'With `foreign_key`: the table, and its columns in the same order',
      'regions(country, code)',
    ).optional(),
    ...referenceKeys,
    on_delete_columns: columns(
      'With `on_delete: set_null` or `set_default`: the columns to set; default: all',
    ),
    match: z
      .enum(['simple', 'full'])
      .meta({
        description:
          'With `foreign_key`: a row with a null in one of the columns has no reference (`simple`), or is ' +
          'rejected unless all are null (`full`)',
        default: 'simple',
      })
      .optional(),
    nulls_not_distinct: flag('With `unique`: two nulls are equal'),
    not_valid: flag('With `check` and `foreign_key`: existing rows are never checked'),
  })
  .meta({ description: 'One of `unique`, `foreign_key`, `exclude` and `check`' })
  .transform(
    ({
      foreign_key: foreignKey,
      on_delete: onDelete,
      on_update: onUpdate,
      on_delete_columns: onDeleteColumns,
      nulls_not_distinct: nullsNotDistinct,
      not_valid: notValid,
      ...same
    }) => ({ ...same, foreignKey, onDelete, onUpdate, onDeleteColumns, nullsNotDistinct, notValid }),
  );

export type RawConstraint = z.infer<typeof constraint>;
