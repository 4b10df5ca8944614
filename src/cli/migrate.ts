// `svc migrate`: see what a change of the file would do, do it, and look after what was done. The exit codes are
// for deploy scripts and documented in docs/migrations.md.
import { readFile, writeFile } from 'node:fs/promises';
import { Command, Option } from 'commander';
import { hasCode } from '../lib/error-code.ts';
import { readByHand } from '../migrate/state/by-hand.ts';
import { locator, toModel } from '../migrate/schema/declared.ts';
import { readCurrentRun, readTargetRun, withRenamesReversed } from '../migrate/state/history.ts';
import { readHistory } from '../migrate/state/state.ts';
import { readLive } from '../migrate/schema/read-live.ts';
import {
  migrateModel,
  planModel,
  PROVEN,
  policyOf,
  type MigrateOptions,
  type MigrationOutcome,
  type MigrationPolicy,
  type Planned,
} from '../migrate/migrate.ts';
import { EMPTY_MODEL, type SchemaModel } from '../migrate/schema/model.ts';
import { THOROUGH, type MigrationPlan, type Trust } from '../migrate/make-plan.ts';
import { renderProblems, type MigrationProblem } from '../migrate/problem.ts';
import { renderPulled } from '../migrate/commands/pull.ts';
import { fingerprint, renderPlan, renderSql, toArtifact } from '../migrate/commands/render.ts';
import { renameInFile } from '../migrate/commands/edit-file.ts';
import { prune, readRetired } from '../migrate/commands/prune.ts';
import { silentLog } from '../log/log.ts';
import { describeAddress, parseAddress } from '../postgres/address.ts';
import { OwnerDatabase } from '../postgres/owner-database.ts';
import { CommandFailure } from './exit.ts';
import { withOwner } from './migrate-database.ts';
import { loadProject, type Project } from './project.ts';
import type { Terminal } from './terminal.ts';

export const MIGRATE_EXIT = {
  pending: 2,
  refused: 3,
  drift: 4,
  busy: 5,
  data: 6,
  invalid: 7,
  unreachable: 8,
} as const;

type CommonOptions = { config?: string };

type ChangeOptions = CommonOptions & {
  allow?: string[];
  drop?: 'retire' | 'refuse' | 'drop';
  direct?: boolean;
  strictRollout?: boolean;
  allowRollback?: boolean;
  deploySeq?: number;
  lockTimeout?: number;
  lockBudget?: number;
  maxWriteBlock?: number;
  bootBudget?: number;
};

type PlanOptions = ChangeOptions & { check?: boolean; json?: boolean; sql?: boolean; out?: string };

export function migrateCommand(terminal: Terminal): Command {
  const command = new Command('migrate').description(
    'bring the database in line with svc.yaml, and look after it',
  );
  const add = (name: string, description: string): Command =>
    command
      .command(name)
      .description(description)
      .option('-c, --config <location>', 'the configuration file');
  changeOptions(
    command
      .command('plan', { isDefault: true })
      .description('show what would be done; changes nothing')
      .option('-c, --config <location>', 'the configuration file')
      .option('--check', 'exit 2 when something is pending')
      .option('--json', 'print the plan as JSON')
      .option('--sql', 'print the plan as SQL')
      .option('--out <file>', 'save the plan for `svc migrate apply <file>`'),
  ).action(async (options: PlanOptions) => await plan(options, terminal));
  changeOptions(
    add('apply', 'do it').argument('[plan]', 'a saved plan; refused when anything changed since'),
  ).action(async (file: string | undefined, options: ChangeOptions) => await apply(file, options, terminal));
  add('status', 'what is applied, pending and retired').action(
    async (options: CommonOptions) => await status(options, terminal),
  );
  add('drift', 'what was changed in the database by hand').action(
    async (options: CommonOptions) => await drift(options, terminal),
  );
  changeOptions(
    add('down', 'go back to the file of an earlier run').argument(
      '[run]',
      'a run of `svc migrate history`; default: the file before',
    ),
  ).action(async (run: string | undefined, options: ChangeOptions) => await down(run, options, terminal));
  add('prune', 'drop retired tables and columns')
    .argument('[names...]', 'what to drop, as `svc migrate status` names it; default: all that is old enough')
    .option('--allow <hazard...>', 'data_loss=<name> for each one that holds values')
    .action(
      async (names: string[], options: CommonOptions & { allow?: string[] }) =>
        await pruneRetired(names, options, terminal),
    );
  command
    .command('pull')
    .description('write an existing database as a svc.yaml')
    .option('--schema <schema...>', 'schemas to read', ['public'])
    .option('--table <glob>', 'only tables that match, `*` for any text')
    .option('--out <file>', 'write to this file instead of the terminal')
    .action(
      async (options: { schema: string[]; table?: string; out?: string }) => await pull(options, terminal),
    );
  add('history', 'the runs so far')
    .option('--limit <n>', 'how many', Number, 20)
    .action(async (options: CommonOptions & { limit: number }) => await history(options, terminal));
  add('rename', 'write a rename of a table or field into the file')
    .argument('<path>', 'todos, or todos.title')
    .argument('<name>', 'the new name')
    .action(
      async (path: string, name: string, options: CommonOptions) =>
        await rename(path, name, options, terminal),
    );
  return command;
}

function changeOptions(command: Command): Command {
  return command
    .option('--allow <hazard...>', 'accept a hazard: authz_open=<name>, data_loss=<name>, rewrite=<name>')
    .addOption(new Option('--drop <how>', 'what a removal becomes').choices(['retire', 'refuse', 'drop']))
    .option('--direct', 'take the short way also on large tables, under a lock')
    .option('--strict-rollout', 'refuse what may break a replica with the previous file')
    .option('--allow-rollback', 'apply a file that was replaced by a newer one')
    .option('--deploy-seq <n>', 'number of this deployment; an older one never migrates', Number)
    .option('--lock-timeout <ms>', 'how long one attempt waits for a lock', Number)
    .option('--lock-budget <ms>', 'how long to keep trying', Number)
    .option(
      '--boot-budget <ms>',
      'how long to wait for work that blocks nobody before it goes to the background',
      Number,
    )
    .option('--max-write-block <ms>', 'how long writers may be held before a change goes online', Number);
}

function policyFrom(options: ChangeOptions): Partial<MigrationPolicy> {
  return {
    ...(options.allow ? { allow: options.allow } : {}),
    ...(options.drop ? { drop: options.drop } : {}),
    ...(options.direct ? { direct: true } : {}),
    ...(options.strictRollout ? { strictRollout: true } : {}),
    ...(options.allowRollback ? { allowRollback: true } : {}),
    ...(options.deploySeq === undefined ? {} : { deploySeq: options.deploySeq }),
    ...(options.lockTimeout === undefined ? {} : { lockTimeoutMs: options.lockTimeout }),
    ...(options.lockBudget === undefined ? {} : { lockBudgetMs: options.lockBudget }),
    ...(options.bootBudget === undefined ? {} : { bootBudgetMs: options.bootBudget }),
    ...(options.maxWriteBlock === undefined ? {} : { maxWriteBlockMs: options.maxWriteBlock }),
  };
}

type Opened = { readonly project: Project; readonly owner: OwnerDatabase; readonly url: string };

async function withDatabase<T>(
  options: CommonOptions,
  terminal: Terminal,
  work: (opened: Opened) => Promise<T>,
): Promise<T> {
  const project = await loadProject(
    { ...options, mode: 'development', mistakesExit: MIGRATE_EXIT.invalid, env: process.env },
    terminal,
  );
  return await withOwner(
    project.env['SVC_DATABASE_URL'],
    project.directory,
    {
      applicationName: 'svc-migrate',
      max: 3,
      unready: ({ message, hint }) =>
        new CommandFailure(MIGRATE_EXIT.unreachable, `error: ${message}${hint ? `\n  → ${hint}` : ''}`),
    },
    (owner, url) => work({ project, owner, url }),
  );
}

function databaseName(url: string): string {
  return describeAddress(parseAddress(url));
}

function migrateOptions({ project, owner }: Opened, policy: Partial<MigrationPolicy>): MigrateOptions {
  return { owner, config: project.config, instance: 'svc migrate', log: silentLog, policy };
}

async function planned(
  opened: Opened,
  policy: Partial<MigrationPolicy>,
  trust: Trust = PROVEN,
): Promise<Extract<Planned, { kind: 'planned' }>> {
  const { config } = opened.project;
  const result = await planModel(toModel(config), locator(config), migrateOptions(opened, policy), trust);
  if (result.kind === 'planned') return result;
  throw refusal(result.problems);
}

async function plan(options: PlanOptions, terminal: Terminal): Promise<void> {
  await withDatabase(options, terminal, async (opened) => {
    const policy = policyFrom(options);
    const { plan: made, stamp, superseded } = await planned(opened, policy);
    const locate = locator(opened.project.config);
    if (options.out) await writeFile(options.out, `${JSON.stringify(toArtifact(made, locate), null, 2)}\n`);
    if (options.json) terminal.print(JSON.stringify(toArtifact(made, locate), null, 2));
    else if (options.sql)
      terminal.print(renderSql(made, policyOf({ config: opened.project.config, policy }).lockTimeoutMs));
    else {
      const paint = (style: Parameters<Terminal['style']>[0], text: string): string =>
        terminal.style(style, text);
      terminal.print(
        renderPlan(made, {
          paint,
          locate,
          database: databaseName(opened.url),
          appliedAt: stamp?.appliedAt ?? null,
        }),
      );
      if (superseded)
        terminal.print('this file was replaced by a newer one; applying it needs --allow-rollback');
    }
    if (made.problems.length > 0) throw new CommandFailure(exitOf(made.problems), '');
    if (options.check && made.steps.length > 0) throw new CommandFailure(MIGRATE_EXIT.pending, '');
  });
}

async function apply(file: string | undefined, options: ChangeOptions, terminal: Terminal): Promise<void> {
  await withDatabase(options, terminal, async (opened) => {
    const policy = policyFrom(options);
    const { config } = opened.project;
    if (file !== undefined) await checkSavedPlan(file, (await planned(opened, policy)).plan);
    const outcome = await migrateModel(toModel(config), locator(config), migrateOptions(opened, policy));
    await report(outcome, terminal);
  });
}

/** A saved plan is a promise about what will run: anything else than exactly that is stale. */
async function checkSavedPlan(file: string, now: MigrationPlan): Promise<void> {
  const saved: unknown = JSON.parse(await readFile(file, 'utf8'));
  const print =
    typeof saved === 'object' && saved !== null && 'fingerprint' in saved ? saved.fingerprint : null;
  if (print === fingerprint(now)) return;
  throw new CommandFailure(
    MIGRATE_EXIT.drift,
    `MIG-404 ${file}: the catalog or the file changed since the plan was made\n  → Make a new one: svc migrate plan --out ${file}`,
  );
}

async function report(outcome: MigrationOutcome, terminal: Terminal): Promise<void> {
  switch (outcome.kind) {
    case 'unchanged':
      return terminal.print('nothing to do: the database is what the file says');
    case 'elsewhere':
      throw new CommandFailure(
        MIGRATE_EXIT.busy,
        'MIG-402 another instance still has the long steps of this migration under way\n  → Run it again when that is done; svc migrate status says what is left.',
      );
    case 'superseded':
      throw new CommandFailure(
        MIGRATE_EXIT.refused,
        `MIG-403 this file (${outcome.schemaHash.slice(0, 8)}) was replaced by ${outcome.by.slice(0, 8)}\n  → To go back on purpose: --allow-rollback, or svc migrate down.`,
      );
    case 'refused':
      throw refusal(outcome.problems, outcome.begun);
    case 'applied': {
      for (const hint of renderProblems(outcome.plan.hints)) terminal.print(hint);
      const late = await outcome.background;
      if (late.length > 0) throw refusal(late, true);
      const steps = outcome.plan.steps.length;
      return terminal.print(
        `applied and verified: ${steps} ${steps === 1 ? 'statement' : 'statements'}, run ${outcome.runId}`,
      );
    }
  }
}

function refusal(problems: readonly MigrationProblem[], begun = false): CommandFailure {
  const state = begun
    ? 'What was done before that stays; svc migrate status says what is left. Mend what is refused and run it again: it goes on from there.'
    : 'Nothing was changed.';
  return new CommandFailure(exitOf(problems), `${renderProblems(problems).join('\n')}\n\n${state}`);
}

function exitOf(problems: readonly MigrationProblem[]): number {
  const codes = problems.map((one) => one.code);
  if (codes.includes('MIG-101') || codes.includes('MIG-207')) return MIGRATE_EXIT.invalid;
  if (codes.some((code) => code.startsWith('MIG-20'))) return MIGRATE_EXIT.data;
  if (codes.includes('MIG-401') || codes.includes('MIG-402')) return MIGRATE_EXIT.busy;
  return MIGRATE_EXIT.refused;
}

async function status(options: CommonOptions, terminal: Terminal): Promise<void> {
  await withDatabase(options, terminal, async (opened) => {
    // What nobody declared is only found by looking at everything.
    const { plan: made, stamp, superseded } = await planned(opened, {}, THOROUGH);
    const retired = await opened.owner.session(readRetired);
    const print = (label: string, text: string): void => terminal.print(`${label.padEnd(10)} ${text}`);
    print(
      'applied',
      stamp === null
        ? 'nothing yet'
        : `${stamp.schemaHash.slice(0, 8)} at ${stamp.appliedAt.toISOString()}${stamp.complete ? '' : ', background work left'}`,
    );
    print('file', `${made.schemaHash.slice(0, 8)}${superseded ? ' (replaced by a newer one)' : ''}`);
    print(
      'pending',
      made.steps.length === 0 ? 'nothing' : `${made.steps.length} statements (svc migrate plan)`,
    );
    for (const one of renderProblems(made.problems)) print('refused', one);
    for (const one of made.unmanaged) print('unmanaged', `${one.what} ${one.name} of ${one.table}`);
    for (const one of await listByHand(opened, toModel(opened.project.config), made)) print('unmanaged', one);
    for (const one of retired) {
      const what = one.column === null ? 'rows' : 'values';
      print(
        'retired',
        `${one.identity}  since ${one.since.toISOString().slice(0, 10)}  ${one.values} ${what}${one.column === null ? `  ${Math.ceil(one.bytes / 1_024)} kB` : ''}`,
      );
    }
  });
}

async function drift(options: CommonOptions, terminal: Terminal): Promise<void> {
  await withDatabase(options, terminal, async (opened) => {
    const run = await opened.owner.session(readCurrentRun);
    if (run === null) return terminal.print('nothing was applied yet, so nothing can have drifted');
    const result = await planModel(
      run.model,
      () => null,
      migrateOptions(opened, { allow: ['authz_open'], allowRollback: true }),
    );
    if (result.kind === 'refused') throw refusal(result.problems);
    const { steps, unmanaged } = result.plan;
    const policies = unmanaged.filter((one) => one.what === 'policy').length;
    for (const one of unmanaged)
      terminal.print(
        `unmanaged  ${one.what} ${one.name} of ${one.table}${one.what === 'policy' ? '   it opens more than the file says' : ''}`,
      );
    for (const one of await listByHand(opened, run.model, result.plan)) terminal.print(`unmanaged  ${one}`);
    for (const step of steps) terminal.print(`${step.sign} ${step.identity}: ${step.summary}`);
    if (steps.length === 0 && policies === 0)
      return terminal.print('no drift: the database is as the last run left it');
    throw new CommandFailure(
      MIGRATE_EXIT.drift,
      [
        '\nThe database was changed beside the file.',
        ...(steps.length > 0
          ? ['The lines with a sign lead back to the last run; svc migrate apply runs them.']
          : []),
        ...(policies > 0
          ? ['A policy that is not in the file stays as it is: declare it under rls, or drop it yourself.']
          : []),
      ].join(' '),
    );
  });
}

/** What stands by itself and is nobody's declaration, in words. */
async function listByHand(
  { owner }: Opened,
  model: SchemaModel,
  { schemas }: MigrationPlan,
): Promise<string[]> {
  const found = await owner.session((session) => readByHand(session, model, schemas));
  return found.map((one) => `${one.what} ${one.name}${one.open ? '   open to callers' : ''}`);
}

async function down(run: string | undefined, options: ChangeOptions, terminal: Terminal): Promise<void> {
  await withDatabase(options, terminal, async (opened) => {
    const [current, target] = await opened.owner.session(async (session) => {
      const now = await readCurrentRun(session);
      return [now, await readTargetRun(session, run ?? null, now?.schemaHash ?? '')] as const;
    });
    if (target === null)
      throw new CommandFailure(
        MIGRATE_EXIT.refused,
        'error: there is no such run to go back to\n  → svc migrate history lists them.',
      );
    const model: SchemaModel = withRenamesReversed(target.model, current?.model ?? EMPTY_MODEL);
    const policy = { ...policyFrom(options), allowRollback: true, kind: 'down' } as const;
    const outcome = await migrateModel(model, () => null, migrateOptions(opened, policy));
    await report(outcome, terminal);
    terminal.print(`the database follows the file of run ${target.id}; svc.yaml itself was not changed`);
  });
}

async function pruneRetired(
  names: readonly string[],
  options: CommonOptions & { allow?: string[] },
  terminal: Terminal,
): Promise<void> {
  await withDatabase(options, terminal, async ({ project, owner }) => {
    const { config } = project;
    const policy = policyOf({ config });
    const pruned = await owner.session((session) =>
      prune(session, {
        names,
        allow: options.allow ?? [],
        pruneAfterMs: config.migrations.pruneAfterMs,
        now: new Date(),
        model: toModel(config),
        locks: policy,
      }),
    );
    if (pruned.problems.length > 0) throw refusal(pruned.problems);
    if (pruned.dropped.length === 0)
      return terminal.print('nothing to prune: nothing retired is old enough (name it to drop it sooner)');
    for (const one of pruned.dropped) terminal.print(`dropped ${one.identity}`);
  });
}

async function pull(
  options: { schema: string[]; table?: string; out?: string },
  terminal: Terminal,
): Promise<void> {
  const url = process.env['SVC_DATABASE_URL'];
  if (!url)
    throw new CommandFailure(
      MIGRATE_EXIT.unreachable,
      'error: SVC_DATABASE_URL is not set\n  → It names the database to read.',
    );
  const pattern =
    options.table === undefined
      ? undefined
      : new RegExp(`^${options.table.replace(/[.+?^${}()|[\]\\]/g, '\\$&').replaceAll('*', '.*')}$`);
  // As the user who asks: a database that is only read is not provisioned for it.
  const owner = new OwnerDatabase({ url, applicationName: 'svc-migrate', max: 1, idleTimeoutMs: 5_000 });
  try {
    const live = await owner.session((session) => readLive(session, options.schema));
    const text = renderPulled(live, {
      only: pattern ? (key) => pattern.test(key) || pattern.test(key.slice(key.indexOf('.') + 1)) : undefined,
    });
    if (options.out === undefined) return terminal.print(text.trimEnd());
    await writeFile(options.out, text, { flag: 'wx' }).catch((error: unknown) => {
      if (!hasCode(error, 'EEXIST')) throw error;
      throw new CommandFailure(
        MIGRATE_EXIT.refused,
        `error: ${options.out} is there already, and pull writes over nothing\n  → Name another file with --out, or move that one away.`,
      );
    });
    terminal.print(
      `wrote ${options.out}: ${live.tables.size} tables. Look at it, then: svc migrate plan -c ${options.out}`,
    );
  } finally {
    await owner.close();
  }
}

async function history(options: CommonOptions & { limit: number }, terminal: Terminal): Promise<void> {
  await withDatabase(options, terminal, async ({ owner }) => {
    const runs = await owner.session((session) => readHistory(session, options.limit));
    if (runs.length === 0) return terminal.print('no runs yet');
    for (const run of runs) {
      const took = run.finishedAt ? `${run.finishedAt.getTime() - run.startedAt.getTime()} ms` : '';
      terminal.print(
        `${run.id.padStart(5)}  ${run.startedAt.toISOString()}  ${run.kind.padEnd(6)} ${run.status.padEnd(11)} ${(run.parentHash ?? '').slice(0, 8).padEnd(8)} → ${run.schemaHash.slice(0, 8)}  ${run.steps} statements  ${took}  ${run.instance}${run.error ? `\n       ${run.error}` : ''}`,
      );
    }
  });
}

async function rename(path: string, name: string, options: CommonOptions, terminal: Terminal): Promise<void> {
  const project = await loadProject(
    { ...options, mode: 'development', mistakesExit: MIGRATE_EXIT.invalid, env: process.env },
    terminal,
  );
  const { source } = project.config;
  if (source.directory === undefined)
    throw new CommandFailure(MIGRATE_EXIT.invalid, 'error: a remote file cannot be edited here');
  await writeFile(source.name, renameInFile(source.text, path, name));
  terminal.print(
    `${source.name}: ${path} is now ${name}, with renamed_from. Expressions that name it are yours to change; svc validate and svc migrate plan find them.`,
  );
}
