// The schema in a backup of rows: the model of the last migration. A restore would lack all other objects of the
// database, so the backup lists them.
import type { Config } from '../../config/config.ts';
import { silentLog } from '../../log/log.ts';
import { planModel } from '../../migrate/commands/plan.ts';
import { readRetired } from '../../migrate/commands/prune.ts';
import { stepLine } from '../../migrate/commands/render.ts';
import { renderProblems } from '../../migrate/problem.ts';
import type { SchemaModel } from '../../migrate/schema/model.ts';
import { readRun } from '../../migrate/state/history.ts';
import { readUnmanagedObjects } from '../../migrate/state/unmanaged.ts';
import type { OwnerDatabase, Queryable } from '../../postgres/owner-database.ts';
import { Problem } from '../../problem/problem.ts';

export type SavedSchema = {
  /** Id of the migration run that produced the schema. */
  readonly run: string;
  readonly model: SchemaModel;
  /** Descriptions of database objects that the model does not contain. */
  readonly beside: readonly string[];
};

export async function readSchema(owner: OwnerDatabase, config: Config): Promise<SavedSchema> {
  const run = await owner.session((session) => readRun(session));
  if (run === null)
    throw new Problem('nothing_applied', 500, 'No svc.yaml has been applied to this database yet', {
      hint: 'Start the service, or run svc migrate apply.',
    });
  const policy = { allow: ['authz_open'], allowRollback: true };
  const options = { owner, config, instance: 'svc backup', log: silentLog, policy };
  const planned = await planModel(run.model, () => null, options);
  if (planned.kind === 'refused')
    throw new Problem('schema_unknown', 500, 'The database cannot be compared with its last migration', {
      details: renderProblems(planned.problems).join('\n'),
    });
  if (planned.state?.complete !== true)
    throw new Problem('migration_under_way', 500, 'Long steps of a migration are under way', {
      hint: 'Wait until svc migrate status names none.',
    });
  const { steps, unmanaged, foreign, schemas } = planned.plan;
  const [objects, retired] = await owner.session(
    async (session) =>
      [
        await readUnmanagedObjects(session, run.model, schemas),
        (await readRetired(session)).filter(({ kind }) => kind !== 'extension'),
      ] as const,
  );
  return {
    run: run.id,
    model: run.model,
    beside: [
      ...steps.map((step) => stepLine({ ...step, at: step.identity }).replaceAll(/\s+/g, ' ')),
      ...unmanaged.map(({ what, name, table }) => `${what} ${name} of ${table}`),
      ...foreign.map(({ what, name, owner: role }) => `${what} ${name} of the role ${role}`),
      ...objects.map(({ what, name }) => `${what} ${name}`),
      ...retired.map(({ identity }) => `${identity}, which is retired`),
    ],
  };
}

/** Throws unless the snapshot has the schema that was read. */
export async function assertUnchanged(snapshot: Queryable, { run }: SavedSchema): Promise<void> {
  if ((await readRun(snapshot))?.id === run) return;
  throw new Problem('schema_changed', 500, 'A migration was applied while the backup began', {
    hint: 'Start it again.',
  });
}

export function assertNothingBeside({ beside }: SavedSchema): void {
  if (beside.length === 0) return;
  throw new Problem(
    'backup_incomplete',
    500,
    `The database differs from its svc.yaml in ${beside.length} places`,
    {
      details: beside.slice(0, 10).join('\n  '),
      hint:
        'Without pg_dump only what svc.yaml declares is saved. svc migrate drift lists what differs: ' +
        'declare it, install the client programs of PostgreSQL, or leave it out with --allow-missing.',
    },
  );
}
