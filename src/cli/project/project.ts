// Loads the project of a command: reads the file, collects the variables and prints mistakes. Every command
// uses it.
import { resolve } from 'node:path';
import type { Config } from '../../config/config.ts';
import { loadSqlParser } from '../../config/sql/parser.ts';
import { loadConfig, type Loaded } from '../../config/load.ts';
import type { Mistake } from '../../config/mistakes/mistake.ts';
import { renderMistakes } from '../../config/mistakes/report.ts';
import type { Mode } from '../../config/mode.ts';
import { brokenLines, readModeVariables } from '../../config/read/env-file.ts';
import { prepareToRead, readAllTexts } from '../../config/read/read-parts.ts';
import { readSource, type Source } from '../../config/read/source.ts';
import type { Environment } from '../environment.ts';
import { CommandFailure, EXIT, failure } from '../exit.ts';
import { mistakeProblems } from '../report/mistake-problems.ts';
import type { Terminal } from '../terminal.ts';

export type Project = {
  readonly config: Config;
  /** Name in messages. */
  readonly source: string;
  /** Name of the overlay in messages. */
  readonly overlay: string | undefined;
  /** Directory of the file, or the working directory for a remote file. */
  readonly directory: string;
  readonly env: Environment;
  /** Unset variables of the file, if they are not mistakes. */
  readonly unset: readonly Mistake[];
  /** Absolute paths of the files with texts of the configuration. */
  readonly files: readonly string[];
  /** Absolute paths that trigger a reload: the file, the files that it includes, and the folders above. */
  readonly watched: readonly string[];
};

export type ProjectOptions = {
  readonly config?: string | undefined;
  /** A source that was read already. It takes precedence over `config`. */
  readonly source?: Source | undefined;
  readonly strict?: boolean | undefined;
  /** Whether to parse SQL and handlers of code functions. */
  readonly syntax?: boolean | undefined;
  /** Base of relative data directories. Default: the directory of the file. */
  readonly dataDirectory?: string | undefined;
  /** Selects the overlay and the environment files. */
  readonly mode: Mode;
  /** Unset variables with these names get a placeholder. For commands that only need the names. */
  readonly standIns?: RegExp | undefined;
  /** Severity of unset variables. Default: a mistake. */
  readonly unsetVariables?: 'warning' | 'note' | undefined;
  /**
   * Whether unset variables of the mail provider count in development. Default: if `unsetVariables` is
   * set.
   */
  readonly requireVariables?: boolean | undefined;
  /** Exit code if the file has mistakes. */
  readonly mistakesExit?: number | undefined;
};

export async function loadProject(options: ProjectOptions, terminal: Terminal): Promise<Project> {
  return acceptProject(await readProject(options), options, terminal);
}

/** Prints warnings of a file that was read, and throws for mistakes. */
export function acceptProject(
  { source, env, loaded, unset }: ReadProject,
  options: Pick<ProjectOptions, 'mode' | 'mistakesExit'>,
  terminal: Terminal,
): Project {
  for (const line of brokenLines(source.directory, options.mode)) {
    terminal.printError(
      `warning: ${line} sets nothing\n  → Write lines of an environment file as NAME=value.\n`,
    );
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

/** Throws for a remote file, for commands that need the sources next to the file. */
export function requireLocal({ config }: Project, message: string): void {
  if (config.source.directory !== undefined) return;
  throw failure(EXIT.badConfiguration, message, 'Pass a local file with --config.');
}

export type ReadProject = {
  readonly source: Source;
  readonly env: Environment;
  readonly loaded: Loaded;
  /** Warnings or notes about unset variables. */
  readonly unset: readonly Mistake[];
};

/** Reads the project without printing or throwing mistakes. */
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
  const { strict, syntax } = options;
  if (syntax === true) await loadSqlParser();
  const requireVariables = options.requireVariables ?? options.unsetVariables !== undefined;
  await prepareToRead(source);
  const loaded = loadConfig(source, { variables: env, strict, syntax, requireVariables });
  if (loaded.ok || options.unsetVariables === undefined) return { source, env, loaded, unset: [] };
  return { source, env, ...withGuesses(source, env, loaded, options, options.unsetVariables) };
}

const TEXT_STAND_IN = 'set-where-it-runs';

/** The type of a variable's key is unknown: it may be a text, a number, a duration or an address. */
const STAND_INS = [
  TEXT_STAND_IN,
  '1',
  '30s',
  'true',
  'https://set.example',
  'set@where.example',
  '192.0.2.1',
];

/** Tries values for unset variables, so that they do not fail the file and do not hide other mistakes. */
function withGuesses(
  source: Source,
  env: Environment,
  { mistakes, included }: Extract<Loaded, { ok: false }>,
  { strict, syntax }: Pick<ProjectOptions, 'strict' | 'syntax'>,
  severity: 'warning' | 'note',
): Pick<ReadProject, 'loaded' | 'unset'> {
  const unchanged = { loaded: { ok: false, mistakes, included }, unset: [] } as const;
  const missing = mistakes.filter(({ code }) => code === 'missing-variable');
  if (missing.length === 0) return unchanged;
  const unset = missing.map((mistake) => ({ ...mistake, severity }));
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
  if (best.ok && syntax === true) best = loadConfig(source, { variables: values, strict, syntax });
  if (best.ok) return { loaded: best, unset };
  // Mistakes about a placeholder are not the user's.
  const unsetKeys = new Set(missing.map(mistakeKey));
  const remaining = best.mistakes.filter((mistake) => !unsetKeys.has(mistakeKey(mistake)));
  if (!remaining.some(({ severity }) => severity === 'error')) return unchanged;
  return { loaded: { ok: false, mistakes: [...unset, ...remaining], included }, unset: [] };
}

/** Returns the names of variables without a default in the file. */
function referencesIn(source: Source): string[] {
  return [
    ...new Set([...readAllTexts(source).matchAll(/\$\{([A-Za-z_]\w*)\}/g)].map(([, name]) => name ?? '')),
  ];
}

function mistakeKey({ path }: Mistake): string {
  return path.join('.');
}
