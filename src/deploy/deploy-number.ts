// The number that orders deployments: from the command line, else from the build stamp next to the file, else the
// modification time of a remote file.
import { Problem } from '../problem/problem.ts';
import type { Source } from '../config/read/source.ts';
import type { FencePolicy } from '../migrate/state/fence.ts';
import { readStamp } from './build-stamp.ts';

export type DeployNumberOptions = {
  /** `--deploy-seq`. */
  readonly deploySeq?: number | undefined;
  /** `--allow-rollback`. */
  readonly allowRollback?: boolean | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
};

/** Returns the permissions of a start, a reload or a command for the present file. */
export function fencePolicy(
  source: Source,
  { deploySeq, allowRollback = false, env }: DeployNumberOptions,
): Omit<FencePolicy, 'replaces'> {
  return {
    deploySeq: deploySeq ?? variableNumber(env) ?? sourceNumber(source),
    allowRollback,
    allowRollbackTo: rollbackTarget(env),
  };
}

function sourceNumber({ directory, modifiedAt }: Source): number | null {
  if (directory !== undefined) return readStamp(directory)?.sequence ?? null;
  return modifiedAt?.getTime() ?? null;
}

export function parseSequence(text: string): number | undefined {
  return /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

function variableNumber({ SVC_DEPLOY_SEQ: text }: DeployNumberOptions['env']): number | undefined {
  if (!text) return undefined;
  const number = parseSequence(text);
  if (number !== undefined) return number;
  throw new Problem('bad_deploy_seq', 500, `SVC_DEPLOY_SEQ is ${JSON.stringify(text)}`, {
    hint: 'It is a whole number that grows with every deployment.',
  });
}

/** Short enough to type, long enough to fit one file only. */
const MIN_HASH_LENGTH = 6;

function rollbackTarget({ SVC_ALLOW_ROLLBACK: text }: DeployNumberOptions['env']): string | null {
  if (!text) return null;
  if (new RegExp(`^[0-9a-f]{${MIN_HASH_LENGTH},64}$`).test(text)) return text;
  throw new Problem('bad_allow_rollback', 500, `SVC_ALLOW_ROLLBACK is ${JSON.stringify(text)}`, {
    hint:
      'It is the hash of the one file that may be applied again, ' +
      'as the message about it and `svc migrate status` show it, for example 3f9a01c2.',
  });
}
