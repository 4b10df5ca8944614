// A file with data steps comes into effect in parts: steps before any change, what the file adds, steps, what it requires
// and removes, steps. Each part is a migration to a model that lacks the steps still to come, so that the file counts
// as applied when all of them are done; a run that is killed between two parts is continued by the next.
import type { Log } from '../log/log.ts';
import type { Queryable } from '../postgres/owner-database.ts';
import { runDataStep } from './apply/data-step.ts';
import { MigrationRefused, type MigrationProblem } from './problem.ts';
import { expandModel } from './schema/expand-model.ts';
import { EMPTY_MODEL, type DataStepModel, type SchemaModel } from './schema/model.ts';
import {
  isBuiltFromNothing,
  readDataSteps,
  recordDataStep,
  stageSteps,
  withoutSteps,
} from './state/data-steps.ts';
import { readRun } from './state/history.ts';

export type Rollout = {
  readonly pending: readonly DataStepModel[];
  /** Never run, and recorded as skipped with the rest: there are no rows. */
  readonly skipped: readonly DataStepModel[];
  /** What the database becomes before the steps after `expand`; null: there are none. */
  readonly expanded: SchemaModel | null;
};

export async function planRollout(session: Queryable, model: SchemaModel, log?: Log): Promise<Rollout> {
  if (!model.dataSteps) return { pending: [], skipped: [], expanded: null };
  const { pending, edited } = stageSteps(model, await readDataSteps(session));
  for (const step of edited)
    log?.warn(
      { code: 'MIG-602', at: step.at },
      `the step ${step.name} was changed after it ran, and does not run again. Give it another name to run it.`,
    );
  if (pending.length === 0) return { pending, skipped: [], expanded: null };
  const isFresh = await isBuiltFromNothing(session, model);
  const skipped = isFresh ? pending.filter((step) => step.onEmpty === 'skip') : [];
  const left = pending.filter((step) => !skipped.includes(step));
  const hasExpand = left.some((step) => step.after === 'expand');
  const before = (await readRun(session))?.model ?? EMPTY_MODEL;
  const expanded = hasExpand ? expandModel(withoutSteps(model, pending), before) : null;
  return { pending: left, skipped, expanded };
}

export type Stages<Outcome> = {
  /** Migrates to a part of the file. Null: it is done, and the next may follow. */
  readonly prepare: (model: SchemaModel) => Promise<Outcome | null>;
  readonly refused: (problems: readonly MigrationProblem[]) => Outcome;
  /** Migrates to the whole file, and calls `record` in the transaction of what blocks. */
  readonly finish: (record: (session: Queryable) => Promise<void>) => Promise<Outcome>;
  readonly log: Log;
};

export async function rollOut<Outcome>(
  session: Queryable,
  model: SchemaModel,
  { prepare, refused, finish, log }: Stages<Outcome>,
): Promise<Outcome> {
  const { pending, skipped, expanded } = await planRollout(session, model, log);
  const after = (when: DataStepModel['after']): DataStepModel[] =>
    pending.filter((step) => step.after === when);
  const run = async (steps: readonly DataStepModel[]): Promise<void> => {
    for (const step of steps) {
      log.info({ step: step.name }, 'running a data step');
      await runDataStep(session, step, model);
    }
  };
  try {
    await run(after('start'));
    if (expanded) {
      const stopped = await prepare(expanded);
      if (stopped !== null) return stopped;
      await run(after('expand'));
    }
    const last = after('contract');
    if (last.length > 0) {
      const stopped = await prepare(withoutSteps(model, last));
      if (stopped !== null) return stopped;
      await run(last);
    }
  } catch (error) {
    if (error instanceof MigrationRefused) return refused(error.problems);
    throw error;
  }
  return finish(async (transaction) => {
    for (const step of skipped) await recordDataStep(transaction, step, 'skipped');
  });
}

/** What follows the plan that is shown, in words. */
export function noteSteps({ pending, expanded }: Rollout): string[] {
  const one = ({ name, after, file }: DataStepModel): string =>
    `data step ${name}${file === null ? '' : ` (${file})`} runs ${
      { start: 'before this', expand: 'after this', contract: 'last' }[after]
    }, once`;
  return [
    ...pending.map(one),
    ...(expanded ? ['what the file requires and removes follows the data steps, and is planned then'] : []),
  ];
}
