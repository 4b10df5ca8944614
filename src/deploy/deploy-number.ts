// The number that orders deployments: what the command line says, else the build stamp beside the file, else when a
// remote file was last changed.
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

/** What a start, a reload or a command is allowed, for the file as it is now. */
export function fencePolicy(
  source: Source,
  { deploySeq, allowRollback = false, env }: DeployNumberOptions,
): Omit<FencePolicy, 'replaces'> {
  return {
    deploySeq: deploySeq ?? variableNumber(env) ?? numberOf(source),
    allowRollback,
    allowRollbackTo: rollbackTarget(env),
  };
}

function numberOf({ directory, modifiedAt }: Source): number | null {
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
const SHORTEST_HASH = 6;

function rollbackTarget({ SVC_ALLOW_ROLLBACK: text }: DeployNumberOptions['env']): string | null {
  if (!text) return null;
  if (new RegExp(`^[0-9a-f]{${SHORTEST_HASH},64}$`).test(text)) return text;
  throw new Problem('bad_allow_rollback', 500, `SVC_ALLOW_ROLLBACK is ${JSON.stringify(text)}`, {
    hint: 'It is the hash of the one file that may be applied again, as the message about it and `svc migrate status` show it, for example 3f9a01c2.',
  });
}
