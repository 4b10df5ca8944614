// Plans a migration without applying it: for `svc migrate plan`, a start without `--migrate`, and the dashboard.
import { migrationPolicy } from '../apply/policy.ts';
import { makePlan, type MigrationPlan, type PlanMode } from '../make-plan.ts';
import { type MigrateOptions, refusePooler } from '../migrate.ts';
import { MigrationRefused, placed, type MigrationProblem } from '../problem.ts';
import { createLocator, toModel, type Locate } from '../schema/declared.ts';
import type { SchemaModel } from '../schema/model.ts';
import { type AppliedState, hashModel, isInSync, readAppliedState } from '../state/applied-state.ts';
import { digestConfig } from '../state/config-digest.ts';
import { noteSteps, planRollout } from '../rollout.ts';
import { readFence } from '../state/fence.ts';
import { type Superseded, supersededFile } from '../state/superseded.ts';
import { stepLine } from './render.ts';

export type Planned =
  | {
      readonly kind: 'planned';
      readonly plan: MigrationPlan;
      readonly superseded: Superseded | undefined;
      readonly state: AppliedState | null;
      /** Names of pending data steps. */
      readonly dataSteps: readonly string[];
    }
  | { readonly kind: 'refused'; readonly problems: readonly MigrationProblem[] };

export async function planMigration(options: MigrateOptions, mode?: PlanMode): Promise<Planned> {
  return planModel(toModel(options.config), createLocator(options.config), options, mode);
}

export async function planModel(
  model: SchemaModel,
  locate: Locate,
  options: MigrateOptions,
  mode: PlanMode = 'full',
): Promise<Planned> {
  const policy = { ...migrationPolicy(options.config.migrations, options.policy), rows: options.rows };
  return options.owner.session(async (session): Promise<Planned> => {
    await refusePooler(session);
    const state = await readAppliedState(session);
    const schemaHash = hashModel(model);
    const fence = await readFence(session, schemaHash);
    try {
      const rollout = await planRollout(session, model);
      const part = rollout.expanded ?? model;
      const plan = await makePlan(session, part, state, policy, mode, options.ownership);
      return {
        kind: 'planned',
        state,
        superseded: supersededFile(fence, schemaHash, policy),
        dataSteps: rollout.pending.map(({ name }) => name),
        plan: {
          ...plan,
          schemaHash,
          notes: [...plan.notes, ...noteSteps(rollout)],
          problems: placed(plan.problems, locate),
          hints: placed(plan.hints, locate),
        },
      };
    } catch (error) {
      if (error instanceof MigrationRefused)
        return { kind: 'refused', problems: placed(error.problems, locate) };
      throw error;
    }
  });
}

export type PendingCheck =
  | { readonly kind: 'in-sync' }
  | {
      readonly kind: 'superseded';
      readonly superseded: Superseded;
      /** Steps of a migration to this file, one line each. */
      readonly words: readonly string[];
    }
  | {
      readonly kind: 'pending';
      readonly words: readonly string[];
      readonly problems: readonly MigrationProblem[];
    };

export async function checkPending(options: MigrateOptions): Promise<PendingCheck> {
  const digest = digestConfig(options.config);
  if (await options.owner.session((session) => isInSync(session, digest))) return { kind: 'in-sync' };
  const planned = await planModel(
    toModel(options.config),
    createLocator(options.config),
    options,
    'incremental',
  );
  if (planned.kind === 'refused') return { kind: 'pending', words: [], problems: planned.problems };
  const { steps, problems } = planned.plan;
  if (planned.superseded)
    return { kind: 'superseded', superseded: planned.superseded, words: steps.map(stepLine) };
  const waiting = planned.dataSteps.map((name) => `~ migrations.steps.${name}: run it once`);
  if (steps.length + waiting.length === 0 && problems.length === 0) return { kind: 'in-sync' };
  return {
    kind: 'pending',
    words: [...steps.map(stepLine), ...waiting],
    problems,
  };
}
