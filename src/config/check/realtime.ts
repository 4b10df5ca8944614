// Channels, and tables with published changes.
import type { KeyPath } from '../mistakes/mistake.ts';
import type { RawTable } from '../schema/tables/tables.ts';
import type { CheckContext } from './context.ts';
import { checkPolicies } from './tables/policies.ts';

/** Columns of `realtime.messages` that policies can use. */
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
    const unknown = policy.operations.filter((operation) => operation !== 'select' && operation !== 'insert');
    if (unknown.length === 0) return;
    context.conflict(
      path,
      `channels support select (receive) and insert (send), not ${unknown.join(' and ')}`,
      'Write operations: [select, insert], or one of the two.',
    );
  });
  checkPolicies(context, ['realtime', 'rls'], rls, COLUMNS);
  if (privateOnly && rls.length === 0 && !context.broken.touches(['realtime', 'rls'])) {
    context.report({
      code: 'conflict',
      path: ['realtime', 'private_only'],
      message: 'private_only is set, and no policy admits any client to a private channel',
      hint: 'Add policies under realtime.rls. Until then only clients with the secret key can use channels.',
      severity: 'warning',
      part: 'key',
    });
  }
}

/** Checks a table with `realtime`. */
export function checkPublished(context: CheckContext, path: KeyPath, table: RawTable): void {
  if (!table.realtime) return;
  const at: KeyPath = [...path, 'realtime'];
  const name = String(path[1]);
  if (!table.fields.some(({ primaryKey }) => primaryKey) && !context.broken.touches([...path, 'fields'])) {
    context.conflict(
      at,
      `the table ${name} has no primary key, and PostgreSQL rejects updates and deletes of such a published table`,
      'Add primary_key: true to a column.',
      'key',
    );
  }
  if (table.rls === undefined && !context.broken.covers([...path, 'rls'])) {
    context.report({
      code: 'open-table',
      path: at,
      message: `the table ${name} has no rls key, so every client with a key receives its changes`,
      severity: context.options.strict ? 'error' : 'warning',
      hint: 'Add policies under rls:, or write rls: false to leave it open on purpose.',
      part: 'key',
    });
  }
  if (table.rls === false && context.isWritten([...at, 'deletes'])) {
    context.conflict(
      [...at, 'deletes'],
      'without row-level security every client can see deleted rows, so deletes has no effect',
      'Remove deletes.',
      'key',
    );
  }
}
