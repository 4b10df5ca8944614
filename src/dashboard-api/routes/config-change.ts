// GET /config, POST /config/plan and POST /config/apply: changes of svc.yaml. Before a change is written, the file is
// checked and the migration is planned against the running database.
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { Config } from '../../config/config.ts';
import type { Source } from '../../config/read/source.ts';
import { loadSqlParser } from '../../config/sql/parser.ts';
import type { ConfigEdit } from '../../config/edit/edit.ts';
import {
  editConfig,
  replaceTexts,
  textsOfParts,
  withTexts,
  type Texts,
} from '../../config/edit/edit-parts.ts';
import { overriddenChanges } from '../../config/edit/overridden.ts';
import { readModeVariables } from '../../config/read/env-file.ts';
import type { LoadOptions } from '../../config/load.ts';
import { renderPath, type Mistake } from '../../config/mistakes/mistake.ts';
import { keysForRestart } from '../../config/restart-keys.ts';
import { checkSyntax } from '../../functions/sources/check.ts';
import { diffLines } from '../../lib/text/line-diff.ts';
import { SerialQueue } from '../../lib/limits/serial-queue.ts';
import { checkPending, planMigration, type PendingCheck } from '../../migrate/commands/plan.ts';
import type { MigrateOptions } from '../../migrate/migrate.ts';
import { HAZARD_TEXTS } from '../../migrate/plan/step.ts';
import type { MigrationProblem } from '../../migrate/problem.ts';
import { describeSuperseded, remedyFor, type Superseded } from '../../migrate/state/superseded.ts';
import { Problem } from '../../problem/problem.ts';
import { valueMask } from '../../shared-config/shared-source.ts';
import {
  isWritable,
  notEditable,
  localPath,
  readConfigFile,
  replaceConfigFiles,
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
} from '../contract.ts';
import type { DashboardContext } from '../dashboard-context.ts';
import { assertSingleInstance, countInstances, loadWrittenFile } from '../local-files.ts';
import { fileChanged } from '../problem.ts';
import { readSharedFile, sharedFileChanged, type SharedFile } from '../shared-file.ts';
import { reloadPolicy } from '../reload-policy.ts';
import { readJson } from '../request.ts';
import type { DashboardRoutes, Handler } from './route.ts';

const MAX_EDITS = 100;

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
  z.strictObject({ version: VERSION, edits: z.array(EDIT).min(1).max(MAX_EDITS) }),
  z.strictObject({
    version: VERSION,
    text: z.string().refine((text) => text.isWellFormed(), 'must be text that UTF-8 can write'),
  }),
]);
type Change = z.infer<typeof CHANGE>;

export const configRoutes: DashboardRoutes = (context) => {
  // Run changes one after another, so that the second of two changes against the same version is rejected.
  const queue = new SerialQueue();
  const apply: Handler = async (request, reply) => {
    const change = await readJson(request, CHANGE);
    return await queue.run(() => applyChange(context, change, reply));
  };
  return [
    ['GET', '/config', 'read', () => showFile(context)],
    ['POST', '/config/plan', 'read', (request, reply) => planChange(context, request, reply)],
    ['POST', '/config/apply', 'write', apply],
  ];
};

async function showFile(context: DashboardContext): Promise<ConfigFile> {
  const { source, version } = await readFile(context);
  const instances = await countInstances(context);
  const shared = context.following?.shared;
  const editable = shared !== undefined || (instances === 1 && (await isWritable(source)));
  const states = shared ? await shared.status(version) : null;
  const includes = [...textsOfParts(source).keys()].filter((path) => path !== '');
  const { overlay = null } = context.snapshot().config.source;
  const { name, text } = source;
  return { name, text, includes, overlay, version, editable, instances, shared: states };
}

async function planChange(
  context: DashboardContext,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<ConfigPlan | FastifyReply> {
  const change = await readJson(request, CHANGE);
  const { source } = await readVersion(context, change);
  const checked = await checkChange(context, source, change);
  if (!checked.ok) return sendRefusal(reply, checked.refusal);
  const { texts, warnings } = checked;
  const plan = await planChecked(context, checked);
  return {
    text: mainText(source, checked),
    diff: diffTexts(source, texts),
    warnings: warnings.map(toFileMistake),
    ...plan,
    hints: [...overlaidHints(context, source, texts), ...plan.hints],
  };
}

async function applyChange(
  context: DashboardContext,
  change: Change,
  reply: FastifyReply,
): Promise<ConfigApplied | FastifyReply> {
  const former = await readVersion(context, change);
  const { source } = former;
  const shared = context.following?.shared;
  if (shared === undefined) {
    if (localPath(source) === undefined) throw notEditable(source.name);
    await assertSingleInstance(context);
  }
  const checked = await checkChange(context, source, change);
  if (!checked.ok) return sendRefusal(reply, checked.refusal);
  const { problems } = await planChecked(context, checked);
  if (problems.length > 0) return sendRefusal(reply, planRefused(problems));
  if (shared) return await saveShared(context, shared, former, checked, reply);
  const version = await replaceConfigFiles(source, checked.texts, former.version);
  context.log.info(
    { file: source.name, parts: [...checked.texts.keys()] },
    'the dashboard changed the configuration',
  );
  return { version, text: mainText(source, checked), pending: await loadChange(context, checked.config) };
}

function mainText(source: Source, { texts }: CheckedChange): string {
  return texts.get('') ?? source.text;
}

/** Returns the diffs of all changed files. Each included file starts with its path. */
function diffTexts(source: Source, texts: Texts): ConfigPlan['diff'] {
  const former = textsOfParts(source);
  return [...texts].flatMap(([path, text]) => {
    const lines = diffLines(former.get(path) ?? '', text);
    return path === '' || lines.length === 0 ? lines : [{ sign: ' ', text: `# ${path}`, line: 0 }, ...lines];
  });
}

/** Saves the change for all instances at once. */
async function saveShared(
  context: DashboardContext,
  shared: SharedFile,
  { version: base, source }: ReadFile,
  checked: CheckedChange,
  reply: FastifyReply,
): Promise<ConfigApplied | FastifyReply> {
  const { config } = checked;
  const text = mainText(source, checked);
  const saved = await shared.save(text, config, base, context.log).catch(async (error: unknown) => {
    const current = await shared.read();
    if (error instanceof Problem && error.code === 'config_conflict' && current)
      throw sharedFileChanged(current, base, text);
    throw error;
  });
  if (saved.problems.length > 0) return sendRefusal(reply, planRefused(saved.problems.map(toProblem)));
  context.log.info({ config: saved.id }, 'the dashboard changed the configuration of all instances');
  const pending = await checkPending(migrateOptions(context, config));
  return { version: saved.id, text, pending: toPending(pending) };
}

function readFile(context: DashboardContext): Promise<ReadFile> {
  const shared = context.following?.shared;
  return shared ? readSharedFile(shared) : readConfigFile(context.snapshot().config.source);
}

async function readVersion(context: DashboardContext, change: Change): Promise<ReadFile> {
  const former = await readFile(context);
  if (former.version === change.version) return former;
  const current = await context.following?.shared?.read();
  if (!current) throw fileChanged(former.source.name);
  const wanted = await checkChange(context, former.source, change);
  throw sharedFileChanged(
    current,
    change.version,
    wanted.ok ? mainText(former.source, wanted) : current.text,
  );
}

type CheckedChange = {
  readonly ok: true;
  /** New content of the changed files, keyed by path. */
  readonly texts: Texts;
  readonly config: Config;
  readonly warnings: readonly Mistake[];
};

async function checkChange(
  context: DashboardContext,
  source: Source,
  change: Change,
): Promise<CheckedChange | { readonly ok: false; readonly refusal: ApiError }> {
  const options = loadOptions(context, source);
  // The edited file may name SQL files.
  await loadSqlParser();
  const edited =
    'text' in change
      ? replaceTexts(source, new Map([['', change.text]]), options)
      : editConfig(source, change.edits, options);
  return edited.ok ? edited : { ok: false, refusal: configRefused(edited.mistakes) };
}

function loadOptions({ following, dev, env }: DashboardContext, source: Source): LoadOptions {
  const { directory, mode = dev ? 'development' : 'production' } = source;
  const variables = following?.variables?.() ?? readModeVariables(directory, mode, env);
  return { variables, strict: following?.strict };
}

async function planChecked(
  context: DashboardContext,
  { config }: CheckedChange,
): Promise<Pick<ConfigPlan, 'steps' | 'problems' | 'hints'>> {
  const functions = await functionProblem(context, config);
  if (functions) return { steps: [], problems: [functions], hints: [] };
  const planned = await planMigration(migrateOptions(context, config));
  const mask = valueMask(config.source.text, loadOptions(context, config.source).variables);
  const toMasked = (problem: MigrationProblem): PlanProblem => {
    const { hint, ...rest } = toProblem(problem);
    return { ...rest, message: mask(problem.message), hint: hint === null ? null : mask(hint) };
  };
  if (planned.kind === 'refused') return { steps: [], problems: planned.problems.map(toMasked), hints: [] };
  const { steps, problems, hints } = planned.plan;
  return {
    steps: steps.map(({ sign, at, summary, sql, lock, rewrites, hazards }) => {
      const effects = hazards.flatMap((hazard) => HAZARD_TEXTS[hazard] ?? []);
      return { sign, at, summary: mask(summary), sql: mask(sql), lock, rewrites, hazards: effects };
    }),
    problems: [
      ...problems.map(toMasked),
      ...(planned.superseded ? [supersededProblem(planned.superseded)] : []),
    ],
    hints: [...hints.map(toMasked), ...restartHints(context, config)],
  };
}

/**
 * Returns hints for changes that an overlay hides. Forms and the text editor change svc.yaml and its includes, but no
 * overlay.
 */
function overlaidHints(context: DashboardContext, source: Source, texts: Texts): PlanProblem[] {
  const found = overriddenChanges(source, withTexts(source, texts), loadOptions(context, source));
  return (found?.paths ?? []).map((at) => ({
    code: 'overlay',
    at,
    message: `has no effect in this mode: ${found?.overlay} sets another value, and the dashboard does not change it`,
    hint: `Change it in ${found?.overlay} by hand.`,
  }));
}

/** Returns hints for changed settings that a reload does not apply. */
function restartHints(context: DashboardContext, config: Config): PlanProblem[] {
  const message = 'takes effect when the service is restarted';
  const keys = keysForRestart(context.snapshot().config, config);
  return keys.map((at) => ({ code: 'restart', at, message, hint: null }));
}

/** Returns the problem for which a reload would reject the code functions, before the file is written. */
async function functionProblem(context: DashboardContext, config: Config): Promise<PlanProblem | undefined> {
  try {
    await context.functions.check(config);
    await checkChangedHandlers(context, config);
    return undefined;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    const { code, details, hint } = error;
    const message = details === undefined ? error.message : `${error.message} (${details})`;
    return { code, at: 'functions', message, hint: hint ?? null };
  }
}

/** Parses the handlers of functions that are new or have a different file. */
async function checkChangedHandlers({ snapshot }: DashboardContext, config: Config): Promise<void> {
  const { directory } = config.source;
  if (directory === undefined || config.functionsBundle !== undefined) return;
  const served = new Map(snapshot().config.functions.map(({ name, file }) => [name, file]));
  for (const fn of config.functions) {
    if (served.get(fn.name) === fn.file) continue;
    await checkSyntax(fn, readFileSync(resolve(directory, fn.file), 'utf8'));
  }
}

function supersededProblem(superseded: Superseded): PlanProblem {
  const message = describeSuperseded(superseded);
  return { code: superseded.code, at: '', message, hint: remedyFor(superseded) };
}

/** Loads the written file and returns the migration steps that are still pending. */
async function loadChange(context: DashboardContext, config: Config): Promise<Pending | null> {
  const reload = context.following?.reload;
  if (!reload) return null;
  await loadWrittenFile(context, reload);
  return toPending(await checkPending(migrateOptions(context, config)));
}

function toPending(pending: PendingCheck): Pending {
  return pending.kind === 'pending'
    ? { kind: 'pending', steps: [...pending.words], problems: pending.problems.map(toProblem) }
    : { kind: pending.kind };
}

function migrateOptions(context: DashboardContext, config: Config): MigrateOptions {
  const { owner, log } = context;
  return { owner, config, log, policy: reloadPolicy(context, config) };
}

/** Sends the body directly, because a Problem cannot carry a list of mistakes. */
function sendRefusal(reply: FastifyReply, refusal: ApiError): FastifyReply {
  reply.request.scope.refusal = { code: refusal.code, hint: refusal.hint ?? undefined };
  return reply.code(422).send(refusal);
}

function configRefused(mistakes: readonly Mistake[]): ApiError {
  // Warnings do not reject a change.
  const errors = mistakes.filter(({ severity }) => severity === 'error');
  return refusal('config_refused', 'The file would have mistakes', errors.map(toFileMistake));
}

function planRefused(problems: readonly PlanProblem[]): ApiError {
  const mistakes = problems.map(({ at: path, message, hint }) => {
    return { path, file: null, line: null, column: null, message, hint };
  });
  return refusal('plan_refused', 'The database cannot follow this change', mistakes);
}

function refusal(code: string, message: string, mistakes: FileMistake[]): ApiError {
  return { code, message, details: null, hint: 'Nothing was changed.', mistakes };
}

function toFileMistake({ path, position, message, hint }: Mistake): FileMistake {
  const { file = null, line, column } = position;
  return { path: renderPath(path), file, line, column, message, hint: hint ?? null };
}

function toProblem({ code, at, message, hint }: MigrationProblem): PlanProblem {
  return { code, at, message, hint };
}
