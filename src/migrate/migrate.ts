// Makes the database follow the file: lock, read, plan, apply, verify, record. One instance migrates at a time. A
// refused plan changes nothing. The result is read back from the catalog before a run is reported as applied.
import { randomUUID } from 'node:crypto';
import type { Config } from '../config/config.ts';
import type { Log } from '../log/log.ts';
import { inTransaction, type OwnerDatabase, type Queryable } from '../postgres/owner-database.ts';
import { literal, raw } from '../postgres/sql.ts';
import { Problem } from '../problem/problem.ts';
import { diff } from './diff/diff.ts';
import { type Background, startBackground } from './apply/background.ts';
import { executeMetadata, executeOnline } from './apply/execute.ts';
import type { ExecuteSettings } from './apply/settings.ts';
import { type MigrationPolicy, migrationPolicy } from './apply/policy.ts';
import { createLocator, toModel, type Locate, type SchemaConfig } from './schema/declared.ts';
import {
  announceSchema,
  type AppliedState,
  digestModel,
  hashModel,
  isInSync,
  markUnverified,
  type ModelDigest,
  readAppliedState,
  readCatalogFingerprint,
  writeAppliedState,
} from './state/applied-state.ts';
import { writeRenames } from './state/former-names.ts';
import { knownDigest, rememberDigest } from './state/config-digest.ts';
import { settleObjects, writeObjects } from './state/managed-objects.ts';
import { type Fence, isNewDeploySeq, readFence, readNewestSeq } from './state/fence.ts';
import { finishRun, recordSteps, startRun } from './state/runs.ts';
import { readLive } from './schema/live/read-live.ts';
import type { DataStepModel, SchemaModel } from './schema/model.ts';
import { makePlan, type MigrationPlan } from './make-plan.ts';
import type { OwnershipTransfer } from './checks/ownership.ts';
import { MigrationRefused, placed, type MigrationProblem } from './problem.ts';
import { MigrationLock, pause } from './locks.ts';
import { isAfterMetadata } from './plan/step.ts';
import { rollOut } from './rollout.ts';
import { type Superseded, supersededFile } from './state/superseded.ts';

export type MigrationOutcome =
  | { readonly kind: 'unchanged'; readonly schemaHash: string; readonly plan: MigrationPlan | null }
  /** Only long steps remain, and another instance is running them. */
  | { readonly kind: 'elsewhere'; readonly schemaHash: string }
  | {
      readonly kind: 'applied';
      readonly schemaHash: string;
      readonly plan: MigrationPlan;
      readonly runId: string;
      /** Problems of the steps that run while the server handles requests. Settles when they finish; never rejects. */
      readonly background: Promise<readonly MigrationProblem[]>;
    }
  | {
      readonly kind: 'refused';
      readonly schemaHash: string;
      readonly problems: readonly MigrationProblem[];
      readonly plan: MigrationPlan | null;
      /** True if steps were completed before the refusal. They are kept, and the next run continues after them. */
      readonly begun: boolean;
    }
  | { readonly kind: 'superseded'; readonly schemaHash: string; readonly superseded: Superseded };

export type MigrateOptions = {
  readonly owner: OwnerDatabase;
  readonly config: SchemaConfig & Partial<Pick<Config, 'migrations'>>;
  /** Names this process in the history. */
  readonly instance?: string | undefined;
  readonly log: Log;
  readonly policy?: Partial<MigrationPolicy> | undefined;
  readonly onStatement?: ExecuteSettings['onStatement'];
  /** Transfers ownership of objects of other roles. Without it a file that declares such objects is refused. */
  readonly ownership?: OwnershipTransfer | undefined;
  /** Stops background work at shutdown. The next start continues it. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Called under the migration lock, in the main transaction, also if there are no steps. An exception rolls back that
   * transaction. Not called if the file is refused before.
   */
  readonly record?: ((transaction: Queryable) => Promise<void>) | undefined;
  /** If `none`, plans read no rows and withhold the text of errors that can contain values. Default: `all`. */
  readonly rows?: 'all' | 'none' | undefined;
  /** Data steps of a newer file to undo. */
  readonly undo?: readonly DataStepModel[] | undefined;
};

type Work = {
  readonly model: SchemaModel;
  readonly locate: Locate;
  readonly options: MigrateOptions;
  readonly policy: MigrationPolicy;
  readonly schemaHash: string;
};

export async function migrate(options: MigrateOptions): Promise<MigrationOutcome> {
  const { config, owner, record } = options;
  const known = knownDigest(config);
  const policy = migrationPolicy(config.migrations, options.policy);
  if (known && record === undefined) {
    const done = await owner.session(async (session) => {
      await refusePooler(session);
      return isDone(session, known, policy);
    });
    if (done) return { kind: 'unchanged', schemaHash: known.hash, plan: null };
  }
  const model = toModel(config);
  rememberDigest(config, digestModel(model));
  return migrateModel(model, createLocator(config), options);
}

/** Migrates to a model other than that of the file. `down` passes a model from the history. */
export async function migrateModel(
  model: SchemaModel,
  locate: Locate,
  options: MigrateOptions,
): Promise<MigrationOutcome> {
  const { owner, config } = options;
  const schemaHash = hashModel(model);
  const policy = migrationPolicy(config.migrations, options.policy);
  const work: Work = { model, locate, options, policy, schemaHash };
  return owner.session(async (session) => {
    await refusePooler(session);
    if (options.record === undefined && (await isDone(session, digestModel(model), policy)))
      return { kind: 'unchanged', schemaHash, plan: null };
    return migrateAlone(session, work);
  });
}

/** Returns true if the database follows this file and the history contains the number of this deployment. */
async function isDone(session: Queryable, digest: ModelDigest, policy: MigrationPolicy): Promise<boolean> {
  if (!(await isInSync(session, digest))) return false;
  if (policy.deploySeq === null) return true;
  return !isNewDeploySeq({ newestSeq: await readNewestSeq(session) }, policy.deploySeq);
}

/** Rejects a pooler in transaction mode, because the migration lock belongs to a session. */
export async function refusePooler(session: Queryable): Promise<void> {
  const token = randomUUID();
  await session.query(raw(`select set_config('svc.session', ${literal(token).compile().text}, false)`));
  const [row] = await session.query<{ token: string | null }>(
    raw(`select current_setting('svc.session', true) as token`),
  );
  if (row?.token === token) return;
  throw new Problem(
    'unsuitable_pooler',
    503,
    'Migrations need a dedicated session, but the connection goes through a pooler',
    { hint: 'Set SVC_DATABASE_DIRECT_URL to PostgreSQL itself.' },
  );
}

/** Maximum time for which the session of a killed process may keep its locks. */
const DEAD_SESSION_MS = 500;

async function migrateAlone(session: Queryable, work: Work): Promise<MigrationOutcome> {
  const { schemaHash, model, policy } = work;
  const unchanged = { kind: 'unchanged', schemaHash, plan: null } as const;
  let lock = await MigrationLock.try(session, 'migrate');
  if (!lock) work.options.log.info('another instance is migrating; waiting for it');
  while (!lock) {
    await pause();
    if (work.options.record === undefined && (await isDone(session, digestModel(model), policy)))
      return unchanged;
    lock = await MigrationLock.try(session, 'migrate');
  }
  try {
    const fence = await readFence(session, schemaHash);
    if (await isInSync(session, digestModel(model))) {
      if (isNewDeploySeq(fence, policy.deploySeq)) await recordRun(session, work, schemaHash);
      await recordAlone(session, work);
      return unchanged;
    }
    const superseded = supersededFile(fence, schemaHash, policy);
    if (superseded) return { kind: 'superseded', schemaHash, superseded };
    const since = performance.now();
    let background = await MigrationLock.try(session, 'migrateBackground');
    while (!background) {
      // Another instance has held the lock for longer: it runs the long steps of this file.
      if (fence.isNewest && performance.now() - since > DEAD_SESSION_MS) {
        await recordAlone(session, work);
        return { kind: 'elsewhere', schemaHash };
      }
      await pause();
      background = await MigrationLock.try(session, 'migrateBackground');
    }
    try {
      return await applyInParts(session, work, background, fence);
    } finally {
      await background.release();
    }
  } finally {
    await lock.release().catch(() => {
      // The session has ended, which released its locks.
    });
  }
}

/** Applies the file in parts, with data steps between them. A file without data steps is one part. */
async function applyInParts(
  session: Queryable,
  work: Work,
  background: MigrationLock,
  fence: Fence,
): Promise<MigrationOutcome> {
  const { model, options } = work;
  let applied: Extract<MigrationOutcome, { kind: 'applied' }> | null = null;
  return rollOut<MigrationOutcome>(session, model, {
    log: options.log,
    undo: options.undo,
    refused: (problems) => refused(work, null, problems, true),
    async prepare(part) {
      const outcome = await planAndApply(session, partWork(work, part), background, fence);
      if (outcome.kind === 'refused') return { ...outcome, schemaHash: work.schemaHash };
      if (outcome.kind !== 'applied') return null;
      applied = outcome;
      const late = await outcome.background;
      if (late.length > 0) return refused(work, outcome.plan, late, true);
      await background.renew(session);
      return null;
    },
    async finish(record) {
      const whole = {
        ...work,
        options: {
          ...options,
          record: async (transaction: Queryable) => {
            await record(transaction);
            await options.record?.(transaction);
          },
        },
      };
      const outcome = await planAndApply(session, whole, background, fence);
      return outcome.kind === 'unchanged' && applied ? { ...applied, schemaHash: work.schemaHash } : outcome;
    },
  });
}

/** Returns the work of a part. It is a separate run that `down` cannot return to and that has no deployment number. */
function partWork(work: Work, model: SchemaModel): Work {
  return {
    ...work,
    model,
    schemaHash: hashModel(model),
    policy: { ...work.policy, kind: 'expand', deploySeq: null },
    options: { ...work.options, record: undefined },
  };
}

async function planAndApply(
  session: Queryable,
  work: Work,
  background: MigrationLock,
  fence: Fence,
): Promise<MigrationOutcome> {
  const { schemaHash, locate } = work;
  const { log } = work.options;
  const state = await readAppliedState(session);
  let plan: MigrationPlan;
  try {
    plan = await planWithOwnership(session, work, state);
  } catch (error) {
    if (error instanceof MigrationRefused) return refused(work, null, error.problems, false);
    throw error;
  }
  for (const { code, at, message, hint } of plan.hints)
    log.warn({ code, at: locate(at) ?? at }, `${message}. ${hint ?? ''}`);
  if (plan.problems.length > 0) return refused(work, plan, plan.problems, false);
  if (plan.steps.length > 0) return apply(session, work, plan, background);
  await recordUnchanged(session, work, plan, state, fence);
  return { kind: 'unchanged', schemaHash, plan };
}

/** Plans after transferring ownership of foreign objects. Transfers nothing if the plan has other problems. */
async function planWithOwnership(
  session: Queryable,
  { model, policy, options }: Work,
  state: AppliedState | null,
): Promise<MigrationPlan> {
  const { ownership } = options;
  const plan = await makePlan(session, model, state, policy, 'incremental', ownership);
  if (plan.foreign.length === 0 || plan.problems.length > 0) return plan;
  await ownership?.transfer(plan.foreign);
  return makePlan(session, model, state, policy);
}

function refused(
  { schemaHash, locate }: Work,
  plan: MigrationPlan | null,
  problems: readonly MigrationProblem[],
  begun: boolean,
): MigrationOutcome {
  return { kind: 'refused', schemaHash, plan, problems: placed(problems, locate), begun };
}

/** Records a file that changes nothing in the database as the file that was applied last. */
async function recordUnchanged(
  session: Queryable,
  work: Work,
  plan: MigrationPlan,
  state: AppliedState | null,
  fence: Fence,
): Promise<void> {
  const isNews = state?.schemaHash !== work.schemaHash || isNewDeploySeq(fence, work.policy.deploySeq);
  const runId = isNews ? await recordRun(session, work, plan.parentHash) : '0';
  await inTransaction(session, {}, async () => {
    await writeObjects(session, runId, plan.writes, plan.forgotten);
    if (await writeRenames(session, work.model)) await announceSchema(session);
    await work.options.record?.(session);
  });
  await recordState(session, work, plan, plan.catalogFingerprint, true);
}

/** Runs `record` in its own transaction if the schema needs none. */
async function recordAlone(session: Queryable, { options: { record } }: Work): Promise<void> {
  if (record) await inTransaction(session, {}, () => record(session));
}

/** Records a run without steps. */
async function recordRun(session: Queryable, work: Work, parentHash: string | null): Promise<string> {
  const runId = await beginRun(session, work, parentHash);
  await finishRun(session, runId, 'done', null);
  return runId;
}

async function beginRun(
  session: Queryable,
  { policy, schemaHash, model, options }: Work,
  parentHash: string | null,
): Promise<string> {
  return startRun(session, {
    kind: policy.kind,
    parentHash,
    schemaHash,
    deploySeq: policy.deploySeq,
    model,
    instance: options.instance ?? `pid ${process.pid}`,
  });
}

async function apply(
  session: Queryable,
  work: Work,
  plan: MigrationPlan,
  lock: MigrationLock,
): Promise<MigrationOutcome> {
  const { model, schemaHash, policy, options } = work;
  const { log, onStatement } = options;
  const runId = await beginRun(session, work, plan.parentHash);
  await recordSteps(session, runId, plan.steps);
  const settings: ExecuteSettings = {
    ...policy,
    searchPath: plan.searchPath,
    runId,
    onStatement,
    onProgress: (step) => log.info({ step: step.summary, lane: step.lane }, 'migrating'),
  };
  const numbered = plan.steps.map((step, ordinal) => ({ ordinal, step }));
  const steps = numbered.filter(({ step }) => isAfterMetadata(step.lane));
  let begun = false;
  let background: Background | null = null;
  try {
    for (const value of numbered.filter(({ step }) => step.lane === 'values')) {
      await executeOnline(session, value, settings);
      begun = true;
    }
    const metadata = numbered.filter(({ step }) => step.lane === 'metadata');
    await executeMetadata(session, metadata, settings, async () => {
      await writeObjects(session, runId, plan.writes, plan.forgotten);
      await markUnverified(session);
      // The following steps may take long, but instances with the older file need the new names immediately.
      if (await writeRenames(session, model)) await announceSchema(session);
      await options.record?.(session);
    });
    begun = true;
    if (steps.length > 0) {
      background = await startBackground({
        owner: options.owner,
        lock,
        steps,
        settings,
        log,
        signal: options.signal,
        locate: (problems) => placed(problems, work.locate),
        complete: (own) => completeRecord(own, work, plan),
      });
    }
    const isComplete = background === null || (await background.firstDoneWithin(policy.bootBudgetMs));
    // Read before the verification, so that the next start finds changes that happen during the verification.
    const catalogFingerprint = await readCatalogFingerprint(session, digestModel(model));
    if (isComplete) await verify(session, plan);
    await finishRun(session, runId, 'done', null);
    await recordState(session, work, plan, catalogFingerprint, isComplete);
    await announceSchema(session);
    return {
      kind: 'applied',
      schemaHash,
      plan,
      runId,
      background: background?.result ?? Promise.resolve([]),
    };
  } catch (error) {
    await finishRun(session, runId, 'failed', error instanceof Error ? error.message : String(error)).catch(
      () => {
        // The connection may have failed. The next run then marks this run as interrupted.
      },
    );
    if (error instanceof MigrationRefused) return refused(work, plan, error.problems, begun);
    throw error;
  } finally {
    background?.recorded();
  }
}

/** Verifies and records the run in the background, after the start has finished. */
async function completeRecord(session: Queryable, work: Work, plan: MigrationPlan): Promise<void> {
  const state = await readAppliedState(session);
  // Keep the record of a newer file that was applied in the meantime.
  if (state?.schemaHash !== work.schemaHash) return;
  const catalogFingerprint = await readCatalogFingerprint(session, digestModel(work.model));
  await verify(session, plan);
  await recordState(session, work, plan, catalogFingerprint, true);
  await announceSchema(session);
}

/** Throws if differences remain after a run, which is a defect of the engine. */
async function verify(session: Queryable, plan: MigrationPlan): Promise<void> {
  const live = await readLive(session, plan.schemas, plan.scope);
  const { changes } = diff(plan.desired, live, plan.owned);
  if (changes.length === 0) return;
  const kinds = changes.map((change) => change.kind).join(', ');
  throw new Problem(
    'MIG-501',
    500,
    `engine defect: ${changes.length} differences remain after the run: ${kinds}`,
    {
      details: JSON.stringify(changes, (key, value: unknown) =>
        key === 'table' || key === 'live' ? undefined : value,
      ).slice(0, 2_000),
    },
  );
}

async function recordState(
  session: Queryable,
  { schemaHash }: Work,
  plan: MigrationPlan,
  catalogFingerprint: string,
  complete: boolean,
): Promise<void> {
  if (complete) await settleObjects(session, plan.forgottenLater);
  const { serverVersion } = plan;
  await writeAppliedState(session, { schemaHash, catalogFingerprint, serverVersion, complete });
}
