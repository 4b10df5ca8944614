// `plan`, `apply` and `down`: plan a change of the file, apply it, and go back.
import { readFile, writeFile } from 'node:fs/promises';
import type { z } from 'zod';
import { migrationPolicy } from '../../migrate/apply/policy.ts';
import { describeTransfer, type OwnershipTransfer } from '../../migrate/checks/ownership.ts';
import { planFingerprint, renderPlan, renderSql, toArtifact } from '../../migrate/commands/render.ts';
import type { MigrationPlan } from '../../migrate/make-plan.ts';
import { migrate, migrateModel, type MigrationOutcome } from '../../migrate/migrate.ts';
import { renderProblems } from '../../migrate/problem.ts';
import { createLocator } from '../../migrate/schema/declared.ts';
import { EMPTY_MODEL } from '../../migrate/schema/model.ts';
import { stepsToUndo } from '../../migrate/rollout.ts';
import { readRun, withRenamesReversed } from '../../migrate/state/history.ts';
import { describeSuperseded, remedyFor } from '../../migrate/state/superseded.ts';
import { CommandFailure, failure } from '../exit.ts';
import type { Findings } from '../report/reporting.ts';
import type { Terminal } from '../terminal.ts';
import { migrateExitCode, MIGRATE_EXIT, refusal } from './exit.ts';
import { type ChangeOptions, policyFrom } from './options.ts';
import { migrateOptions, planFile, withDatabase } from './project.ts';
import { type APPLIED, asJsonProblems, type PLANNED, type WENT_BACK } from './results.ts';

export type PlanOptions = ChangeOptions & {
  check?: boolean;
  sql?: boolean;
  out?: string;
  data?: 'all' | 'none';
};

export async function plan(
  options: PlanOptions,
  terminal: Terminal,
): Promise<Findings<z.infer<typeof PLANNED>>> {
  return await withDatabase(options, terminal, async (opened) => {
    const { config } = opened.project;
    const policy = policyFrom(options, opened.project);
    const {
      plan: made,
      superseded,
      dataSteps,
    } = await planFile(opened, policy, { mode: 'incremental', rows: options.data });
    const locate = createLocator(config);
    const artifact = toArtifact(made, locate);
    if (options.out) await writeFile(options.out, `${JSON.stringify(artifact, null, 2)}\n`);
    if (options.sql)
      terminal.print(renderSql(made, migrationPolicy(config.migrations, policy).lockTimeoutMs));
    else {
      const database = opened.address.describe();
      terminal.print(renderPlan(made, { paint: terminal.style, locate, database }));
      if (superseded)
        terminal.print(`${superseded.code} ${describeSuperseded(superseded)}\n  → ${remedyFor(superseded)}`);
    }
    if (made.problems.length > 0)
      return {
        data: artifact,
        problems: asJsonProblems(made.problems),
        exitCode: migrateExitCode(made.problems),
      };
    const isPending = made.steps.length + made.foreign.length + dataSteps.length > 0;
    return { data: artifact, exitCode: options.check && isPending ? MIGRATE_EXIT.pending : 0 };
  });
}

export async function apply(
  file: string | undefined,
  options: ChangeOptions,
  terminal: Terminal,
): Promise<Findings<Applied>> {
  return await withDatabase(options, terminal, async (opened) => {
    const policy = policyFrom(options, opened.project);
    if (file !== undefined)
      await checkSavedPlan(file, (await planFile(opened, policy, { mode: 'incremental' })).plan);
    const settings = migrateOptions(opened, policy);
    const taken: Applied['taken'] = [];
    const ownership =
      settings.ownership &&
      reportTaken(settings.ownership, ({ what, name, owner }) => {
        taken.push({ what, name, owner });
        terminal.print(`~ ${describeTransfer({ what, name, owner })}`);
      });
    return { data: { ...(await report(await migrate({ ...settings, ownership }), terminal)), taken } };
  });
}

type Applied = z.infer<typeof APPLIED>;

/** Reports objects after their ownership was transferred. */
function reportTaken(
  taker: OwnershipTransfer,
  report: (object: Parameters<OwnershipTransfer['transfer']>[0][number]) => void,
): OwnershipTransfer {
  return {
    ...taker,
    async transfer(objects) {
      await taker.transfer(objects);
      for (const object of objects) report(object);
    },
  };
}

const STALE = 'the catalog or the file has changed since the plan was created';

/** Throws if the saved plan is stale: it must still describe exactly the statements that will run. */
async function checkSavedPlan(file: string, now: MigrationPlan): Promise<void> {
  const saved: unknown = JSON.parse(await readFile(file, 'utf8'));
  const fingerprint =
    typeof saved === 'object' && saved !== null && 'fingerprint' in saved ? saved.fingerprint : null;
  if (fingerprint === planFingerprint(now)) return;
  throw new CommandFailure(
    MIGRATE_EXIT.drift,
    `MIG-404 ${file}: ${STALE}\n  → Create a new plan: svc migrate plan --out ${file}`,
    undefined,
    [
      {
        code: 'MIG-404',
        severity: 'error',
        message: `${file}: ${STALE}`,
        hint: `Create a new plan: svc migrate plan --out ${file}`,
      },
    ],
  );
}

export async function down(
  run: string | undefined,
  options: ChangeOptions,
  terminal: Terminal,
): Promise<Findings<z.infer<typeof WENT_BACK>>> {
  return await withDatabase(options, terminal, async (opened) => {
    const [current, target] = await opened.owner.session(async (session) => {
      const now = await readRun(session);
      return [now, await readRun(session, run ?? null, now?.schemaHash ?? '')] as const;
    });
    if (target === null) {
      const hint = 'Run `svc migrate history` to list the runs.';
      throw failure(MIGRATE_EXIT.refused, 'there is no such run', hint);
    }
    const model = withRenamesReversed(target.model, current?.model ?? EMPTY_MODEL);
    const policy = { ...policyFrom(options, opened.project), allowRollback: true, kind: 'down' } as const;
    const undo = stepsToUndo(target.model, current?.model ?? EMPTY_MODEL);
    const applied = await report(
      await migrateModel(model, () => null, { ...migrateOptions(opened, policy), undo }),
      terminal,
    );
    for (const step of undo)
      terminal.print(
        `data step ${step.name}: ${step.undo ? 'undone, if it ran' : 'has no undo, so its rows are unchanged'}`,
      );
    terminal.print(`the database matches the file of run ${target.id}. svc.yaml was not changed`);
    const steps = undo.map((step) => ({ name: step.name, undone: step.undo !== undefined }));
    return { data: { target: target.id, ...applied, data_steps: steps } };
  });
}

const BUSY = {
  message: 'another instance is still running the long steps of this migration',
  hint: 'Run it again afterwards. Run svc migrate status to list the remaining steps.',
} as const;

async function report(
  outcome: MigrationOutcome,
  terminal: Terminal,
): Promise<Pick<Applied, 'run' | 'statements'>> {
  switch (outcome.kind) {
    case 'unchanged':
      terminal.print('nothing to do: the database matches the file');
      return { run: null, statements: 0 };
    case 'elsewhere':
      throw new CommandFailure(MIGRATE_EXIT.busy, `MIG-402 ${BUSY.message}\n  → ${BUSY.hint}`, undefined, [
        { code: 'MIG-402', severity: 'error', ...BUSY },
      ]);
    case 'superseded':
      throw new CommandFailure(
        MIGRATE_EXIT.refused,
        `${outcome.superseded.code} ${describeSuperseded(outcome.superseded)}\n  → ${remedyFor(outcome.superseded)}`,
        undefined,
        [
          {
            code: outcome.superseded.code,
            severity: 'error',
            message: describeSuperseded(outcome.superseded),
            hint: remedyFor(outcome.superseded),
          },
        ],
      );
    case 'refused':
      throw refusal(outcome.problems, outcome.begun);
    case 'applied': {
      const { plan: made, runId } = outcome;
      for (const hint of renderProblems(made.hints)) terminal.print(hint);
      const late = await outcome.background;
      if (late.length > 0) throw refusal(late, true);
      const { length } = made.steps;
      terminal.print(
        `applied and verified: ${length} ${length === 1 ? 'statement' : 'statements'}, run ${runId}`,
      );
      return { run: runId, statements: length };
    }
  }
}
