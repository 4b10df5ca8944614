// Options that several commands share.
import { Option, type Command } from 'commander';
import { fencePolicy } from '../../deploy/deploy-number.ts';
import type { MigrationPolicy } from '../../migrate/apply/policy.ts';
import { parseDeploySeq } from '../environment.ts';
import type { ModeOption } from '../mode-option.ts';
import type { Project } from '../project.ts';

export type CommonOptions = ModeOption & { config?: string };

export type ChangeOptions = CommonOptions & {
  allow?: string[];
  drop?: 'retire' | 'refuse' | 'drop';
  direct?: boolean;
  strictRollout?: boolean;
  allowRollback?: boolean;
  deploySeq?: number;
  lockTimeout?: number;
  lockBudget?: number;
  maxWriteBlock?: number;
  bootBudget?: number;
};

/** Of `plan`, `apply` and `down`. */
export function addChangeOptions(command: Command): Command {
  return command
    .option('--allow <hazard...>', 'accept a hazard: authz_open=<name>, data_loss=<name>, rewrite=<name>')
    .addOption(new Option('--drop <how>', 'what a removal becomes').choices(['retire', 'refuse', 'drop']))
    .option('--direct', 'take the short way also on large tables, under a lock')
    .option('--strict-rollout', 'refuse what may break a replica with the previous file')
    .option('--allow-rollback', 'apply a file that was replaced by a newer one')
    .option(
      '--deploy-seq <n>',
      'number of this deployment; an older one never migrates (default: the stamp of `svc stamp`)',
      parseDeploySeq,
    )
    .option('--lock-timeout <ms>', 'how long one attempt waits for a lock', Number)
    .option('--lock-budget <ms>', 'how long to keep trying', Number)
    .option(
      '--boot-budget <ms>',
      'how long to wait for work that blocks nobody before it goes to the background',
      Number,
    )
    .option('--max-write-block <ms>', 'how long writers may be held before a change goes online', Number);
}

/** Only what was given: anything else is decided by the file. */
export function policyFrom(options: ChangeOptions, project: Project): Partial<MigrationPolicy> {
  const { allow, drop, direct, strictRollout } = options;
  const { lockTimeout, lockBudget, maxWriteBlock, bootBudget } = options;
  return {
    ...(allow && { allow }),
    ...(drop && { drop }),
    ...(direct && { direct }),
    ...(strictRollout && { strictRollout }),
    ...fencePolicy(project.config.source, { ...options, env: project.env }),
    ...(lockTimeout !== undefined && { lockTimeoutMs: lockTimeout }),
    ...(lockBudget !== undefined && { lockBudgetMs: lockBudget }),
    ...(bootBudget !== undefined && { bootBudgetMs: bootBudget }),
    ...(maxWriteBlock !== undefined && { maxWriteBlockMs: maxWriteBlock }),
  };
}
