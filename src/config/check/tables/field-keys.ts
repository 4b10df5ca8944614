// Generated columns, identity and collations: keys that PostgreSQL would reject in combination with them.
import type { KeyPath } from '../../mistakes/mistake.ts';
import type { RawField } from '../../schema/tables/tables.ts';
import type { CheckContext } from '../context.ts';
import { typeFamily } from './type-family.ts';

export function checkFieldKeys(context: CheckContext, field: RawField, at: KeyPath): void {
  if (field.generated !== undefined) checkGenerated(context, field, at);
  if (field.identity !== undefined) checkIdentity(context, field, at);
  const family = field.type === undefined ? undefined : typeFamily(field.type);
  if (field.collate !== undefined && family !== undefined && family !== 'text' && family !== 'array')
    context.conflict(
      [...at, 'collate'],
      `collate is only valid for text, and ${field.name} has the type ${field.type}`,
      'Remove collate.',
      'key',
    );
}

const INTEGER_TYPE = /^(smallint|int|integer|bigint|int[248])$/i;

function checkIdentity(context: CheckContext, field: RawField, at: KeyPath): void {
  const path = [...at, 'identity'];
  if (field.type !== undefined && !INTEGER_TYPE.test(field.type.trim())) {
    const isSerial = /serial\d?$/i.test(field.type);
    return context.conflict(
      path,
      isSerial
        ? `${field.type} already generates the numbers of the column`
        : `identity is only valid for integers, and ${field.name} has the type ${field.type}`,
      'Use type: bigint, integer or smallint.',
      'key',
    );
  }
  if (field.type === undefined)
    context.conflict(
      path,
      `an identity column needs a type, and ${field.name} has none`,
      'Add type: bigint.',
      'key',
    );
  rejectCombinations(context, field, at, 'identity', ['default', 'generated']);
}

function checkGenerated(context: CheckContext, field: RawField, at: KeyPath): void {
  const path = [...at, 'generated'];
  if (field.type !== undefined && /serial\d?$/i.test(field.type))
    context.conflict(path, `${field.type} already generates values`, 'Use integer or bigint.', 'key');
  rejectCombinations(context, field, at, 'generated', ['default', 'on_update', 'backfill', 'using', 'ref']);
  for (const key of ['on_delete', 'on_update'] as const) {
    const action = field.foreignKey?.[key === 'on_delete' ? 'onDelete' : 'onUpdate'];
    const writes =
      action === 'set_null' || action === 'set_default' || (key === 'on_update' && action === 'cascade');
    if (writes)
      context.conflict(
        [...at, 'foreign_key', key],
        `${action} would write the generated column ${field.name}`,
        `Use ${key === 'on_delete' ? 'cascade or restrict' : 'restrict'}.`,
      );
  }
  if (!field.generated?.virtual) return;
  for (const key of ['primary_key', 'unique', 'foreign_key'])
    if (context.isWritten([...at, key]))
      context.conflict(
        [...at, key],
        `the virtual column ${field.name} is not stored and cannot be indexed`,
        `Remove ${key}, or virtual: true.`,
        'key',
      );
}

function rejectCombinations(
  context: CheckContext,
  field: RawField,
  at: KeyPath,
  source: string,
  keys: readonly string[],
): void {
  for (const key of keys) {
    if (!context.isWritten([...at, key])) continue;
    context.conflict(
      [...at, key],
      `${key} and ${source} exclude each other: both determine the value of ${field.name}`,
      `Remove ${key} or ${source}.`,
      'key',
    );
  }
}
