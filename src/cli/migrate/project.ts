// Opens the project of a command with its provisioned database.
import { silentLog } from '../../log/log.ts';
import { type MigrationPolicy, migrationPolicy } from '../../migrate/apply/policy.ts';
import { ownershipTaker } from '../../migrate/apply/transfer-ownership.ts';
import { type Planned, planMigration } from '../../migrate/commands/plan.ts';
import type { PlanMode } from '../../migrate/make-plan.ts';
import type { MigrateOptions } from '../../migrate/migrate.ts';
import type { DatabaseAddress } from '../../postgres/address/database-address.ts';
import { OwnerDatabase } from '../../postgres/owner-database.ts';
import { failure } from '../exit.ts';
import { loadProject, type Project } from '../project/project.ts';
import type { Terminal } from '../terminal.ts';
import { withOwner } from './database.ts';
import { MIGRATE_EXIT, refusal } from './exit.ts';
import type { CommonOptions } from './options.ts';

export type Opened = {
  readonly project: Project;
  readonly owner: OwnerDatabase;
  /** Connections as the role of SVC_DATABASE_URL. */
  readonly administrator: OwnerDatabase;
  readonly address: DatabaseAddress;
};

export async function openProject(options: CommonOptions, terminal: Terminal): Promise<Project> {
  const { mode = 'development' } = options;
  const how = { ...options, mode, mistakesExit: MIGRATE_EXIT.invalid };
  const project = await loadProject(how, terminal);
  // A pipeline without --mode would silently use the overlay of a developer's machine, so the overlay is
  // printed.
  if (options.mode === undefined && project.overlay !== undefined)
    terminal.printError(`note: with ${project.overlay}; use --mode to choose another mode`);
  return project;
}

export async function withDatabase<T>(
  options: CommonOptions,
  terminal: Terminal,
  work: (opened: Opened) => Promise<T>,
): Promise<T> {
  const project = await openProject(options, terminal);
  return await withOwner(
    project.env,
    project.directory,
    {
      applicationName: 'svc-migrate',
      max: 3,
      unready: (problem) =>
        problem.code === 'database_is_newer'
          ? problem
          : failure(MIGRATE_EXIT.unreachable, problem.message, problem.hint),
    },
    async (owner, address) => {
      const administrator = new OwnerDatabase({
        address,
        applicationName: 'svc-migrate',
        max: 1,
        idleTimeoutMs: 5_000,
      });
      try {
        return await work({ project, owner, administrator, address });
      } finally {
        await administrator.close();
      }
    },
  );
}

export function migrateOptions(
  { project, owner, administrator }: Opened,
  policy: Partial<MigrationPolicy>,
): MigrateOptions {
  const { config } = project;
  const ownership = ownershipTaker(administrator, migrationPolicy(config.migrations, policy));
  return { owner, config, instance: 'svc migrate', log: silentLog, policy, ownership };
}

/** Returns the plan for the project's file. Throws if the plan is refused. */
export async function planFile(
  opened: Opened,
  policy: Partial<MigrationPolicy>,
  { mode, rows }: { readonly mode: PlanMode; readonly rows?: 'all' | 'none' | undefined },
): Promise<Extract<Planned, { kind: 'planned' }>> {
  const result = await planMigration({ ...migrateOptions(opened, policy), rows }, mode);
  if (result.kind === 'planned') return result;
  throw refusal(result.problems);
}
