// `svc config`: manages the configuration that all instances share under `svc serve --config database`.
import { hostname, userInfo } from 'node:os';
import { writeFile } from 'node:fs/promises';
import { Command } from 'commander';
import { z } from 'zod';
import type { Config } from '../../config/config.ts';
import { yamlTexts } from '../../config/load.ts';
import { renderPath } from '../../config/mistakes/mistake.ts';
import type { Mode } from '../../config/mode.ts';
import { printedText, type PrintOptions } from '../../config/read/printed-text.ts';
import type { Source } from '../../config/read/source.ts';
import { diffLines } from '../../lib/text/line-diff.ts';
import { silentLog } from '../../log/log.ts';
import type { OwnerDatabase } from '../../postgres/owner-database.ts';
import { Problem } from '../../problem/problem.ts';
import { applyConfig, type ConfigOutcome } from '../../shared-config/apply-config.ts';
import { readApplied, readRow, readRows, type ConfigRow } from '../../shared-config/config-rows.ts';
import { describeStates, readStates } from '../../shared-config/instance-states.ts';
import { assertShareable, toSource } from '../../shared-config/shared-source.ts';
import { CommandFailure, EXIT, failure } from '../exit.ts';
import { withOwner } from '../migrate/database.ts';
import { refusal } from '../migrate/exit.ts';
import { modeOption, type ModeOption } from '../project/mode-option.ts';
import { acceptProject, loadProject, readProject, type Project } from '../project/project.ts';
import { type Findings, reporting } from '../report/reporting.ts';
import type { Terminal } from '../terminal.ts';
import { findOverlays } from './find-overlays.ts';

type PrintCommandOptions = ModeOption & PrintOptions;

type PushOptions = ModeOption & {
  note?: string;
  author?: string;
  base?: string;
  strict?: boolean;
  allow?: string[];
};

const PRINTED = z.strictObject({ text: z.string() });
const APPLIED = z.strictObject({ id: z.string(), same: z.boolean(), changes: z.int() });
const PULLED = z.strictObject({
  id: z.string(),
  author: z.string(),
  file: z.string().nullable(),
  text: z.string(),
  /** Overlays next to the file, with the mode of each and the keys that it sets or removes. */
  overlays: z.array(z.strictObject({ mode: z.string(), overlay: z.string(), keys: z.array(z.string()) })),
});
const DIFFERENCE = z.strictObject({
  id: z.string(),
  lines: z.array(z.strictObject({ sign: z.enum([' ', '+', '-']), text: z.string() })),
});
const HISTORY = z.strictObject({
  configurations: z.array(
    z.strictObject({
      id: z.string(),
      state: z.string(),
      created_at: z.iso.datetime(),
      author: z.string(),
      hash: z.string(),
      note: z.string().nullable(),
      reason: z.string().nullable(),
    }),
  ),
});
const STATUS = z.strictObject({
  applied: z.string(),
  instances: z.array(
    z.strictObject({
      instance: z.string(),
      serves: z.string().nullable(),
      reason: z.string().nullable(),
    }),
  ),
});

export function configCommand(terminal: Terminal): Command {
  const config = new Command('config').description(
    'manage the configuration that instances share in the database (svc serve --config database)',
  );
  reporting(
    config
      .command('print')
      .argument('[file]', 'the configuration file')
      .description('print the file with its includes and its overlay, as it is served; keeps ${VAR}')
      .addOption(modeOption('production'))
      .option('--origins', 'add the file and line of each value')
      .option('--show-secrets', 'also print secrets that are written in the file'),
    terminal,
    PRINTED,
    (out, file: string | undefined, options: PrintCommandOptions) => print(file, options, out),
  );
  reporting(
    pushOptions(config.command('push'))
      .argument('[file]', 'the configuration file')
      .description('check a file, apply it to the database and let all instances serve it')
      .addOption(modeOption('production')),
    terminal,
    APPLIED,
    (out, file: string | undefined, options: PushOptions) => push(file, options, out),
  );
  reporting(
    config
      .command('pull')
      .argument('[file]', 'file to write; - prints the configuration', 'svc.yaml')
      .option('--id <id>', 'id of another configuration than the applied one')
      .description('write the applied configuration to a file'),
    terminal,
    PULLED,
    (out, file: string, { id }: { id?: string }) => pull(file, id, out),
  );
  reporting(
    config
      .command('diff')
      .argument('[file]', 'the configuration file')
      .description('show what a push of the file would change')
      .addOption(modeOption('production')),
    terminal,
    DIFFERENCE,
    (out, file: string | undefined, { mode }: ModeOption) => diff(file, mode, out),
  );
  reporting(
    config
      .command('history')
      .option('--limit <n>', 'number of configurations', Number, 20)
      .description('list configurations, newest first'),
    terminal,
    HISTORY,
    (out, { limit }: { limit: number }) => history(limit, out),
  );
  reporting(
    pushOptions(config.command('rollback'))
      .argument('<id>', 'id from svc config history')
      .description('apply an earlier configuration again'),
    terminal,
    APPLIED,
    (out, id: string, options: PushOptions) => rollback(id, options, out),
  );
  reporting(
    config.command('status').description('show which configuration each instance serves, and why'),
    terminal,
    STATUS,
    (out) => status(out),
  );
  return config;
}

function pushOptions(command: Command): Command {
  return command
    .option('--note <text>', 'note for the history')
    .option('--author <name>', 'author for the history')
    .option('--base <id>', 'reject the change unless this configuration is still applied')
    .option('--strict', 'reject a table without an rls key')
    .option('--allow <hazard...>', 'accept a hazard: authz_open=<name>, data_loss=<name>, rewrite=<name>');
}

async function print(
  file: string | undefined,
  { mode = 'production', ...options }: PrintCommandOptions,
  terminal: Terminal,
): Promise<Findings<z.infer<typeof PRINTED>>> {
  const read = await readProject({ config: file, mode, unsetVariables: 'warning' });
  acceptProject(read, { mode }, terminal);
  const { included } = read.loaded;
  const { text, masked } = printedText(yamlTexts(read.source, included), included.overlay, options);
  terminal.print(text.trimEnd());
  if (masked.length > 0)
    terminal.printError(
      `note: these secrets are written in the file and masked here: ${masked.map(renderPath).join(', ')}\n` +
        '  → Use ${VAR} to keep a secret out of the file. --show-secrets prints them.',
    );
  return { data: { text } };
}

type Applied = Findings<z.infer<typeof APPLIED>>;

async function push(file: string | undefined, options: PushOptions, terminal: Terminal): Promise<Applied> {
  const { source, hasWarned } = await oneFile(file, options.mode, terminal);
  const output = hasWarned ? { ...terminal, printError: () => {} } : terminal;
  const project = await checked({ source, strict: options.strict }, output);
  return await withRows(project.env, (owner) => submit(owner, project, options, terminal));
}

/**
 * Returns the file with its includes and its overlay as one source, without a directory: a shared file
 * contains no relative
 * paths. `hasWarned`: its warnings were printed already, with their places.
 */
async function oneFile(
  file: string | undefined,
  mode: Mode = 'production',
  terminal: Terminal,
): Promise<{ readonly source: Source; readonly hasWarned: boolean }> {
  const read = await readProject({ config: file, mode, unsetVariables: 'warning' });
  const { parts, overlay } = read.loaded.included;
  const hasWarned = parts.length > 0 || overlay !== undefined;
  const { text } = hasWarned
    ? acceptProject(read, { mode, mistakesExit: EXIT.problem }, terminal).config.source
    : read.source;
  return { source: { name: read.source.name, directory: undefined, text }, hasWarned };
}

async function rollback(id: string, options: PushOptions, terminal: Terminal): Promise<Applied> {
  return await withRows(process.env, async (owner) => {
    const row = await requireRow(owner, id);
    const project = await checked({ source: toSource(row), strict: options.strict }, terminal);
    return await submit(owner, project, { note: `back to ${id}`, ...options }, terminal);
  });
}

async function checked(
  options: Pick<Parameters<typeof loadProject>[0], 'source' | 'strict'>,
  terminal: Terminal,
): Promise<Project> {
  const project = await loadProject(
    { ...options, mode: 'production', mistakesExit: EXIT.problem, unsetVariables: 'warning' },
    terminal,
  );
  // The instances know the values of other variables. Values that shape the database must be the same for all
  // instances.
  const shaping = project.unset.filter(({ path }) => SHAPES_THE_DATABASE.has(String(path[0])));
  if (shaping.length > 0)
    throw failure(
      EXIT.problem,
      `the schema depends on variables that are not set: ${shaping.map(({ path }) => path.join('.')).join(', ')}`,
      'Set them to the values of the instances.',
    );
  try {
    assertShareable(project.config);
  } catch (error) {
    if (error instanceof Problem) throw failure(EXIT.problem, error.message, error.hint);
    throw error;
  }
  return project;
}

const SHAPES_THE_DATABASE: ReadonlySet<string> = new Set([
  'tables',
  'rpc',
  'storage',
  'expose',
  'migrations',
]);

async function submit(
  owner: OwnerDatabase,
  { config }: { readonly config: Config },
  options: PushOptions,
  terminal: Terminal,
): Promise<Applied> {
  const { note, author = defaultAuthor(), base, allow } = options;
  if (base !== undefined) assertId(base);
  const outcome = await applyConfig({ text: config.source.text, author, note, base }, config, {
    owner,
    instance: 'svc config',
    log: silentLog,
    policy: allow && { allow },
  }).catch((error: unknown) => {
    if (error instanceof Problem && error.code === 'config_conflict')
      throw new CommandFailure(EXIT.problem, conflictText(error));
    throw error;
  });
  return { data: await report(outcome, terminal) };
}

async function report(outcome: ConfigOutcome, terminal: Terminal): Promise<z.infer<typeof APPLIED>> {
  if (outcome.kind === 'same') {
    terminal.print(`nothing to do: ${outcome.row.id} has the same text and is applied`);
    return { id: outcome.row.id, same: true, changes: 0 };
  }
  if (outcome.kind === 'refused') throw refusal(outcome.problems);
  const { row, migration, problems } = outcome;
  const steps = migration.kind === 'applied' ? migration.plan.steps.length : 0;
  terminal.print(
    `${terminal.style('green', '✓')} ${row.id} is applied: ` +
      `${steps} ${steps === 1 ? 'change' : 'changes'} in the database. ` +
      'Instances load it now (see svc config status)',
  );
  const late = migration.kind === 'applied' ? await migration.background : problems;
  if (late.length > 0) throw refusal(late, true);
  return { id: row.id, same: false, changes: steps };
}

function conflictText({ message, details, hint }: Problem): string {
  return `error: ${message}\n${details ?? ''}\n  → ${hint ?? ''}`;
}

async function pull(
  file: string,
  id: string | undefined,
  terminal: Terminal,
): Promise<Findings<z.infer<typeof PULLED>>> {
  return await withRows(process.env, async (owner) => {
    const row = id === undefined ? await requireApplied(owner) : await requireRow(owner, id);
    const { author, text } = row;
    if (file === '-') {
      terminal.print(text.replace(/\n$/, ''));
      return { data: { id: row.id, author, file: null, text, overlays: [] } };
    }
    await writeFile(file, text);
    terminal.print(`${terminal.style('green', '✓')} ${file} is ${row.id} (${author})`);
    const overlays = await findOverlays(file);
    for (const { mode, overlay, keys } of overlays)
      terminal.printError(`note: in ${mode}, ${overlay} overrides ${keys.join(', ')}`);
    return { data: { id: row.id, author, file, text, overlays } };
  });
}

async function diff(
  file: string | undefined,
  mode: Mode | undefined,
  terminal: Terminal,
): Promise<Findings<z.infer<typeof DIFFERENCE>>> {
  const { text } = (await oneFile(file, mode, terminal)).source;
  return await withRows(process.env, async (owner) => {
    const row = await requireApplied(owner);
    const lines = diffLines(row.text, text);
    if (lines.length === 0) terminal.print(`no difference from ${row.id}`);
    for (const { sign, text: line } of lines) {
      const shown = `${sign} ${line}`;
      terminal.print(sign === ' ' ? shown : terminal.style(sign === '+' ? 'green' : 'red', shown));
    }
    return { data: { id: row.id, lines: lines.map(({ sign, text: line }) => ({ sign, text: line })) } };
  });
}

async function history(limit: number, terminal: Terminal): Promise<Findings<z.infer<typeof HISTORY>>> {
  return await withRows(process.env, async (owner) => {
    const rows = await readRows(owner, limit);
    for (const { id, state, createdAt, author, hash, note, reason } of rows) {
      const when = createdAt.toISOString().slice(0, 16).replace('T', ' ');
      const more = [note, reason?.split('\n')[0]].filter((text) => text !== null && text !== undefined);
      terminal.print([id.padStart(4), state.padEnd(8), when, hash.slice(0, 8), author, ...more].join('  '));
    }
    const configurations = rows.map(({ id, state, createdAt, author, hash, note, reason }) => ({
      id,
      state,
      created_at: createdAt.toISOString(),
      author,
      hash,
      note: note ?? null,
      reason: reason ?? null,
    }));
    return { data: { configurations } };
  });
}

async function status(terminal: Terminal): Promise<Findings<z.infer<typeof STATUS>>> {
  return await withRows(process.env, async (owner) => {
    const row = await requireApplied(owner);
    const states = await readStates(owner);
    if (states.length === 0) terminal.print(`${row.id} is applied; no instance is running`);
    else for (const line of describeStates(states, row.id)) terminal.print(line);
    const instances = states.map(({ instance, serves, reason }) => ({ instance, serves, reason }));
    return { data: { applied: row.id, instances } };
  });
}

async function requireApplied(owner: OwnerDatabase): Promise<ConfigRow> {
  const row = await readApplied(owner);
  if (row) return row;
  throw failure(
    EXIT.problem,
    'no configuration has been applied in this database',
    'Run: svc config push svc.yaml',
  );
}

async function requireRow(owner: OwnerDatabase, id: string): Promise<ConfigRow> {
  assertId(id);
  const row = await readRow(owner, id);
  if (row) return row;
  throw failure(
    EXIT.problem,
    `the configuration ${id} does not exist`,
    'Run `svc config history` to list them.',
  );
}

function assertId(id: string): void {
  if (!/^\d{1,15}$/.test(id))
    throw failure(
      EXIT.misuse,
      `${JSON.stringify(id)} is not an id`,
      'Run `svc config history` to list them.',
    );
}

function withRows<T>(
  env: Readonly<Record<string, string | undefined>>,
  work: (owner: OwnerDatabase) => Promise<T>,
): Promise<T> {
  return withOwner(env, process.cwd(), { applicationName: 'svc-config', max: 3 }, work);
}

function defaultAuthor(): string {
  try {
    return `${userInfo().username}@${hostname()}`;
  } catch {
    // A container may have no entry for its user.
    return hostname();
  }
}
