// A file with data steps comes into effect in parts: steps before any change, what the file adds, steps, what it requires
// and removes, steps. Each part is a migration to a model that lacks the steps still to come, so that the file counts
// as applied when all of them are done; a run that is killed between two parts is continued by the next.
import type { Log } from '../log/log.ts';
import type { Queryable } from '../postgres/owner-database.ts';
import { runDataStep, undoDataStep } from './apply/data-step.ts';
import { MigrationRefused, type MigrationProblem } from './problem.ts';
import { expandModel } from './schema/expand-model.ts';
import { EMPTY_MODEL, type DataStepModel, type SchemaModel } from './schema/model.ts';
import {
  isBuiltFromNothing,
  readDataSteps,
  readStepsDone,
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

/** Steps of the newer file that the one to go back to has not. */
export function stepsToUndo(model: SchemaModel, newer: SchemaModel): readonly DataStepModel[] {
  const kept = new Set(model.dataSteps?.map(({ name }) => name));
  return (newer.dataSteps ?? []).filter(({ name }) => !kept.has(name));
}

export type Stages<Outcome> = {
  /** Migrates to a part of the file. Null: it is done, and the next may follow. */
  readonly prepare: (model: SchemaModel) => Promise<Outcome | null>;
  readonly refused: (problems: readonly MigrationProblem[]) => Outcome;
  /** Migrates to the whole file, and calls `record` in the transaction of what blocks. */
  readonly finish: (record: (session: Queryable) => Promise<void>) => Promise<Outcome>;
  readonly log: Log;
  /** Steps that are not the file's, taken back last first: when what it adds is there again, and all else still is. */
  readonly undo?: readonly DataStepModel[] | undefined;
};

export async function rollOut<Outcome>(
  session: Queryable,
  model: SchemaModel,
  { prepare, refused, finish, log, undo = [] }: Stages<Outcome>,
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
    const ran = undo.length === 0 ? new Set() : await readStepsDone(session);
    const undone = undo.filter((step) => step.undo && ran.has(step.name)).toReversed();
    if (undone.length > 0) {
      const before = (await readRun(session))?.model ?? EMPTY_MODEL;
      // With the steps its hash is not that of the file, which counts as applied when they are undone.
      const stopped = await prepare({ ...expandModel(model, before), dataSteps: undone });
      if (stopped !== null) return stopped;
    }
    for (const step of undone) {
      log.info({ step: step.name }, 'undoing a data step');
      await undoDataStep(session, step, model);
    }
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
    ...pending
      .filter(({ undo }) => undo === undefined)
      .map(({ name }) => `${name} has no undo: svc migrate down leaves its rows as they are`),
    ...(expanded ? ['what the file requires and removes follows the data steps, and is planned then'] : []),
  ];
}
