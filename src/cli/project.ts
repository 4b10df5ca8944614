// The project a command works on: file read, variables gathered, mistakes shown. Everything after this has a
// Config that holds.
import { resolve } from 'node:path';
import type { Config } from '../config/config.ts';
import { brokenLines, readModeVariables, type Mode } from '../config/read/env-file.ts';
import { loadConfig, type Loaded } from '../config/load.ts';
import type { Mistake } from '../config/mistakes/mistake.ts';
import { renderMistakes } from '../config/mistakes/report.ts';
import { readSource, type Source } from '../config/read/source.ts';
import type { Environment } from './environment.ts';
import { CommandFailure, EXIT } from './exit.ts';
import type { Terminal } from './terminal.ts';

export type Project = {
  readonly config: Config;
  /** As messages name it. */
  readonly source: string;
  /** Directory of the file; the working directory when the file is remote. */
  readonly directory: string;
  readonly env: Environment;
  /** Absolute paths whose change means a reload. */
  readonly files: readonly string[];
};

export type ProjectOptions = {
  readonly config?: string | undefined;
  readonly strict?: boolean | undefined;
  readonly mode: Mode;
  /** Whether a variable that the file refers to and nobody has set is a mistake; it is by default. */
  readonly unsetVariables?: 'warn' | undefined;
  /** How the command ends when the file has mistakes. */
  readonly mistakesExit?: number | undefined;
  /** The shell's environment. */
  readonly env: Environment;
};

export async function loadProject(options: ProjectOptions, terminal: Terminal): Promise<Project> {
  const source = await readSource(options.config, process.cwd());
  const env = readModeVariables(source.directory, options.mode, options.env);
  for (const line of brokenLines(source.directory, options.mode)) {
    terminal.printError(`warning: ${line} sets nothing\n  → A line of an environment file is NAME=value.\n`);
  }
  const { loaded, unset } = load(source, env, options);
  const report = { file: source.name, text: source.text, color: terminal.color };
  if (!loaded.ok) {
    const errors = loaded.mistakes.filter((mistake) => mistake.severity === 'error').length;
    const total = `${errors} ${errors === 1 ? 'mistake' : 'mistakes'} in ${source.name}`;
    throw new CommandFailure(
      options.mistakesExit ?? EXIT.badConfiguration,
      `${renderMistakes(loaded.mistakes, report)}\n\n${total}`,
    );
  }
  const warnings = [...unset, ...loaded.warnings];
  if (warnings.length > 0) terminal.printError(`${renderMistakes(warnings, report)}\n`);
  const directory = source.directory ?? process.cwd();
  return {
    config: loaded.config,
    source: source.name,
    directory,
    env,
    files:
      source.directory === undefined
        ? []
        : [resolve(source.name), ...loaded.files.map((file) => resolve(directory, file))],
  };
}

type Read = { readonly loaded: Loaded; readonly unset: readonly Mistake[] };

/** What a key takes cannot be known of a variable: text, a number, a duration, an address. */
const STAND_INS = ['set-where-it-runs', '1', '30s', 'true', 'https://set.example', 'set@where.example'];

/** With `unsetVariables: 'warn'` a variable that has no value is no reason to fail, and hides no other mistake. */
function load(source: Source, env: Environment, { strict, unsetVariables }: ProjectOptions): Read {
  const loaded = loadConfig(source, { variables: env, strict });
  if (loaded.ok || unsetVariables !== 'warn') return { loaded, unset: [] };
  const missing = loaded.mistakes.filter(({ code }) => code === 'missing-variable');
  if (missing.length === 0) return { loaded, unset: [] };
  const unset = missing.map((one) => ({ ...one, severity: 'warning' as const }));
  const names = new Set([...source.text.matchAll(/\$\{([A-Za-z_]\w*)/g)].map(([, name]) => name ?? ''));
  const callbacks = missing
    .filter(({ path }) => path[0] === 'auth' && path.at(-1) === 'redirect_url')
    .map(({ path }) => `https://set.example/auth/v1/callback/${path.at(-2)}`);
  const standIns = [...STAND_INS, ...callbacks];
  let values: Environment = { ...Object.fromEntries([...names].map((name) => [name, STAND_INS[0]])), ...env };
  let best = loadConfig(source, { variables: values, strict });
  for (const name of names) {
    if (env[name] !== undefined) continue;
    for (const standIn of standIns) {
      if (best.ok) return { loaded: best, unset };
      const variables = { ...values, [name]: standIn };
      const next = loadConfig(source, { variables, strict });
      if (!next.ok && next.mistakes.length >= best.mistakes.length) continue;
      best = next;
      values = variables;
    }
  }
  if (best.ok) return { loaded: best, unset };
  // What is said about a stand-in is no mistake of the user's.
  const unsetKeys = new Set(missing.map(keyOf));
  const others = best.mistakes.filter((one) => !unsetKeys.has(keyOf(one)));
  if (!others.some(({ severity }) => severity === 'error')) return { loaded, unset: [] };
  return { loaded: { ok: false, mistakes: [...unset, ...others] }, unset: [] };
}

function keyOf({ path }: Mistake): string {
  return path.join('.');
}
