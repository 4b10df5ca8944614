// `status`, `drift` and `history`: compare the database with the file, and list the runs.
import type { z } from 'zod';
import { planModel } from '../../migrate/commands/plan.ts';
import { readRetired, type Retired } from '../../migrate/commands/prune.ts';
import { stepLine } from '../../migrate/commands/render.ts';
import type { MigrationPlan } from '../../migrate/make-plan.ts';
import { renderProblems } from '../../migrate/problem.ts';
import { toModel } from '../../migrate/schema/declared.ts';
import type { SchemaModel } from '../../migrate/schema/model.ts';
import { readHistory, readRun } from '../../migrate/state/history.ts';
import { readUnmanagedObjects, type UnmanagedObject } from '../../migrate/state/unmanaged.ts';
import type { Findings } from '../report/reporting.ts';
import type { Terminal } from '../terminal.ts';
import { MIGRATE_EXIT, refusal } from './exit.ts';
import { describeSuperseded } from '../../migrate/state/superseded.ts';
import { type CommonOptions, policyFrom } from './options.ts';
import { migrateOptions, type Opened, planFile, withDatabase } from './project.ts';
import { asJsonProblems, type DRIFTED, type RUNS, type STATUS } from './results.ts';

export async function status(
  options: CommonOptions,
  terminal: Terminal,
): Promise<Findings<z.infer<typeof STATUS>>> {
  return await withDatabase(options, terminal, async (opened) => {
    // Undeclared objects are only found by a full comparison.
    const { plan, state, superseded } = await planFile(opened, policyFrom({}, opened.project), {
      mode: 'full',
    });
    const print = (label: string, text: string): void => terminal.print(`${label.padEnd(10)} ${text}`);
    print(
      'applied',
      state === null
        ? 'nothing yet'
        : `${state.schemaHash.slice(0, 8)} at ${state.appliedAt.toISOString()}` +
            (state.complete ? '' : ', background steps remain'),
    );
    print('file', plan.schemaHash.slice(0, 8));
    if (superseded) print('superseded', `${superseded.code} ${describeSuperseded(superseded)}`);
    const { length } = plan.steps;
    print('pending', length === 0 ? 'nothing' : `${length} statements (svc migrate plan)`);
    for (const { what, name, owner } of plan.foreign)
      print('foreign', describeForeign({ what, name, owner }));
    for (const one of renderProblems(plan.problems)) print('refused', one);
    for (const one of plan.unmanaged) print('unmanaged', `${one.what} ${one.name} of ${one.table}`);
    const objects = await unmanagedObjects(opened, toModel(opened.project.config), plan);
    for (const one of objects) print('unmanaged', unmanagedLine(one));
    const retired = await opened.owner.session(readRetired);
    for (const one of retired) {
      const since = one.since.toISOString().slice(0, 10);
      print('retired', `${one.identity}  since ${since}  ${describeSize(one)}`);
    }
    const data = {
      applied: state && {
        hash: state.schemaHash,
        at: state.appliedAt.toISOString(),
        complete: state.complete,
      },
      file: plan.schemaHash,
      superseded: superseded?.code ?? null,
      pending: length,
      foreign: plan.foreign.map(({ what, name, owner }) => ({ what, name, owner })),
      unmanaged: [
        ...plan.unmanaged.map(({ what, name, table }) => ({
          what,
          name: `${name} of ${table}`,
          open: what === 'policy',
        })),
        ...objects.map(({ what, name, open }) => ({ what, name, open })),
      ],
      retired: retired.map(({ identity, kind, since, values, bytes }) => ({
        name: identity,
        kind,
        since: since.toISOString(),
        values,
        bytes,
      })),
    };
    // The command reports a state, so its exit code is 0 even with problems.
    return { data, problems: asJsonProblems(plan.problems), exitCode: 0 };
  });
}

function describeSize({ kind, values, bytes }: Retired): string {
  switch (kind) {
    case 'extension':
      return 'still installed';
    case 'sequence':
      return 'keeps its numbers';
    case 'table':
      return `${values} rows  ${Math.ceil(bytes / 1_024)} kB`;
    case 'column':
      return `${values} values`;
  }
}

type Drift = Pick<MigrationPlan, 'steps' | 'unmanaged' | 'foreign'> & {
  /** Objects that no file declares, in addition to policies and similar objects of declared tables. */
  readonly undeclared: readonly UnmanagedObject[];
};

/** Returns null if no migration has been applied yet. */
async function readDrift(opened: Opened): Promise<Drift | null> {
  const run = await opened.owner.session((session) => readRun(session));
  if (run === null) return null;
  const policy = { allow: ['authz_open'], allowRollback: true };
  const result = await planModel(run.model, () => null, migrateOptions(opened, policy));
  if (result.kind === 'refused') throw refusal(result.problems);
  return { ...result.plan, undeclared: await unmanagedObjects(opened, run.model, result.plan) };
}

function hasDrifted({ steps, unmanaged, foreign }: Drift): boolean {
  return steps.length + foreign.length > 0 || unmanaged.some(({ what }) => what === 'policy');
}

export async function drift(
  options: CommonOptions,
  terminal: Terminal,
): Promise<Findings<z.infer<typeof DRIFTED>>> {
  return await withDatabase(options, terminal, async (opened) => {
    const found = await readDrift(opened);
    if (found === null) {
      terminal.print('no migration has been applied yet, so there is no drift');
      return { data: { applied: false } };
    }
    const { steps, unmanaged, foreign, undeclared } = found;
    const policies = unmanaged.filter(({ what }) => what === 'policy');
    for (const one of unmanaged) {
      const effect = one.what === 'policy' ? '   grants more access than the file' : '';
      terminal.print(`unmanaged  ${one.what} ${one.name} of ${one.table}${effect}`);
    }
    for (const one of undeclared) terminal.print(`unmanaged  ${unmanagedLine(one)}`);
    for (const { what, name, owner } of foreign)
      terminal.print(`~ ${describeForeign({ what, name, owner })}`);
    for (const step of steps) terminal.print(stepLine({ ...step, at: step.identity }));
    const data = {
      applied: true,
      steps: steps.map(({ identity, summary, sql }) => ({ at: identity, summary, sql })),
      unmanaged: [
        ...unmanaged.map(({ what, name, table }) => ({ what, name, table })),
        ...undeclared.map(({ what, name, open }) => ({ what, name, open })),
      ],
      foreign: foreign.map(({ what, name, owner }) => ({ what, name, owner })),
    };
    if (!hasDrifted(found)) {
      terminal.print('no drift: the database is unchanged since the last run');
      return { data };
    }
    const report = [
      '\nThe database was changed outside of migrations.',
      ...(steps.length + foreign.length > 0
        ? ['The lines with a sign restore the state of the last run. Run svc migrate apply to execute them.']
        : []),
      ...(policies.length > 0
        ? ['svc does not change a policy that is not in the file. Declare it under rls, or drop it yourself.']
        : []),
    ].join(' ');
    return { data, exitCode: MIGRATE_EXIT.drift, report };
  });
}

/** Returns objects that no file declares. */
async function unmanagedObjects(
  { owner }: Opened,
  model: SchemaModel,
  { schemas }: MigrationPlan,
): Promise<UnmanagedObject[]> {
  return await owner.session((session) => readUnmanagedObjects(session, model, schemas));
}

function unmanagedLine({ what, name, open }: UnmanagedObject): string {
  return `${what} ${name}${open ? '   open to callers' : ''}`;
}

export async function history(
  options: CommonOptions & { limit: number },
  terminal: Terminal,
): Promise<Findings<z.infer<typeof RUNS>>> {
  return await withDatabase(options, terminal, async ({ owner }) => {
    const runs = await owner.session((session) => readHistory(session, options.limit));
    if (runs.length === 0) terminal.print('no runs yet');
    for (const run of runs) {
      const took = run.finishedAt ? `${run.finishedAt.getTime() - run.startedAt.getTime()} ms` : '';
      const hashes = `${(run.parentHash ?? '').slice(0, 8).padEnd(8)} → ${run.schemaHash.slice(0, 8)}`;
      const head =
        `${run.id.padStart(5)}  ${run.startedAt.toISOString()}  ${run.kind.padEnd(6)} ` +
        run.status.padEnd(11);
      const error = run.error ? `\n       ${run.error}` : '';
      terminal.print(`${head} ${hashes}  ${run.steps} statements  ${took}  ${run.instance}${error}`);
    }
    const listed = runs.map((run) => ({
      id: run.id,
      kind: run.kind,
      status: run.status,
      started_at: run.startedAt.toISOString(),
      finished_at: run.finishedAt?.toISOString() ?? null,
      from: run.parentHash,
      to: run.schemaHash,
      statements: run.steps,
      instance: run.instance,
      error: run.error,
    }));
    return { data: { runs: listed } };
  });
}

function describeForeign({
  what,
  name,
  owner,
}: Omit<MigrationPlan['foreign'][number], 'at' | 'sql'>): string {
  return `${what} ${name}: ${what === 'extension' ? 'not installed' : `belongs to ${owner}`}`;
}
