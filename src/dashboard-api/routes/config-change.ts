// GET /config, POST /config/plan and /config/apply: changes of svc.yaml, judged in full before a byte is written:
// by the checks of the file and by a migration plan against the running database.
import type { FastifyReply } from 'fastify';
import { z } from 'zod';
import type { Config } from '../../config/config.ts';
import type { Source } from '../../config/read/source.ts';
import { editConfigText, type ConfigEdit } from '../../config/edit/edit.ts';
import { readModeVariables } from '../../config/read/env-file.ts';
import type { Variables } from '../../config/read/interpolate.ts';
import { loadConfig, type LoadOptions } from '../../config/load.ts';
import { renderPath, type Mistake } from '../../config/mistakes/mistake.ts';
import { keysForRestart } from '../../config/restart-keys.ts';
import { diffLines } from '../../lib/line-diff.ts';
import { secretMask } from '../../lib/secret-mask.ts';
import { SerialQueue } from '../../lib/serial-queue.ts';
import {
  checkPending,
  DEV_POLICY,
  planMigration,
  SERVE_POLICY,
  type MigrateOptions,
} from '../../migrate/migrate.ts';
import type { MigrationProblem } from '../../migrate/problem.ts';
import type { Step } from '../../migrate/plan/step.ts';
import { Problem } from '../../problem/problem.ts';
import { readJson } from '../json-body.ts';
import {
  isWritable,
  notEditable,
  pathOf,
  readConfigFile,
  replaceConfigFile,
  type ReadFile,
} from '../config-file.ts';
import type {
  ApiError,
  ConfigApplied,
  ConfigFile,
  ConfigPlan,
  FileMistake,
  Pending,
  PlanProblem,
  PlanStep,
} from '../contract.ts';
import type { DashboardContext, DashboardRoutes } from '../dashboard-context.ts';
import { assertFilesAreEverybodys, countInstances, takeWritten } from '../local-files.ts';
import { fileChanged } from '../problem.ts';

const MOST_EDITS = 100;

const PATH = z
  .array(z.union([z.string(), z.int().nonnegative()]))
  .min(1)
  .max(20);
const EDIT: z.ZodType<ConfigEdit> = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('set'), path: PATH, value: z.json() }),
  z.object({ kind: z.literal('append'), path: PATH, value: z.json() }),
  z.object({ kind: z.literal('delete'), path: PATH }),
  z.object({ kind: z.literal('rename'), path: PATH, name: z.string() }),
]);
const VERSION = z.string();
const CHANGE = z.union([
  z.strictObject({ version: VERSION, edits: z.array(EDIT).min(1).max(MOST_EDITS) }),
  z.strictObject({
    version: VERSION,
    text: z.string().refine((text) => text.isWellFormed(), 'must be text that UTF-8 can write'),
  }),
]);
type Change = z.infer<typeof CHANGE>;

export const configRoutes: DashboardRoutes = (app, context) => {
  // One at a time: of two changes made against the same version, the second must see the first.
  const queue = new SerialQueue();

  app.get('/config', async (): Promise<ConfigFile> => {
    const { source, version } = await readConfigFile(context.snapshot().config.source);
    const instances = await countInstances(context);
    const editable = instances === 1 && (await isWritable(source));
    return { name: source.name, text: source.text, version, editable, instances };
  });

  app.post('/config/plan', async (request, reply) => {
    const change = await readJson(request, CHANGE);
    const former = await readVersion(context, change.version);
    const made = makeChange(context, former.source, change);
    return made.ok ? await planChange(context, former, made) : sendRefusal(reply, made.refusal);
  });

  app.post('/config/apply', { config: { dashboard: 'write' } }, async (request, reply) => {
    const change = await readJson(request, CHANGE);
    return await queue.run(async () => {
      const former = await readVersion(context, change.version);
      if (pathOf(former.source) === undefined) throw notEditable(former.source.name);
      await assertFilesAreEverybodys(context);
      const made = makeChange(context, former.source, change);
      if (!made.ok) return sendRefusal(reply, made.refusal);
      const { problems } = await planMade(context, made);
      if (problems.length > 0) return sendRefusal(reply, planRefused(problems));
      const version = await replaceConfigFile(former.source, made.text, former.version);
      context.log.info({ file: former.source.name }, 'the dashboard changed the configuration');
      return { version, text: made.text, pending: await take(context, made.config) } satisfies ConfigApplied;
    });
  });
};

async function readVersion(context: DashboardContext, version: string): Promise<ReadFile> {
  const former = await readConfigFile(context.snapshot().config.source);
  if (former.version !== version) throw fileChanged(former.source.name);
  return former;
}

type Made = {
  readonly ok: true;
  readonly text: string;
  readonly config: Config;
  readonly warnings: readonly Mistake[];
};

function makeChange(
  context: DashboardContext,
  source: Source,
  change: Change,
): Made | { readonly ok: false; readonly refusal: ApiError } {
  const options = loadOptions(context, source);
  const edited =
    'text' in change
      ? { ok: true as const, text: change.text }
      : editConfigText(source, change.edits, options);
  if (!edited.ok) return { ok: false, refusal: configRefused(edited.mistakes) };
  const loaded = loadConfig({ ...source, text: edited.text }, options);
  if (!loaded.ok) return { ok: false, refusal: configRefused(loaded.mistakes) };
  return { ok: true, text: edited.text, config: loaded.config, warnings: loaded.warnings };
}

function loadOptions({ following, dev, env }: DashboardContext, { directory }: Source): LoadOptions {
  const variables =
    following?.variables?.() ?? readModeVariables(directory, dev ? 'development' : 'production', env);
  return { variables, strict: following?.strict };
}

type PlanOfChange = Pick<ConfigPlan, 'steps' | 'problems' | 'hints'>;

async function planMade(context: DashboardContext, { text, config }: Made): Promise<PlanOfChange> {
  const functions = await functionProblem(context, config);
  if (functions) return { steps: [], problems: [functions], hints: [] };
  const planned = await planMigration(migrateOptions(context, config));
  const written = asWritten(text, loadOptions(context, config.source).variables);
  const toWritten = (one: MigrationProblem): PlanProblem => {
    const { hint, ...rest } = toProblem(one);
    return { ...rest, message: written(one.message), hint: hint === null ? null : written(hint) };
  };
  if (planned.kind === 'refused') return { steps: [], problems: planned.problems.map(toWritten), hints: [] };
  const { steps, problems, hints } = planned.plan;
  return {
    steps: steps.map((step) => ({
      ...toStep(step),
      summary: written(step.summary),
      sql: written(step.sql),
    })),
    problems: [...problems.map(toWritten), ...(planned.superseded ? [SUPERSEDED] : [])],
    hints: [...hints.map(toWritten), ...restartHints(context, config)],
  };
}

/** What the service goes on without once it took the file. */
function restartHints(context: DashboardContext, config: Config): PlanProblem[] {
  return keysForRestart(context.snapshot().config, config).map((key) => ({
    code: 'restart',
    at: key,
    message: 'takes effect when the service is restarted',
    hint: null,
  }));
}

/** What a reload would refuse about the code functions, before the file is written. */
async function functionProblem(context: DashboardContext, config: Config): Promise<PlanProblem | undefined> {
  try {
    await context.functions.check(config);
    return undefined;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    const { code, message, details, hint } = error;
    return {
      code,
      at: 'functions',
      message: details === undefined ? message : `${message} (${details})`,
      hint: hint ?? null,
    };
  }
}

/** Puts the references back for the values they stood for: those may be secrets, and a plan is looked at by many. */
function asWritten(text: string, variables: Variables): (shown: string) => string {
  const names = Array.from(text.matchAll(/\$\{([A-Za-z_]\w*)/g), ([, name = '']) => name);
  return secretMask(names.map((name) => [variables[name] ?? '', `\${${name}}`] as const));
}

const SUPERSEDED: PlanProblem = {
  code: 'superseded',
  at: '',
  message: 'This schema was replaced by a newer one before, and the service does not go back by itself',
  hint: 'Change the file by hand and run svc migrate apply --allow-rollback.',
};

async function planChange(context: DashboardContext, former: ReadFile, made: Made): Promise<ConfigPlan> {
  return {
    text: made.text,
    diff: diffLines(former.source.text, made.text),
    warnings: made.warnings.map(toFileMistake),
    ...(await planMade(context, made)),
  };
}

/** The file is written; now the service takes it as after any other change of it. */
async function take(context: DashboardContext, config: Config): Promise<Pending | null> {
  const reload = context.following?.reload;
  if (!reload) return null;
  await takeWritten(context, reload);
  const pending = await checkPending(migrateOptions(context, config));
  return pending.kind === 'pending'
    ? { kind: 'pending', steps: [...pending.words], problems: pending.problems.map(toProblem) }
    : pending;
}

function migrateOptions(context: DashboardContext, config: Config): MigrateOptions {
  const { owner, log, dev, following } = context;
  return { owner, config, log, policy: following?.policy ?? (dev ? DEV_POLICY : SERVE_POLICY) };
}

// Refusals that carry a list are answered here: a Problem has no room for one.

function sendRefusal(reply: FastifyReply, refusal: ApiError): FastifyReply {
  return reply.code(422).send(refusal);
}

function configRefused(mistakes: readonly Mistake[]): ApiError {
  return {
    code: 'config_refused',
    message: 'The file would have mistakes',
    details: null,
    hint: 'Nothing was changed.',
    // Warnings are no reason.
    mistakes: mistakes.filter(({ severity }) => severity === 'error').map(toFileMistake),
  };
}

function planRefused(problems: readonly PlanProblem[]): ApiError {
  return {
    code: 'plan_refused',
    message: 'The database cannot follow this change',
    details: null,
    hint: 'Nothing was changed.',
    mistakes: problems.map(({ at, message, hint }) => ({
      path: at,
      line: null,
      column: null,
      message,
      hint,
    })),
  };
}

function toFileMistake({ path, position, message, hint }: Mistake): FileMistake {
  return {
    path: renderPath(path),
    line: position.line,
    column: position.column,
    message,
    hint: hint ?? null,
  };
}

function toStep({ sign, at, summary, sql, lock, rewrites, hazards }: Step): PlanStep {
  return { sign, at, summary, sql, lock, rewrites, hazards: [...hazards] };
}

function toProblem({ code, at, message, hint }: MigrationProblem): PlanProblem {
  return { code, at, message, hint };
}
