// The project a command works on: file read, variables gathered, mistakes shown. Every command reads it here.
import { resolve } from 'node:path';
import type { Config } from '../config/config.ts';
import { loadOrKept } from '../config/kept/kept-config.ts';
import { loadConfig, type Loaded } from '../config/load.ts';
import type { Mistake } from '../config/mistakes/mistake.ts';
import { renderMistakes } from '../config/mistakes/report.ts';
import type { Mode } from '../config/mode.ts';
import { brokenLines, readModeVariables } from '../config/read/env-file.ts';
import { textsOf } from '../config/read/read-parts.ts';
import { readSource, type Source } from '../config/read/source.ts';
import type { ModelDigest } from '../migrate/state/applied-state.ts';
import { digestConfig, rememberDigest } from '../migrate/state/config-digest.ts';
import type { Environment } from './environment.ts';
import { CommandFailure, EXIT, failure } from './exit.ts';
import { mistakeProblems } from './report/mistake-problems.ts';
import type { Terminal } from './terminal.ts';

export type Project = {
  readonly config: Config;
  /** As messages name it. */
  readonly source: string;
  /** The overlay that is laid over it, as messages name it. */
  readonly overlay: string | undefined;
  /** Directory of the file; the working directory when the file is remote. */
  readonly directory: string;
  readonly env: Environment;
  /** Variables that the file refers to and nobody has set, where that is no mistake. */
  readonly unset: readonly Mistake[];
  /** Absolute paths of what texts of the file stand in. */
  readonly files: readonly string[];
  /** Absolute paths whose change means a reload: the file, those that it includes and those above. */
  readonly watched: readonly string[];
  /** Keeps what was read for the next start, where the options ask for that. */
  readonly keep: () => void;
  /** False where what an earlier process has kept has spared reading all of it. */
  readonly isReadWhole: boolean;
};

export type ProjectOptions = {
  readonly config?: string | undefined;
  /** Read already; `config` then names nothing. */
  readonly source?: Source | undefined;
  readonly strict?: boolean | undefined;
  /** Where relative directories of data start from, if not beside the file. */
  readonly dataDirectory?: string | undefined;
  /** Which overlay and which environment files count. */
  readonly mode: Mode;
  /** Unset variables of these names get a made-up text: where only their names matter. */
  readonly standIns?: RegExp | undefined;
  /** What a variable is that the file refers to and nobody has set: a mistake by default. */
  readonly unsetVariables?: 'warning' | 'note' | undefined;
  /** Whether what an earlier process has kept of the same file may be taken. */
  readonly mayBeKept?: boolean | undefined;
  /** How the command ends when the file has mistakes. */
  readonly mistakesExit?: number | undefined;
};

export async function loadProject(options: ProjectOptions, terminal: Terminal): Promise<Project> {
  return acceptProject(await readProject(options), options, terminal);
}

/** Shows what is wrong in a file that was read, and throws for mistakes. */
export function acceptProject(
  { source, env, loaded, unset, keep, isReadWhole }: ReadProject,
  options: Pick<ProjectOptions, 'mode' | 'mistakesExit'>,
  terminal: Terminal,
): Project {
  for (const line of brokenLines(source.directory, options.mode)) {
    terminal.printError(`warning: ${line} sets nothing\n  → A line of an environment file is NAME=value.\n`);
  }
  const report = {
    file: source.name,
    text: source.text,
    included: loaded.included.texts,
    color: terminal.color,
  };
  if (!loaded.ok) {
    const errors = loaded.mistakes.filter((mistake) => mistake.severity === 'error');
    const files = new Set(errors.map(({ position }) => position.file ?? source.name));
    const total = `${errors.length} ${errors.length === 1 ? 'mistake' : 'mistakes'} in ${[...files].join(', ')}`;
    throw new CommandFailure(
      options.mistakesExit ?? EXIT.badConfiguration,
      `${renderMistakes(loaded.mistakes, report)}\n\n${total}`,
      undefined,
      mistakeProblems(loaded.mistakes, source.name),
    );
  }
  const warnings = [...unset, ...loaded.warnings];
  if (warnings.length > 0) terminal.printError(`${renderMistakes(warnings, report)}\n`);
  const directory = source.directory ?? process.cwd();
  return {
    config: loaded.config,
    source: source.name,
    overlay: loaded.included.overlay?.name,
    directory,
    env,
    unset,
    keep,
    isReadWhole,
    files: source.directory === undefined ? [] : loaded.files.map((file) => resolve(directory, file)),
    watched:
      source.directory === undefined
        ? []
        : [
            source.name,
            ...[...loaded.files, ...loaded.included.watched].map((file) => resolve(directory, file)),
          ].map((file) => resolve(file)),
  };
}

/** For commands that work on the sources beside the file. */
export function requireLocal({ config }: Project, what: string): void {
  if (config.source.directory !== undefined) return;
  throw failure(EXIT.badConfiguration, what, 'Name the local file with --config.');
}

export type ReadProject = {
  readonly source: Source;
  readonly env: Environment;
  readonly loaded: Loaded;
  /** Warnings or notes about variables that nobody has set. */
  readonly unset: readonly Mistake[];
  readonly keep: Project['keep'];
  readonly isReadWhole: boolean;
};

/** The same without a word about mistakes. */
export async function readProject(options: ProjectOptions): Promise<ReadProject> {
  const { dataDirectory } = options;
  const source = {
    ...(options.source ?? (await readSource(options.config, process.cwd()))),
    mode: options.mode,
    ...(dataDirectory !== undefined && { dataDirectory }),
  };
  const env = { ...readModeVariables(source.directory, options.mode, process.env) };
  for (const name of options.standIns ? referencesIn(source) : [])
    if (options.standIns?.test(name)) env[name] ??= TEXT_STAND_IN;
  const { strict } = options;
  const secret = options.mayBeKept === true ? env['SVC_SECRET_KEY'] : undefined;
  const how = { variables: env, strict, secret };
  const { loaded, extra, keep, isReadWhole } = await loadOrKept<ModelDigest>(source, how);
  if (loaded.ok && extra) rememberDigest(loaded.config, extra);
  if (loaded.ok || options.unsetVariables === undefined) {
    const keepIt = (): void => {
      if (loaded.ok) keep?.(digestConfig(loaded.config));
    };
    return { source, env, loaded, unset: [], keep: keepIt, isReadWhole };
  }
  const guessed = withGuesses(source, env, loaded, strict, options.unsetVariables);
  return { source, env, ...guessed, keep: () => {}, isReadWhole };
}

const TEXT_STAND_IN = 'set-where-it-runs';

/** What a key takes cannot be known of a variable: text, a number, a duration, an address. */
const STAND_INS = [
  TEXT_STAND_IN,
  '1',
  '30s',
  'true',
  'https://set.example',
  'set@where.example',
  '192.0.2.1',
];

/** Tries values for the unset variables, so that they are no reason to fail and hide no other mistake. */
function withGuesses(
  source: Source,
  env: Environment,
  { mistakes, included }: Extract<Loaded, { ok: false }>,
  strict: boolean | undefined,
  severity: 'warning' | 'note',
): Pick<ReadProject, 'loaded' | 'unset'> {
  const refused = { loaded: { ok: false, mistakes, included }, unset: [] } as const;
  const missing = mistakes.filter(({ code }) => code === 'missing-variable');
  if (missing.length === 0) return refused;
  const unset = missing.map((one) => ({ ...one, severity }));
  const callbacks = missing
    .filter(({ path }) => path[0] === 'auth' && path.at(-1) === 'redirect_url')
    .map(({ path }) => `https://set.example/auth/v1/callback/${path.at(-2)}`);
  const names = referencesIn(source).filter((name) => env[name] === undefined);
  let values: Environment = { ...env, ...Object.fromEntries(names.map((name) => [name, TEXT_STAND_IN])) };
  let best = loadConfig(source, { variables: values, strict });
  for (const name of names) {
    for (const standIn of [...STAND_INS, ...callbacks]) {
      if (best.ok) break;
      const variables = { ...values, [name]: standIn };
      const next = loadConfig(source, { variables, strict });
      if (!next.ok && next.mistakes.length >= best.mistakes.length) continue;
      best = next;
      values = variables;
    }
  }
  if (best.ok) return { loaded: best, unset };
  // Mistakes about a stand-in are not the user's.
  const unsetKeys = new Set(missing.map(keyOf));
  const others = best.mistakes.filter((one) => !unsetKeys.has(keyOf(one)));
  if (!others.some(({ severity }) => severity === 'error')) return refused;
  return { loaded: { ok: false, mistakes: [...unset, ...others], included }, unset: [] };
}

/** Names of variables that have no default in the file. */
function referencesIn(source: Source): string[] {
  return [...new Set([...textsOf(source).matchAll(/\$\{([A-Za-z_]\w*)\}/g)].map(([, name]) => name ?? ''))];
}

function keyOf({ path }: Mistake): string {
  return path.join('.');
}
