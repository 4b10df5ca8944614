// Decodes the messages with relevant contents: rows, column names and errors.
import type { Buffer } from 'node:buffer';
import pg from 'pg';

export function readRow(body: Buffer, start: number): ReadonlyArray<Buffer | null> {
  const count = body.readUInt16BE(start);
  const row: Array<Buffer | null> = [];
  let offset = start + 2;
  for (let index = 0; index < count; index++) {
    const size = body.readInt32BE(offset);
    offset += 4;
    if (size < 0) {
      row.push(null);
      continue;
    }
    row.push(body.subarray(offset, offset + size));
    offset += size;
  }
  return row;
}

export function readColumns(body: Buffer): string[] {
  const count = body.readUInt16BE(0);
  const columns: string[] = [];
  let offset = 2;
  for (let index = 0; index < count; index++) {
    const end = body.indexOf(0, offset);
    columns.push(body.toString('utf8', offset, end));
    // table oid 4, column 2, type oid 4, size 2, modifier 4, format 2
    offset = end + 19;
  }
  return columns;
}

const ERROR_FIELDS = {
  S: 'severity',
  // Always in English; a pooler may omit it.
  V: 'severity',
  C: 'code',
  D: 'detail',
  H: 'hint',
  P: 'position',
  W: 'where',
  s: 'schema',
  t: 'table',
  c: 'column',
  d: 'dataType',
  n: 'constraint',
  R: 'routine',
} as const;

/** ErrorResponse and NoticeResponse, as the same class that `pg` throws elsewhere. */
export function readError(body: Buffer): pg.DatabaseError {
  const fields = new Map<string, string>();
  let offset = 0;
  while (offset < body.length && body[offset] !== 0) {
    const key = String.fromCharCode(body[offset] ?? 0);
    const end = body.indexOf(0, offset + 1);
    fields.set(key, body.toString('utf8', offset + 1, end));
    offset = end + 1;
  }
  const error = new pg.DatabaseError(fields.get('M') ?? 'unknown error', body.length, 'error');
  for (const [key, property] of Object.entries(ERROR_FIELDS)) {
    const value = fields.get(key);
    if (value !== undefined) error[property] = value;
  }
  return error;
}
