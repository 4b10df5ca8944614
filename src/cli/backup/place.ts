// Which place for backups a command is about, and what a backup is in words.
import { resolve } from 'node:path';
import type { Manifest } from '../../backup/manifest.ts';
import { openTarget, type Target } from '../../backup/target/target.ts';
import { approximateBytes } from '../../lib/bytes.ts';
import type { Environment } from '../environment.ts';
import { EXIT, failure } from '../exit.ts';

export async function targetOf({ to }: { readonly to?: string }, env: Environment): Promise<Target> {
  const named = to ?? env['SVC_BACKUP_TARGET'];
  if (named === undefined || named === '')
    throw failure(
      EXIT.misuse,
      'no place for backups is named',
      'Say --to <folder> or --to s3://bucket/prefix, or set SVC_BACKUP_TARGET.',
    );
  return await openTarget(/^\w+:\/\//.test(named) ? named : resolve(named), env);
}

export function describe({ takenAt, postgres, rows, blobs, parts, recipients }: Manifest): string {
  const total = Object.values(rows).reduce((sum, one) => sum + one, 0);
  const bytes = Object.values(parts).reduce((sum, one) => sum + one.bytes, 0);
  const said = recipients.length > 0 && total === 0 ? 'encrypted rows' : `${total} rows`;
  return `${takenAt}, PostgreSQL ${Math.floor(postgres / 10_000)}, ${said} (${approximateBytes(bytes)}), ${blobs.count} files (${approximateBytes(blobs.bytes)})`;
}
