// Which place for backups a command is about.
import { resolve } from 'node:path';
import { openTarget, type Target } from '../../backup/target/target.ts';
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
