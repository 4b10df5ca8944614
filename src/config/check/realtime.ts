// Channels, and the tables that tell of their changes.
import type { KeyPath } from '../mistakes/mistake.ts';
import type { RawTable } from '../schema/tables/tables.ts';
import type { CheckContext } from './context.ts';
import { checkPolicies } from './tables/policies.ts';

/** Columns of `realtime.messages` that policies see. */
const COLUMNS: ReadonlyMap<string, string> = new Map([
  ['topic', 'text'],
  ['extension', 'text'],
  ['event', 'text'],
  ['payload', 'jsonb'],
  ['private', 'boolean'],
]);

export function checkRealtime(context: CheckContext): void {
  const { rls, privateOnly } = context.file.realtime;
  rls.forEach((policy, index) => {
    const path: KeyPath = ['realtime', 'rls', index, 'operations'];
    const unknown = policy.operations.filter((one) => one !== 'select' && one !== 'insert');
    if (unknown.length === 0) return;
    context.conflict(
      path,
      `a channel knows select (receive) and insert (send), not ${unknown.join(' and ')}`,
      'Write operations: [select, insert], or one of the two.',
    );
  });
  checkPolicies(context, ['realtime', 'rls'], rls, COLUMNS);
  if (privateOnly && rls.length === 0 && !context.broken.touches(['realtime', 'rls'])) {
    context.report({
      code: 'conflict',
      path: ['realtime', 'private_only'],
      message: 'only private channels are allowed, and no policy lets anybody into one',
      hint: 'Add policies under realtime.rls; until then only the secret key may use channels.',
      severity: 'warning',
      part: 'key',
    });
  }
}

/** A table that tells of its changes. */
export function checkPublished(context: CheckContext, path: KeyPath, table: RawTable): void {
  if (!table.realtime) return;
  const at: KeyPath = [...path, 'realtime'];
  const name = String(path[1]);
  if (!table.fields.some(({ primaryKey }) => primaryKey) && !context.broken.touches([...path, 'fields'])) {
    context.conflict(
      at,
      `the table ${name} has no primary key: PostgreSQL would refuse updates and deletes of a published table without one`,
      'Add primary_key: true to a column.',
      'key',
    );
  }
  if (table.rls === undefined && !context.broken.covers([...path, 'rls'])) {
    context.report({
      code: 'open-table',
      path: at,
      message: `the table ${name} has no rls key, and its changes go to everybody with a key`,
      severity: context.options.strict ? 'error' : 'warning',
      hint: 'Add policies under rls:, or write rls: false to leave it open on purpose.',
      part: 'key',
    });
  }
  if (table.rls === false && context.isWritten([...at, 'deletes'])) {
    context.conflict(
      [...at, 'deletes'],
      'without row-level security everybody may see deleted rows, so there is nothing to hide',
      'Remove deletes.',
      'key',
    );
  }
}
