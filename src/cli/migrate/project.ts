// The project a command works on, with its database open and ready.
import { silentLog } from '../../log/log.ts';
import { type MigrationPolicy, policyOf } from '../../migrate/apply/policy.ts';
import { ownershipTaker } from '../../migrate/apply/take-ownership.ts';
import { type Planned, planMigration } from '../../migrate/commands/plan.ts';
import type { PlanMode } from '../../migrate/make-plan.ts';
import type { MigrateOptions } from '../../migrate/migrate.ts';
import type { DatabaseAddress } from '../../postgres/address/database-address.ts';
import { OwnerDatabase } from '../../postgres/owner-database.ts';
import { failure } from '../exit.ts';
import { loadProject, type Project } from '../project.ts';
import type { Terminal } from '../terminal.ts';
import { withOwner } from './database.ts';
import { MIGRATE_EXIT, refusal } from './exit.ts';
import type { CommonOptions } from './options.ts';

export type Opened = {
  readonly project: Project;
  readonly owner: OwnerDatabase;
  /** The role of SVC_DATABASE_URL. */
  readonly administrator: OwnerDatabase;
  readonly address: DatabaseAddress;
};

export async function openProject(options: CommonOptions, terminal: Terminal): Promise<Project> {
  const { mode = 'development' } = options;
  const how = { ...options, mode, mayBeKept: true, mistakesExit: MIGRATE_EXIT.invalid };
  const project = await loadProject(how, terminal);
  // A pipeline that does not name its mode would take the limits of somebody's laptop.
  if (options.mode === undefined && project.overlay !== undefined)
    terminal.printError(`note: with ${project.overlay}; --mode names another mode`);
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
        const done = await work({ project, owner, administrator, address });
        // The next change is told from what is kept just as well, and keeping takes as long as reading a change.
        if (project.isReadWhole) project.keep();
        return done;
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
  const ownership = ownershipTaker(administrator, policyOf(config.migrations, policy));
  return { owner, config, instance: 'svc migrate', log: silentLog, policy, ownership };
}

/** The plan for the project's file; throws where there is nothing to plan. */
export async function planFile(
  opened: Opened,
  policy: Partial<MigrationPolicy>,
  mode: PlanMode,
): Promise<Extract<Planned, { kind: 'planned' }>> {
  const result = await planMigration(migrateOptions(opened, policy), mode);
  if (result.kind === 'planned') return result;
  throw refusal(result.problems);
}
