// What a backup is, in words and for programs.
import { z } from 'zod';
import type { Manifest } from '../../backup/manifest.ts';
import { approximateBytes } from '../../lib/bytes.ts';

export const SUMMARY = z.strictObject({
  id: z.string(),
  taken_at: z.iso.datetime().describe('nothing later is in it'),
  version: z.string().describe('of the svc that made it'),
  postgres: z.int().describe('as server_version_num has it: 180001'),
  engine: z.enum(['pg_dump', 'copy']),
  rows: z.int().nullable().describe('null where it is encrypted'),
  bytes: z.int().describe('of everything but the stored files'),
  files: z.int(),
  file_bytes: z.int(),
  missing: z.array(z.string()).describe('stored files whose bytes were gone'),
  beside: z.array(z.string()).describe('what only pg_dump would have saved'),
  recipients: z.array(z.string()).describe('public keys that it is encrypted to'),
});

export function summaryOf(id: string, manifest: Manifest): z.infer<typeof SUMMARY> {
  const { takenAt, version, postgres, engine, blobs, beside, recipients } = manifest;
  return {
    id,
    taken_at: takenAt,
    version,
    postgres,
    engine,
    rows: rowsOf(manifest),
    bytes: bytesOf(manifest),
    files: blobs.count,
    file_bytes: blobs.bytes,
    missing: blobs.missing,
    beside,
    recipients,
  };
}

export function describe(manifest: Manifest): string {
  const { takenAt, postgres, blobs } = manifest;
  const rows = rowsOf(manifest) ?? 'encrypted';
  return `${takenAt}, PostgreSQL ${Math.floor(postgres / 10_000)}, ${rows} rows (${approximateBytes(bytesOf(manifest))}), ${blobs.count} files (${approximateBytes(blobs.bytes)})`;
}

/** Null where they cannot be read. */
function rowsOf({ rows, recipients }: Manifest): number | null {
  const total = sum(Object.values(rows));
  return recipients.length > 0 && total === 0 ? null : total;
}

const bytesOf = ({ parts }: Manifest): number => sum(Object.values(parts).map(({ bytes }) => bytes));

const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0);
