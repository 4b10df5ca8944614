// Labels of constraints, indexes, policies and sequences: a pure function of table and column names, so the same
// file gives the same labels on every database. They follow PostgreSQL's conventions where it has one.
import { createHash } from 'node:crypto';

// NAMEDATALEN - 1. The server truncates longer names silently, which could make two of them equal.
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

/** `body`: what it is besides its columns. */
export function exclusionLabel(table: string, columns: readonly string[], body: string | null): string {
  return fit([table, ...columns, ...(body === null ? [] : [shortHash(body, 6)])].join('_'), 'excl');
}

export function checkLabel(table: string, column: string, role: CheckRole): string {
  return fit(`${table}_${column}`, role);
}

/** Of a check of a table or a domain that has no name. */
export function namelessCheckLabel(of: string, text: string): string {
  return fit(`${of}_${shortHash(text, 6)}`, 'check');
}

export function indexLabel(
  table: string,
  columns: readonly string[],
  unique: boolean,
  where: string | null,
  /** What it is besides its columns. */
  body: string | null = null,
): string {
  const more = [where, body].flatMap((text) => (text === null ? [] : [shortHash(text, 6)]));
  return fit([table, ...columns, ...more].join('_'), unique ? 'uidx' : 'idx');
}

export function policyLabel(table: string, number: number, command: string): string {
  return fit(table, `p${number}_${command}`);
}

/** What labels of a bucket's policies begin with. */
export function bucketStem(bucket: string): string {
  return `svc_${bucket}`;
}

/** The same of policies of channels. */
export const CHANNEL_STEM = 'svc_channels';

/** All triggers on `auth.users` with this prefix are svc's. */
export const NEW_USER_PREFIX = 'svc_new_user_';

export function newUserLabel(table: string): string {
  return fit('svc_new_user', table);
}

/** Not `svc_`: a trigger of the file. */
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

/** Of triggers that follow references to stored objects. */
export const REFERENCE_PREFIX = 'svc_ref_';

export function referenceTriggerLabels(column: string): { readonly row: string; readonly truncate: string } {
  const stem = `${REFERENCE_PREFIX}${column}`;
  return { row: fit(stem, 'row'), truncate: fit(stem, 'truncate') };
}

/**
 * Labels that exist only during a change; recovery finds them by their prefix. `nn`: the guard of a NOT NULL. `n`, `ng`,
 * `i`, `o`: a shadow column, the proof that it is complete, its indexes, the sequence of the old column.
 * `b`: an index that is built beside the one whose name it gets.
 */
export function transientLabel(kind: 'nn' | 'x' | 'n' | 'ng' | 'i' | 'o' | 'b', identity: string): string {
  return `svc_${kind}_${shortHash(identity, 8)}`;
}

/** A type whose columns get the one that has its name now. */
export function replacedTypeLabel(oid: string): string {
  return `svc_e_${oid}`;
}

/** As a column's type is printed. */
export function isReplacedType(type: string): boolean {
  return /(?:^|\.)svc_e_\d+(?:\[\])*$/.test(type);
}

/** A column, index or check that an online type change has until its cutover. */
export function isTransient(label: string): boolean {
  return /^svc_(?:n|ng|i)_[0-9a-f]{8}$/.test(label);
}

/** An index that gets the name of the one it replaces. */
export function isBuiltBeside(label: string): boolean {
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
