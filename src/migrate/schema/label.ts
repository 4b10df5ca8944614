// Labels of constraints, indexes, policies and sequences. They depend only on table and column names, so a file gives
// the same labels on every database. They follow the conventions of PostgreSQL where a convention exists.
import { createHash } from 'node:crypto';

// NAMEDATALEN - 1. The server truncates longer names without an error, which could make two labels equal.
const MAX_BYTES = 63;

export type CheckRole = 'enum' | 'pattern' | 'range' | 'check';

export function primaryKeyLabel(table: string): string {
  return fit(table, 'pkey');
}

export function uniqueLabel(table: string, columns: readonly string[]): string {
  return fit([table, ...columns].join('_'), 'key');
}

export function foreignKeyLabel(table: string, columns: readonly string[]): string {
  return fit([table, ...columns].join('_'), 'fkey');
}

/** `body`: definition of the constraint if it has more than columns. */
export function exclusionLabel(table: string, columns: readonly string[], body: string | null): string {
  return fit([table, ...columns, ...(body === null ? [] : [shortHash(body, 6)])].join('_'), 'excl');
}

export function checkLabel(table: string, column: string, role: CheckRole): string {
  return fit(`${table}_${column}`, role);
}

/** Returns the label of an unnamed check of a table or a domain. */
export function unnamedCheckLabel(owner: string, text: string): string {
  return fit(`${owner}_${shortHash(text, 6)}`, 'check');
}

export function indexLabel(
  table: string,
  columns: readonly string[],
  unique: boolean,
  where: string | null,
  /** Definition of the index if it has more than columns. */
  body: string | null = null,
): string {
  const hashes = [where, body].flatMap((text) => (text === null ? [] : [shortHash(text, 6)]));
  return fit([table, ...columns, ...hashes].join('_'), unique ? 'uidx' : 'idx');
}

export function policyLabel(table: string, number: number, command: string): string {
  return fit(table, `p${number}_${command}`);
}

/** Returns the prefix of the labels of a bucket's policies. */
export function bucketStem(bucket: string): string {
  return `svc_${bucket}`;
}

/** Prefix of the labels of channel policies. */
export const CHANNEL_STEM = 'svc_channels';

/** Prefix of the triggers on `auth.users` that svc creates for `on_new_user`. */
export const NEW_USER_PREFIX = 'svc_new_user_';

export function newUserLabel(table: string): string {
  return fit('svc_new_user', table);
}

/** Returns the label of an unnamed trigger of the file. The label does not start with `svc_`. */
export function triggerLabel(
  table: string,
  timing: string,
  events: readonly string[],
  functionName: string,
): string {
  return fit([table, timing, ...events].join('_'), functionName);
}

export function sequenceLabel(table: string, column: string): string {
  return fit(`${table}_${column}`, 'seq');
}

/** Prefix of the triggers that track references to stored objects. */
export const REFERENCE_PREFIX = 'svc_ref_';

export function referenceTriggerLabels(column: string): { readonly row: string; readonly truncate: string } {
  const stem = `${REFERENCE_PREFIX}${column}`;
  return { row: fit(stem, 'row'), truncate: fit(stem, 'truncate') };
}

/**
 * Returns a label that exists only during a change. Recovery finds these objects by their prefix. `nn`: temporary check
 * for NOT NULL. `n`: shadow column. `ng`: check that the shadow column is complete. `i`: index of the shadow column.
 * `o`: sequence of the old column. `b`: index that replaces an index of the same name.
 */
export function transientLabel(kind: 'nn' | 'n' | 'ng' | 'i' | 'o' | 'b', identity: string): string {
  return `svc_${kind}_${shortHash(identity, 8)}`;
}

/** Returns the temporary name of an enum type that this run replaces. */
export function replacedTypeLabel(oid: string): string {
  return `svc_e_${oid}`;
}

/** Returns whether a printed column type is an enum type that this run replaces. */
export function isReplacedType(type: string): boolean {
  return /(?:^|\.)svc_e_\d+(?:\[\])*$/.test(type);
}

/** Returns text such as `integer → bigint`. The temporary name of a replaced type is not shown. */
export function describeTypeChange(from: string, to: string): string {
  return `${isReplacedType(from) ? 'former type' : from} → ${to}`;
}

/** Returns whether the label is of a column, index or check that an online type change uses until its cutover. */
export function isTransient(label: string): boolean {
  return /^svc_(?:n|ng|i)_[0-9a-f]{8}$/.test(label);
}

/** Returns whether the label is of an index that was built to replace another index. */
export function isShadowLabel(label: string): boolean {
  return /^svc_b_[0-9a-f]{8}$/.test(label);
}

export function shortHash(text: string, length: number): string {
  return createHash('sha256').update(text).digest('hex').slice(0, length);
}

function fit(stem: string, suffix: string): string {
  const full = `${stem}_${suffix}`;
  if (Buffer.byteLength(full) <= MAX_BYTES) return full;
  const tail = `_${shortHash(full, 8)}_${cut(suffix, MAX_BYTES - 20)}`;
  return cut(stem, MAX_BYTES - Buffer.byteLength(tail)) + tail;
}

function cut(text: string, bytes: number): string {
  let kept = '';
  let size = 0;
  for (const character of text) {
    size += Buffer.byteLength(character);
    if (size > bytes) break;
    kept += character;
  }
  return kept;
}
