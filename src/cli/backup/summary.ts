// Describes a backup as text and as JSON.
import { z } from 'zod';
import type { Manifest } from '../../backup/manifest.ts';
import { approximateBytes } from '../../lib/bytes.ts';

export const SUMMARY = z.strictObject({
  id: z.string(),
  taken_at: z.iso.datetime().describe('time of the snapshot'),
  version: z.string().describe('version of svc that created it'),
  postgres: z.int().describe('server_version_num, for example 180001'),
  engine: z.enum(['pg_dump', 'copy']),
  rows: z.int().nullable().describe('null if the backup is encrypted'),
  bytes: z.int().describe('size without the stored files'),
  files: z.int(),
  file_bytes: z.int(),
  missing: z.array(z.string()).describe('stored files whose bytes were missing'),
  beside: z.array(z.string()).describe('objects that only pg_dump can save'),
  recipients: z.array(z.string()).describe('public keys that the backup is encrypted for'),
});

export function summarize(id: string, manifest: Manifest): z.infer<typeof SUMMARY> {
  const { takenAt, version, postgres, engine, blobs, beside, recipients } = manifest;
  return {
    id,
    taken_at: takenAt,
    version,
    postgres,
    engine,
    rows: countRows(manifest),
    bytes: countBytes(manifest),
    files: blobs.count,
    file_bytes: blobs.bytes,
    missing: blobs.missing,
    beside,
    recipients,
  };
}

export function describe(manifest: Manifest): string {
  const { takenAt, postgres, blobs } = manifest;
  const rows = countRows(manifest) ?? 'encrypted';
  return (
    `${takenAt}, PostgreSQL ${Math.floor(postgres / 10_000)}, ` +
    `${rows} rows (${approximateBytes(countBytes(manifest))}), ` +
    `${blobs.count} files (${approximateBytes(blobs.bytes)})`
  );
}

/** Returns the number of rows, or null if it is encrypted. */
function countRows({ rows, recipients }: Manifest): number | null {
  const total = sum(Object.values(rows));
  return recipients.length > 0 && total === 0 ? null : total;
}

const countBytes = ({ parts }: Manifest): number => sum(Object.values(parts).map(({ bytes }) => bytes));

const sum = (numbers: readonly number[]): number => numbers.reduce((total, value) => total + value, 0);
