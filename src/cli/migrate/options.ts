// Options that several commands share.
import { Option, type Command } from 'commander';
import { fencePolicy } from '../../deploy/deploy-number.ts';
import type { MigrationPolicy } from '../../migrate/apply/policy.ts';
import { parseDeploySeq } from '../environment.ts';
import type { ModeOption } from '../project/mode-option.ts';
import type { Project } from '../project/project.ts';

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

/** Adds the options of `plan`, `apply` and `down`. */
export function addChangeOptions(command: Command): Command {
  return command
    .option('--allow <hazard...>', 'accept a hazard: authz_open=<name>, data_loss=<name>, rewrite=<name>')
    .addOption(new Option('--drop <how>', 'how to handle removals').choices(['retire', 'refuse', 'drop']))
    .option('--direct', 'change large tables directly, under a lock')
    .option('--strict-rollout', 'reject changes that may break an instance with the previous file')
    .option('--allow-rollback', 'apply a file although a newer one has replaced it')
    .option(
      '--deploy-seq <n>',
      'number of this deployment; an older deployment never migrates (default: the stamp of `svc stamp`)',
      parseDeploySeq,
    )
    .option('--lock-timeout <ms>', 'lock timeout of one attempt', Number)
    .option('--lock-budget <ms>', 'total time for attempts to get a lock', Number)
    .option(
      '--boot-budget <ms>',
      'time to wait for non-blocking work before it continues in the background',
      Number,
    )
    .option('--max-write-block <ms>', 'maximum time to block writers; slower changes run online', Number);
}

/** Returns only the given options. The file decides the others. */
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
