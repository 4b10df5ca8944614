// Generated columns, identity and collations: what PostgreSQL would refuse beside them.
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
      `collate is for text, and ${field.name} holds ${field.type}`,
      'Remove collate.',
      'key',
    );
}

const ON_INTEGERS = /^(smallint|int|integer|bigint|int[248])$/i;

function checkIdentity(context: CheckContext, field: RawField, at: KeyPath): void {
  const path = [...at, 'identity'];
  if (field.type !== undefined && !ON_INTEGERS.test(field.type.trim())) {
    const isSerial = /serial\d?$/i.test(field.type);
    return context.conflict(
      path,
      isSerial
        ? `${field.type} numbers the column already`
        : `only whole numbers are counted, and ${field.name} holds ${field.type}`,
      'Use type: bigint, integer or smallint.',
      'key',
    );
  }
  if (field.type === undefined)
    context.conflict(path, `${field.name} has no type of its own`, 'Add type: bigint.', 'key');
  refuseBeside(context, field, at, 'identity', ['default', 'generated']);
}

function checkGenerated(context: CheckContext, field: RawField, at: KeyPath): void {
  const path = [...at, 'generated'];
  if (field.type !== undefined && /serial\d?$/i.test(field.type))
    context.conflict(path, `${field.type} brings its own values`, 'Use integer or bigint.', 'key');
  refuseBeside(context, field, at, 'generated', ['default', 'on_update', 'backfill', 'using', 'ref']);
  for (const key of ['on_delete', 'on_update'] as const) {
    const action = field.foreignKey?.[key === 'on_delete' ? 'onDelete' : 'onUpdate'];
    const writes =
      action === 'set_null' || action === 'set_default' || (key === 'on_update' && action === 'cascade');
    if (writes)
      context.conflict(
        [...at, 'foreign_key', key],
        `${action} would write ${field.name}, which is generated`,
        `Use ${key === 'on_delete' ? 'cascade or restrict' : 'restrict'}.`,
      );
  }
  if (!field.generated?.virtual) return;
  for (const key of ['primary_key', 'unique', 'foreign_key'])
    if (context.isWritten([...at, key]))
      context.conflict(
        [...at, key],
        `${field.name} is virtual: no index can hold what is not stored`,
        `Remove ${key}, or virtual: true.`,
        'key',
      );
}

function refuseBeside(
  context: CheckContext,
  field: RawField,
  at: KeyPath,
  what: string,
  keys: readonly string[],
): void {
  for (const key of keys) {
    if (!context.isWritten([...at, key])) continue;
    context.conflict(
      [...at, key],
      `${key} and ${what} exclude each other: both say where the value of ${field.name} comes from`,
      `Remove ${key}, or ${what}.`,
      'key',
    );
  }
}
