// Makes the database follow the file. One instance at a time; an unchanged start costs one look; a refused plan
// changes nothing; and what was done is read back from the catalog before anybody is told that it worked.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Config } from '../config/config.ts';
import type { Log } from '../log/log.ts';
import { tryLock, unlock } from '../postgres/advisory-lock.ts';
import { inTransaction, OwnerDatabase, type Queryable } from '../postgres/owner-database.ts';
import { isDatabaseError } from '../postgres/pg-error.ts';
import { literal, raw, sql } from '../postgres/sql.ts';
import { Problem } from '../problem/problem.ts';
import { readNewNormalForms, writesOfNewNormalForms } from './normalise/normalise.ts';
import { diff } from './diff/diff.ts';
import { executeMetadata, executeOnline, type ExecuteSettings } from './apply/execute.ts';
import { locator, toModel, type Locate, type SchemaConfig } from './schema/declared.ts';
import {
  clearFills,
  ENGINE_VERSION,
  finishRun,
  hashModel,
  readCatalogStamp,
  readFence,
  readStamp,
  recordSteps,
  settleObjects,
  SCHEMA_CHANNEL,
  startRun,
  withdrawStamp,
  writeObjects,
  writeStamp,
  type RunKind,
  type Stamp,
} from './state/state.ts';
import type { Live } from './schema/live-schema.ts';
import { readLive } from './schema/read-live.ts';
import type { SchemaModel } from './schema/model.ts';
import { prepare, THOROUGH, type MigrationPlan, type Trust } from './make-plan.ts';
import { MigrationRefused, problem, type MigrationProblem } from './problem.ts';
import { pause, type LockSettings } from './locks.ts';
import type { HazardPolicy } from './plan/hazard-policy.ts';
import type { PlanSettings } from './plan/step-list.ts';
import type { NumberedStep } from './plan/step.ts';

export type MigrationPolicy = PlanSettings &
  HazardPolicy &
  LockSettings & {
    /** A file that was replaced by another one may come back: `dev`, `--allow-rollback`, `down`. */
    readonly allowRollback: boolean;
    /** A number that grows with every deployment; tells an older file from a newer one. */
    readonly deploySeq: number | null;
    readonly kind: RunKind;
    /** How long a start waits for what needs no lock but much time; then that goes on in the background. */
    readonly bootBudgetMs: number;
  };

/** Code of background work that did not come to its end, as when its connection is lost. */
export const BROKEN_OFF = 'MIG-502';

/** How long the session of a process that was killed may go on holding its locks. */
const LAST_BREATH_MS = 500;

export type MigrationOutcome =
  | { readonly kind: 'unchanged'; readonly schemaHash: string; readonly plan: MigrationPlan | null }
  /** All but the long steps is done, and those another instance has under way. */
  | { readonly kind: 'elsewhere'; readonly schemaHash: string }
  | {
      readonly kind: 'applied';
      readonly schemaHash: string;
      readonly plan: MigrationPlan;
      readonly runId: string;
      /** What goes on while the server serves; settles when it is done, and never rejects. */
      readonly background: Promise<readonly MigrationProblem[]>;
    }
  | {
      readonly kind: 'refused';
      readonly schemaHash: string;
      readonly problems: readonly MigrationProblem[];
      readonly plan: MigrationPlan | null;
      /** It was refused on its way: what was done before that stays, and the next run goes on from there. */
      readonly begun: boolean;
    }
  | {
      readonly kind: 'superseded';
      readonly schemaHash: string;
      readonly by: string;
      readonly replacedAt: Date | null;
    };

export type MigrateOptions = {
  readonly owner: OwnerDatabase | string;
  readonly config: SchemaConfig & Partial<Pick<Config, 'migrations'>>;
  /** Names this process in the history. */
  readonly instance?: string | undefined;
  readonly log: Log;
  readonly policy?: Partial<MigrationPolicy> | undefined;
  readonly onStatement?: ExecuteSettings['onStatement'];
  /** Ends background work at shutdown; the next start continues it. */
  readonly signal?: AbortSignal | undefined;
};

const DEFAULT_LIMITS = {
  lockTimeoutMs: 300,
  lockBudgetMs: 60_000,
  maxWriteBlockMs: 100,
  bootBudgetMs: 60_000,
};

export const SERVE_POLICY: Partial<MigrationPolicy> = {};
/** At a developer's machine: any file may come back, and big tables take the short way. */
export const DEV_POLICY: Partial<MigrationPolicy> = { allowRollback: true, direct: true };

export function policyOf(options: Pick<MigrateOptions, 'config' | 'policy'>): MigrationPolicy {
  const file = options.config.migrations;
  return {
    maxWriteBlockMs: file?.maxWriteBlockMs ?? DEFAULT_LIMITS.maxWriteBlockMs,
    lockTimeoutMs: file?.lockTimeoutMs ?? DEFAULT_LIMITS.lockTimeoutMs,
    lockBudgetMs: file?.lockBudgetMs ?? DEFAULT_LIMITS.lockBudgetMs,
    bootBudgetMs: file?.bootBudgetMs ?? DEFAULT_LIMITS.bootBudgetMs,
    drop: file?.drop ?? 'retire',
    direct: false,
    allow: [],
    strictRollout: false,
    allowRollback: false,
    deploySeq: null,
    kind: 'apply',
    ...options.policy,
  };
}

export async function migrate(options: MigrateOptions): Promise<MigrationOutcome> {
  return migrateModel(toModel(options.config), locator(options.config), options);
}

/** The same for a model that need not come from the file of today: `down` takes one from the history. */
export async function migrateModel(
  model: SchemaModel,
  locate: Locate,
  options: MigrateOptions,
): Promise<MigrationOutcome> {
  const policy = policyOf(options);
  const schemaHash = hashModel(model);
  return withOwner(options.owner, async (owner, keepOpen) => {
    const early = await owner.session(async (session) => {
      await checkSession(session);
      return isInSync(session, model, schemaHash);
    });
    if (early) return { kind: 'unchanged', schemaHash, plan: null };
    const background = { handedOver: false, taken: Promise.resolve() };
    const work: Work = { owner, model, locate, options, policy, schemaHash, keepOpen, background };
    return owner.session((session) => lead(session, work));
  });
}

type Work = {
  readonly owner: OwnerDatabase;
  readonly model: SchemaModel;
  readonly locate: Locate;
  readonly options: MigrateOptions;
  readonly policy: MigrationPolicy;
  readonly schemaHash: string;
  readonly keepOpen: (until: Promise<unknown>) => void;
  /** `taken` settles when the background work has its lock, or ended without it. */
  readonly background: { handedOver: boolean; taken: Promise<void> };
};

async function withOwner<T>(
  owner: OwnerDatabase | string,
  work: (owner: OwnerDatabase, keepOpen: (until: Promise<unknown>) => void) => Promise<T>,
): Promise<T> {
  if (typeof owner !== 'string') return work(owner, () => {});
  const own = new OwnerDatabase({
    url: owner,
    applicationName: 'svc-migrate',
    max: 3,
    idleTimeoutMs: 10_000,
  });
  let until: Promise<unknown> = Promise.resolve();
  try {
    return await work(own, (more) => {
      until = more;
    });
  } finally {
    // What still runs in the background ends first; it reports for itself.
    const close = (): Promise<void> => own.close();
    void until.then(close, close);
  }
}

// A pooler that hands out another session for every transaction loses the lock that makes this safe.
async function checkSession(session: Queryable): Promise<void> {
  const token = randomUUID();
  await session.query(raw(`select set_config('svc.session', ${literal(token).compile().text}, false)`));
  const [row] = await session.query<{ token: string | null }>(
    raw(`select current_setting('svc.session', true) as token`),
  );
  if (row?.token === token) return;
  throw new Problem(
    'unsuitable_pooler',
    503,
    'Migrations need a session of their own, but the connection goes through a transaction pooler',
    {
      hint: 'Point SVC_DATABASE_URL at the server itself, or at a session pooler.',
    },
  );
}

/** The cheap look: same file, same catalog, same versions, nothing left over. */
async function isInSync(session: Queryable, model: SchemaModel, schemaHash: string): Promise<boolean> {
  const stamp = await readStamp(session);
  if (!stamp?.complete || stamp.schemaHash !== schemaHash || stamp.engineVersion !== ENGINE_VERSION)
    return false;
  const [server] = await session.query<{ version: number; standby: boolean }>(
    raw(`select current_setting('server_version_num')::int as version, pg_is_in_recovery() as standby`),
  );
  if (server?.version !== stamp.serverVersion) return false;
  return (await readCatalogStamp(session, await stampedSchemas(session, model))) === stamp.catalogStamp;
}

async function stampedSchemas(session: Queryable, model: SchemaModel): Promise<string[]> {
  const rows = await session.query<{ schema: string }>(
    raw(
      `select distinct split_part(substr(identity, 7), '.', 1) as schema from svc_meta.object where kind = 'table'`,
    ),
  );
  return [
    ...new Set(['public', ...model.tables.map((table) => table.schema), ...rows.map((row) => row.schema)]),
  ].sort();
}

async function lead(session: Queryable, work: Work): Promise<MigrationOutcome> {
  const { schemaHash, model } = work;
  for (let told = false; !(await tryLock(session, 'migrate'));) {
    if (!told) work.options.log.info('another instance is migrating; waiting for it');
    told = true;
    await pause();
    if (await isInSync(session, model, schemaHash)) return { kind: 'unchanged', schemaHash, plan: null };
  }
  try {
    if (await isInSync(session, model, schemaHash)) return { kind: 'unchanged', schemaHash, plan: null };
    const fence = await readFence(session, schemaHash);
    if (isSuperseded(fence, work)) {
      return { kind: 'superseded', schemaHash, by: fence.current ?? '', replacedAt: fence.replacedAt };
    }
    const since = performance.now();
    while (!(await tryLock(session, 'migrateBackground'))) {
      // Somebody still builds this very file's indexes: all that is ours to do is done. Whoever was killed a moment
      // ago holds the lock until the server has noticed.
      const isAlive = performance.now() - since > LAST_BREATH_MS;
      if (isAlive && fence.isNewest) return { kind: 'elsewhere', schemaHash };
      await pause();
    }
    try {
      return await planAndRun(session, work, await readStamp(session));
    } finally {
      if (!work.background.handedOver) await unlock(session, 'migrateBackground');
      // Between the two holders of this lock nobody may take the rest of the plan for left over: the one lock
      // changes hands while the other is still held.
      await work.background.taken;
    }
  } finally {
    await unlock(session, 'migrate').catch(() => {
      // The session is gone, and its locks with it.
    });
  }
}

function isSuperseded(
  fence: {
    readonly current: string | null;
    readonly replacedAt: Date | null;
    readonly newestSeq: number | null;
  },
  { policy, schemaHash }: Work,
): boolean {
  if (policy.allowRollback || fence.current === null || fence.current === schemaHash) return false;
  const { deploySeq } = policy;
  if (deploySeq !== null && fence.newestSeq !== null) return deploySeq < fence.newestSeq;
  return fence.replacedAt !== null;
}

async function planAndRun(session: Queryable, work: Work, stamp: Stamp | null): Promise<MigrationOutcome> {
  const { model, schemaHash, locate, policy } = work;
  let plan: MigrationPlan;
  try {
    plan = await prepare(session, model, stamp, policy, { stamp: true, fresh: true });
    // Whoever is refused hears of everything that is wrong, so the server reads all of it.
    if (plan.problems.length > 0 && plan.unprinted.size > 0)
      plan = await prepare(session, model, stamp, policy);
  } catch (error) {
    if (error instanceof MigrationRefused) return refused(schemaHash, null, error.problems, locate);
    throw error;
  }
  for (const hint of plan.hints)
    work.options.log.warn(
      { code: hint.code, at: locate(hint.at) ?? hint.at },
      `${hint.message}. ${hint.hint ?? ''}`,
    );
  if (plan.problems.length > 0) return refused(schemaHash, plan, plan.problems, locate);
  if (plan.steps.length === 0) {
    const run = stamp?.schemaHash === schemaHash ? null : await recordQuietRun(session, work, stamp);
    await inTransaction(session, {}, () => writeObjects(session, run ?? '0', plan.writes, plan.forgotten));
    await stampNow(session, work, plan, true, plan.catalogStamp);
    return { kind: 'unchanged', schemaHash, plan };
  }
  return run(session, work, plan, stamp);
}

/** A file that changes nothing is still the file of today: the fence must know it. */
async function recordQuietRun(session: Queryable, work: Work, stamp: Stamp | null): Promise<string> {
  const runId = await startRun(session, runRow(work, stamp?.schemaHash ?? null));
  await finishRun(session, runId, 'done', null);
  return runId;
}

function runRow(work: Work, parentHash: string | null): Parameters<typeof startRun>[1] {
  return {
    kind: work.policy.kind,
    parentHash,
    schemaHash: work.schemaHash,
    deploySeq: work.policy.deploySeq,
    model: work.model,
    instance: work.options.instance ?? `pid ${process.pid}`,
  };
}

function refused(
  schemaHash: string,
  plan: MigrationPlan | null,
  problems: readonly MigrationProblem[],
  locate: Locate,
  begun = false,
): MigrationOutcome {
  return { kind: 'refused', schemaHash, plan, problems: placed(problems, locate), begun };
}

export function placed(problems: readonly MigrationProblem[], locate: Locate): MigrationProblem[] {
  return problems.map((one) => ({ ...one, place: one.place ?? locate(one.at) }));
}

async function run(
  session: Queryable,
  work: Work,
  prepared: MigrationPlan,
  stamp: Stamp | null,
): Promise<MigrationOutcome> {
  let plan = prepared;
  const { log } = work.options;
  const runId = await startRun(session, runRow(work, plan.parentHash));
  await recordSteps(session, runId, plan.steps);
  const settings: ExecuteSettings = {
    lockTimeoutMs: work.policy.lockTimeoutMs,
    lockBudgetMs: work.policy.lockBudgetMs,
    searchPath: plan.searchPath,
    runId,
    onStatement: work.options.onStatement,
    onProgress: (step) => log.info({ step: step.summary, lane: step.lane }, 'migrating'),
  };
  const numbered = plan.steps.map((step, ordinal): NumberedStep => ({ ordinal, step }));
  const metadata = numbered.filter(({ step }) => step.lane === 'metadata');
  let begun = false;
  try {
    try {
      await executeMetadata(session, metadata, settings, async () => {
        await writeObjects(session, runId, plan.writes, plan.forgotten);
        await withdrawStamp(session);
      });
    } catch (error) {
      throw await explained(session, work, plan, stamp, error);
    }
    begun = true;
    const rest = numbered.filter(({ step }) => step.lane !== 'metadata');
    const later = rest.length === 0 ? null : await startLater(session, work, plan, settings, rest);
    let complete = later === null;
    try {
      complete = later === null || (await later.doneWithin(work.policy.bootBudgetMs));
      const catalogStamp = await currentCatalog(session, work);
      if (complete || plan.unprinted.size > 0) {
        const live = await readLive(session, plan.schemas, plan.scope);
        plan = withNew(plan, live);
        if (complete) verify(plan, live);
        const writes = writesOfNewNormalForms(plan.desired, plan.unprinted, plan.hashes, plan.owned.tables);
        await writeObjects(session, runId, writes, []);
      }
      await finishRun(session, runId, 'done', null);
      await stampNow(session, work, plan, complete, catalogStamp);
      await announce(session);
    } finally {
      later?.stamped();
    }
    return {
      kind: 'applied',
      schemaHash: work.schemaHash,
      plan,
      runId,
      background: later?.background ?? Promise.resolve([]),
    };
  } catch (error) {
    await finishRun(session, runId, 'failed', error instanceof Error ? error.message : String(error)).catch(
      () => {
        // The connection may be what failed; the next run marks this one as interrupted.
      },
    );
    if (error instanceof MigrationRefused)
      return refused(work.schemaHash, plan, error.problems, work.locate, begun);
    throw error;
  }
}

/** A build that failed over what the server had not read in advance: has it read now, for everything and its place. */
async function explained(
  session: Queryable,
  work: Work,
  plan: MigrationPlan,
  stamp: Stamp | null,
  error: unknown,
): Promise<unknown> {
  const isAboutLocks =
    error instanceof MigrationRefused && error.problems.some((one) => one.code === 'MIG-401');
  const isAnswer = error instanceof MigrationRefused || isDatabaseError(error);
  if (plan.unprinted.size === 0 || isAboutLocks || !isAnswer) return error;
  try {
    const { problems } = await prepare(session, work.model, stamp, work.policy);
    return problems.length > 0 ? new MigrationRefused(problems) : error;
  } catch (refusal) {
    return refusal instanceof MigrationRefused ? refusal : error;
  }
}

/** With the prints of what it built, which is all there after the transaction. */
function withNew(plan: MigrationPlan, live: Live): MigrationPlan {
  return { ...plan, desired: readNewNormalForms(plan.desired, plan.unprinted, live) };
}

/** A difference left after a run is a defect of the engine, and is said aloud. */
function verify(plan: MigrationPlan, live: Live): void {
  const { changes } = diff(plan.desired, live, plan.owned);
  if (changes.length === 0) return;
  throw new Problem(
    'MIG-501',
    500,
    `engine defect: ${changes.length} differences remain after the run: ${changes.map((change) => change.kind).join(', ')}`,
    {
      details: JSON.stringify(changes, (key, value: unknown) =>
        key === 'table' || key === 'live' ? undefined : value,
      ).slice(0, 2_000),
    },
  );
}

async function stampNow(
  session: Queryable,
  work: Work,
  plan: MigrationPlan,
  complete: boolean,
  catalogStamp: string,
): Promise<void> {
  if (complete) await settleObjects(session, plan.forgottenLater);
  await writeStamp(session, {
    schemaHash: work.schemaHash,
    catalogStamp,
    serverVersion: plan.serverVersion,
    engineVersion: ENGINE_VERSION,
    complete,
  });
}

/** Read before what it proves is looked at: what somebody changes meanwhile is then found by the next start. */
async function currentCatalog(session: Queryable, { model }: Work): Promise<string> {
  return readCatalogStamp(session, await stampedSchemas(session, model));
}

/** Every instance reads the catalog again. */
async function announce(session: Queryable): Promise<void> {
  await session.query(sql`select pg_notify(${SCHEMA_CHANNEL}, '')`);
}

type Later = {
  /**
   * Waits for the steps a start waits for; true when nothing is left after them. False when there is, or when the
   * time is over: then all that is left goes on by itself.
   */
  doneWithin(ms: number): Promise<boolean>;
  /** What is done so far is recorded; from here on the background records for itself. */
  stamped(): void;
  readonly background: Promise<readonly MigrationProblem[]>;
};

/** All that is not the one transaction, on a session that may outlive the start. */
async function startLater(
  session: Queryable,
  work: Work,
  plan: MigrationPlan,
  settings: ExecuteSettings,
  steps: readonly NumberedStep[],
): Promise<Later> {
  const { log } = work.options;
  const urgent = steps.filter(({ step }) => step.lane === 'online' || step.lane === 'concurrent');
  const late = steps.filter((one) => !urgent.includes(one));
  const taken = Promise.withResolvers<void>();
  const awaited = Promise.withResolvers<boolean>();
  const stamped = Promise.withResolvers<void>();
  let over = false;
  let told = false;
  // Nobody else can take it in between: that needs the lock on migrating, which is still ours.
  await unlock(session, 'migrateBackground');
  work.background.handedOver = true;
  work.background.taken = taken.promise;
  const done = work.owner
    .session(async (own): Promise<readonly MigrationProblem[]> => {
      await endWithClient(own);
      const stopCancelling = await cancelOnAbort(own, work);
      while (!(await tryLock(own, 'migrateBackground'))) await pause();
      taken.resolve();
      for (const one of urgent) await executeOnline(own, one, settings);
      await endFills(own, urgent);
      told = true;
      awaited.resolve(late.length === 0);
      await stamped.promise;
      if (late.length === 0 && !over) return [];
      const problems = await executeLate(own, late, settings, work);
      if (problems.length === 0) await endFills(own, late);
      stopCancelling();
      if (work.options.signal?.aborted) return problems;
      const current = await readStamp(own);
      // A newer file may have been applied meanwhile; its stamp is not ours to write.
      if (problems.length === 0 && current?.schemaHash === work.schemaHash) {
        const catalogStamp = await currentCatalog(own, work);
        const live = await readLive(own, plan.schemas, plan.scope);
        verify(withNew(plan, live), live);
        await stampNow(own, work, plan, true, catalogStamp);
        await announce(own);
      }
      for (const one of problems) log.error({ code: one.code, at: one.place ?? one.at }, one.message);
      return problems;
    })
    .catch((error: unknown): readonly MigrationProblem[] => {
      awaited.reject(error);
      // The start still waits and says it itself.
      if (!over && !told) return [];
      if (work.options.signal?.aborted) return [];
      log.error({ err: error, job: 'migration' }, 'background work of the migration failed');
      if (error instanceof MigrationRefused) return placed(error.problems, work.locate);
      const code = error instanceof Problem ? 'MIG-501' : BROKEN_OFF;
      return [problem(code, 'background', error instanceof Error ? error.message : String(error))];
    });
  void done.then(() => taken.resolve());
  // Who no longer waits reads of a failure in what `background` settles with.
  awaited.promise.catch(() => {});
  work.keepOpen(done);
  return {
    async doneWithin(ms) {
      const timer = new AbortController();
      const timeOver = sleep(ms, false, { signal: timer.signal }).then(
        () => {
          over = true;
          return false;
        },
        // Nobody waits for it any more.
        () => false,
      );
      const complete = await Promise.race([awaited.promise, timeOver]).finally(() => timer.abort());
      if (over) log.info('long steps of the migration go on in the background');
      return complete;
    },
    stamped: () => stamped.resolve(),
    background: done,
  };
}

async function endFills(session: Queryable, steps: readonly NumberedStep[]): Promise<void> {
  const filled = steps.flatMap(({ step: { action, lane } }) =>
    action.kind === 'backfill' && lane !== 'shadow' ? [`table ${action.schema}.${action.table}`] : [],
  );
  if (filled.length > 0) await clearFills(session, filled);
}

async function executeLate(
  session: Queryable,
  steps: readonly NumberedStep[],
  settings: ExecuteSettings,
  work: Work,
): Promise<MigrationProblem[]> {
  const problems: MigrationProblem[] = [];
  const cutovers = steps.filter(({ step }) => step.lane === 'cutover');
  let mayCutOver = true;
  for (const one of steps) {
    if (work.options.signal?.aborted) break;
    // Without one column beside there is no swap, and its later steps would only miss what is not there.
    if ((one.step.deferred || one.step.lane === 'shadow') && !mayCutOver) continue;
    if (one.step.lane === 'cutover' && one !== cutovers[0]) continue;
    try {
      if (one.step.lane === 'cutover') {
        await executeMetadata(session, cutovers, settings, async () => {});
        // The old column is gone for everybody who knows the catalog.
        await announce(session);
      } else await executeOnline(session, one, settings);
    } catch (error) {
      if (!(error instanceof MigrationRefused)) throw error;
      problems.push(...placed(error.problems, work.locate));
      if (one.step.lane === 'shadow' || one.step.lane === 'cutover') mayCutOver = false;
    }
  }
  return problems;
}

/**
 * A session that waits for a lock does not notice that its process is gone, and would hold on to its place long after.
 * Not every system can look; there it ends as late as it always did.
 */
async function endWithClient(session: Queryable): Promise<void> {
  await session.query(raw(`set client_connection_check_interval = '1s'`)).catch((error: unknown) => {
    if (!isDatabaseError(error)) throw error;
  });
}

/** An index build listens to nobody; only the server can end its statement. */
async function cancelOnAbort(session: Queryable, { owner, options }: Work): Promise<() => void> {
  const { signal, log } = options;
  const [row] = await session.query<{ pid: number }>(raw('select pg_backend_pid() as pid'));
  const pid = row?.pid;
  if (signal === undefined || pid === undefined) return () => {};
  const cancel = (): void => {
    owner.query(sql`select pg_cancel_backend(${pid})`).catch((error: unknown) => {
      log.warn({ err: error }, 'could not end background work; it ends with its connection');
    });
  };
  signal.addEventListener('abort', cancel, { once: true });
  return () => signal.removeEventListener('abort', cancel);
}

export type PendingCheck =
  | { readonly kind: 'in-sync' }
  | { readonly kind: 'superseded' }
  | {
      readonly kind: 'pending';
      readonly words: readonly string[];
      readonly problems: readonly MigrationProblem[];
    };

/** For `serve` without `--migrate`: what is pending, in words. Changes nothing. */
export async function checkPending(options: MigrateOptions): Promise<PendingCheck> {
  const model = toModel(options.config);
  const schemaHash = hashModel(model);
  const inSync = await withOwner(options.owner, (owner) =>
    owner.session((session) => isInSync(session, model, schemaHash)),
  );
  if (inSync) return { kind: 'in-sync' };
  const planned = await planMigration(options, PROVEN);
  if (planned.kind === 'refused') return { kind: 'pending', words: [], problems: planned.problems };
  if (planned.superseded) return { kind: 'superseded' };
  const { steps, problems } = planned.plan;
  if (steps.length === 0 && problems.length === 0) return { kind: 'in-sync' };
  return {
    kind: 'pending',
    words: steps.map((step) => `${step.sign} ${step.at}: ${step.summary}`),
    problems,
  };
}

/** For a plan that only asks what the file changes: what the last run proved need not be compared again. */
export const PROVEN: Trust = { stamp: true, fresh: false };

export type Planned =
  | {
      readonly kind: 'planned';
      readonly plan: MigrationPlan;
      readonly superseded: boolean;
      readonly stamp: Stamp | null;
    }
  | { readonly kind: 'refused'; readonly problems: readonly MigrationProblem[] };

export async function planMigration(options: MigrateOptions, trust?: Trust): Promise<Planned> {
  return planModel(toModel(options.config), locator(options.config), options, trust);
}

export async function planModel(
  model: SchemaModel,
  locate: Locate,
  options: MigrateOptions,
  trust: Trust = THOROUGH,
): Promise<Planned> {
  const policy = policyOf(options);
  return withOwner(options.owner, (owner) =>
    owner.session(async (session): Promise<Planned> => {
      await checkSession(session);
      const stamp = await readStamp(session);
      const schemaHash = hashModel(model);
      const fence = await readFence(session, schemaHash);
      try {
        const plan = await prepare(session, model, stamp, policy, trust);
        const superseded = !policy.allowRollback && fence.replacedAt !== null && fence.current !== schemaHash;
        return {
          kind: 'planned',
          stamp,
          superseded,
          plan: { ...plan, problems: placed(plan.problems, locate), hints: placed(plan.hints, locate) },
        };
      } catch (error) {
        if (error instanceof MigrationRefused)
          return { kind: 'refused', problems: placed(error.problems, locate) };
        throw error;
      }
    }),
  );
}
