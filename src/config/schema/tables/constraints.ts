// Constraints of a table: keys over several columns, and what a field cannot say of its own.
import { z } from 'zod';
import { referenceKeys } from './field-keys.ts';
import { flag, sqlExpression, text } from '../kinds.ts';

const columns = (description: string): z.ZodOptional<z.ZodArray<z.ZodString>> =>
  z.array(text('Column name')).min(1, 'must name at least one column').meta({ description }).optional();

const OPERATOR = /^[+\-*/<>=~!@#%^&|`?]+$/;

const exclusionPart = z
  .strictObject({
    column: text('Column name').optional(),
    expression: sqlExpression('SQL expression over the row, in place of a column').optional(),
    with: z
      .string()
      .regex(OPERATOR, 'is not an operator such as = or &&')
      .meta({
        description: 'Operator: no two rows for which it holds, for all entries at once',
        examples: ['=', '&&'],
      }),
    opclass: text('Operator class; that of the type when absent', 'gist_int4_ops').optional(),
    collate: text('Collation; that of the column when absent', 'C').optional(),
  })
  .meta({ description: 'A column or an expression, and what two rows are compared with' });

export const constraint = z
  .strictObject({
    unique: columns('No two rows with equal values in these columns'),
    foreign_key: columns('These columns together refer to a row of another table'),
    exclude: z
      .array(exclusionPart)
      .min(1, 'must name at least one column')
      .meta({
        description:
          'No two rows that agree in all of these: bookings of one room that overlap. `=` of plain types needs the extension `btree_gist`',
      })
      .optional(),
    using: text('With `exclude`: kind of its index, such as `gist`, `spgist` or `btree`', 'spgist')
      .meta({ default: 'gist' })
      .optional(),
    where: sqlExpression('With `exclude`: only rows for which this holds').optional(),
    check: sqlExpression('SQL condition that every row meets').optional(),
    name: text('Label in the database; made from table and columns when absent').optional(),
    references: text(
      'With `foreign_key`: the table, and its columns in the same order',
      'regions(country, code)',
    ).optional(),
    ...referenceKeys,
    on_delete_columns: columns(
      'With `on_delete: set_null` or `set_default`: only these of the columns; all when absent',
    ),
    match: z
      .enum(['simple', 'full'])
      .meta({
        description:
          'With `foreign_key`: a row with a null in one of the columns refers to nothing (`simple`), or is refused unless all are null (`full`)',
        default: 'simple',
      })
      .optional(),
    nulls_not_distinct: flag('With `unique`: two nulls are equal'),
    not_valid: flag('With `check` and `foreign_key`: rows that were there before are never checked'),
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
