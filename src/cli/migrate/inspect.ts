// `status`, `drift` and `history`: what the database is beside the file, and how it came to be so.
import { planModel } from '../../migrate/commands/plan.ts';
import { readRetired } from '../../migrate/commands/prune.ts';
import { stepLine } from '../../migrate/commands/render.ts';
import type { MigrationPlan } from '../../migrate/make-plan.ts';
import { renderProblems } from '../../migrate/problem.ts';
import { toModel } from '../../migrate/schema/declared.ts';
import type { SchemaModel } from '../../migrate/schema/model.ts';
import { readHistory, readRun } from '../../migrate/state/history.ts';
import { readUnmanagedObjects } from '../../migrate/state/unmanaged.ts';
import { CommandFailure } from '../exit.ts';
import type { Terminal } from '../terminal.ts';
import { MIGRATE_EXIT, refusal } from './exit.ts';
import { describeSuperseded } from '../../migrate/state/superseded.ts';
import { type CommonOptions, policyFrom } from './options.ts';
import { migrateOptions, type Opened, planFile, withDatabase } from './project.ts';

export async function status(options: CommonOptions, terminal: Terminal): Promise<void> {
  await withDatabase(options, terminal, async (opened) => {
    // What nobody declared is only found by comparing everything.
    const { plan, state, superseded } = await planFile(opened, policyFrom({}, opened.project), 'full');
    const print = (label: string, text: string): void => terminal.print(`${label.padEnd(10)} ${text}`);
    print(
      'applied',
      state === null
        ? 'nothing yet'
        : `${state.schemaHash.slice(0, 8)} at ${state.appliedAt.toISOString()}${state.complete ? '' : ', background work left'}`,
    );
    print('file', plan.schemaHash.slice(0, 8));
    if (superseded) print('superseded', `${superseded.code} ${describeSuperseded(superseded)}`);
    const { length } = plan.steps;
    print('pending', length === 0 ? 'nothing' : `${length} statements (svc migrate plan)`);
    for (const { what, name, owner } of plan.foreign) print('foreign', `${what} ${name} of ${owner}`);
    for (const one of renderProblems(plan.problems)) print('refused', one);
    for (const one of plan.unmanaged) print('unmanaged', `${one.what} ${one.name} of ${one.table}`);
    for (const one of await listUnmanaged(opened, toModel(opened.project.config), plan))
      print('unmanaged', one);
    for (const one of await opened.owner.session(readRetired)) {
      const since = one.since.toISOString().slice(0, 10);
      const weight =
        one.kind === 'extension'
          ? 'still installed'
          : one.column === null
            ? `${one.values} rows  ${Math.ceil(one.bytes / 1_024)} kB`
            : `${one.values} values`;
      print('retired', `${one.identity}  since ${since}  ${weight}`);
    }
  });
}

export async function drift(options: CommonOptions, terminal: Terminal): Promise<void> {
  await withDatabase(options, terminal, async (opened) => {
    const run = await opened.owner.session((session) => readRun(session));
    if (run === null) return terminal.print('nothing was applied yet, so nothing can have drifted');
    const policy = { allow: ['authz_open'], allowRollback: true };
    const result = await planModel(run.model, () => null, migrateOptions(opened, policy));
    if (result.kind === 'refused') throw refusal(result.problems);
    const { steps, unmanaged, foreign } = result.plan;
    const policies = unmanaged.filter((one) => one.what === 'policy');
    for (const one of unmanaged) {
      const effect = one.what === 'policy' ? '   it opens more than the file says' : '';
      terminal.print(`unmanaged  ${one.what} ${one.name} of ${one.table}${effect}`);
    }
    for (const one of await listUnmanaged(opened, run.model, result.plan))
      terminal.print(`unmanaged  ${one}`);
    for (const { what, name, owner } of foreign) terminal.print(`~ ${what} ${name}: belongs to ${owner}`);
    for (const step of steps) terminal.print(stepLine({ ...step, at: step.identity }));
    if (steps.length + policies.length + foreign.length === 0)
      return terminal.print('no drift: the database is as the last run left it');
    throw new CommandFailure(
      MIGRATE_EXIT.drift,
      [
        '\nThe database was changed beside the file.',
        ...(steps.length + foreign.length > 0
          ? ['The lines with a sign lead back to the last run; svc migrate apply runs them.']
          : []),
        ...(policies.length > 0
          ? ['A policy that is not in the file stays as it is: declare it under rls, or drop it yourself.']
          : []),
      ].join(' '),
    );
  });
}

/** Objects that no file declared. */
async function listUnmanaged(
  { owner }: Opened,
  model: SchemaModel,
  { schemas }: MigrationPlan,
): Promise<string[]> {
  const found = await owner.session((session) => readUnmanagedObjects(session, model, schemas));
  return found.map((one) => `${one.what} ${one.name}${one.open ? '   open to callers' : ''}`);
}

export async function history(options: CommonOptions & { limit: number }, terminal: Terminal): Promise<void> {
  await withDatabase(options, terminal, async ({ owner }) => {
    const runs = await owner.session((session) => readHistory(session, options.limit));
    if (runs.length === 0) return terminal.print('no runs yet');
    for (const run of runs) {
      const took = run.finishedAt ? `${run.finishedAt.getTime() - run.startedAt.getTime()} ms` : '';
      const hashes = `${(run.parentHash ?? '').slice(0, 8).padEnd(8)} → ${run.schemaHash.slice(0, 8)}`;
      const head = `${run.id.padStart(5)}  ${run.startedAt.toISOString()}  ${run.kind.padEnd(6)} ${run.status.padEnd(11)}`;
      const error = run.error ? `\n       ${run.error}` : '';
      terminal.print(`${head} ${hashes}  ${run.steps} statements  ${took}  ${run.instance}${error}`);
    }
  });
}
