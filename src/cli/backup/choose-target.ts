// Chooses the target of a backup command.
import { resolve } from 'node:path';
import { openTarget, type Target } from '../../backup/target/target.ts';
import type { Environment } from '../environment.ts';
import { EXIT, failure } from '../exit.ts';

export async function openBackupTarget({ to }: { readonly to?: string }, env: Environment): Promise<Target> {
  const named = to ?? env['SVC_BACKUP_TARGET'];
  if (named === undefined || named === '')
    throw failure(
      EXIT.misuse,
      'the backup target is missing',
      'Use --to <folder> or --to s3://bucket/prefix, or set SVC_BACKUP_TARGET.',
    );
  return await openTarget(/^\w+:\/\//.test(named) ? named : resolve(named), env);
}
