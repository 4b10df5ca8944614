// Applies a file with data steps in parts: steps before any change, additions, steps, requirements and removals, steps.
// Each part is a migration to a model without the pending steps, so the file counts as applied only after all steps.
// The next run continues a run that was killed between two parts.
import type { Log } from '../log/log.ts';
import type { Queryable } from '../postgres/owner-database.ts';
import { runDataStep, undoDataStep } from './apply/data-step.ts';
import { MigrationRefused, type MigrationProblem } from './problem.ts';
import { expandModel } from './schema/expand-model.ts';
import { EMPTY_MODEL, type DataStepModel, type SchemaModel } from './schema/model.ts';
import {
  isEmptyDatabase,
  readDataSteps,
  readStepsDone,
  recordDataStep,
  stageSteps,
  withoutSteps,
} from './state/data-steps.ts';
import { readRun } from './state/history.ts';

export type Rollout = {
  readonly pending: readonly DataStepModel[];
  /** Steps that are recorded as skipped without running, because the database has no rows. */
  readonly skipped: readonly DataStepModel[];
  /** Model before the steps with `after: expand`. Null if there are no such steps. */
  readonly expanded: SchemaModel | null;
};

export async function planRollout(session: Queryable, model: SchemaModel, log?: Log): Promise<Rollout> {
  if (!model.dataSteps) return { pending: [], skipped: [], expanded: null };
  const { pending, edited } = stageSteps(model, await readDataSteps(session));
  for (const step of edited)
    log?.warn(
      { code: 'MIG-602', at: step.at },
      `the step ${step.name} was changed after it ran and does not run again. To run it again, rename it.`,
    );
  if (pending.length === 0) return { pending, skipped: [], expanded: null };
  const isFresh = await isEmptyDatabase(session, model);
  const skipped = isFresh ? pending.filter((step) => step.onEmpty === 'skip') : [];
  const left = pending.filter((step) => !skipped.includes(step));
  const hasExpand = left.some((step) => step.after === 'expand');
  const before = (await readRun(session))?.model ?? EMPTY_MODEL;
  const expanded = hasExpand ? expandModel(withoutSteps(model, pending), before) : null;
  return { pending: left, skipped, expanded };
}

/** Returns the steps of the newer file that the target file does not have. */
export function stepsToUndo(model: SchemaModel, newer: SchemaModel): readonly DataStepModel[] {
  const kept = new Set(model.dataSteps?.map(({ name }) => name));
  return (newer.dataSteps ?? []).filter(({ name }) => !kept.has(name));
}

export type Stages<Outcome> = {
  /** Migrates to a part of the file. Returns null on success. */
  readonly prepare: (model: SchemaModel) => Promise<Outcome | null>;
  readonly refused: (problems: readonly MigrationProblem[]) => Outcome;
  /** Migrates to the whole file and calls `record` in the main transaction. */
  readonly finish: (record: (session: Queryable) => Promise<void>) => Promise<Outcome>;
  readonly log: Log;
  /** Steps of a newer file. They are undone in reverse order, after additions and before removals. */
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
      // Keep the steps in the model, so that its hash differs from the file until the steps are undone.
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

/** Describes the data steps that follow the plan. */
export function noteSteps({ pending, expanded }: Rollout): string[] {
  const one = ({ name, after, file }: DataStepModel): string =>
    `data step ${name}${file === null ? '' : ` (${file})`} runs ${
      { start: 'before this', expand: 'after this', contract: 'last' }[after]
    }, once`;
  return [
    ...pending.map(one),
    ...pending
      .filter(({ undo }) => undo === undefined)
      .map(({ name }) => `${name} has no undo: svc migrate down does not change its rows`),
    ...(expanded
      ? ['requirements and removals of the file follow the data steps and are planned afterwards']
      : []),
  ];
}
