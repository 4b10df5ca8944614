// Columns whose JSON this process can write itself: their text is JSON, or JSON but for quotes and escapes.
import type { FieldOutput } from '../plan/plan.ts';

/** How a column's text becomes JSON outside the database. */
export type TextForm = 'number' | 'boolean' | 'json' | 'text';
export type RowColumn = { readonly name: string; readonly form: TextForm };

const NUMBER_TYPES = new Set(['int2', 'int4', 'int8', 'float4', 'float8', 'numeric']);
const TEXT_TYPES = new Set([
  'text',
  'varchar',
  'bpchar',
  'name',
  'uuid',
  'bytea',
  'interval',
  'time',
  'timetz',
  'inet',
  'cidr',
  'macaddr',
  'money',
  'tsvector',
]);

/** Undefined when only PostgreSQL knows the JSON of a column. */
export function findTextForm({ field, cast, aggregate }: FieldOutput): TextForm | undefined {
  if (aggregate) return aggregate.name === 'count' && aggregate.cast === undefined ? 'number' : undefined;
  if (field === '*' || cast !== undefined || field.path.steps.length > 0) return undefined;
  const type = field.column?.baseType;
  if (type === undefined) return undefined;
  if (NUMBER_TYPES.has(type)) return 'number';
  if (type === 'bool') return 'boolean';
  if (type === 'json' || type === 'jsonb') return 'json';
  const isLabel = Boolean(field.column?.enumLabels) && field.column?.category !== 'A';
  return TEXT_TYPES.has(type) || isLabel ? 'text' : undefined;
}
