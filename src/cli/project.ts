// The project a command works on: file read, variables gathered, mistakes shown. Everything after this has a
// Config that holds.
import { resolve } from 'node:path';
import type { Config, Source } from '../config/config.ts';
import { brokenLines, readModeVariables, type Mode } from '../config/env-file.ts';
import { loadConfig, type Loaded } from '../config/load.ts';
import type { Mistake } from '../config/mistake.ts';
import { renderMistakes } from '../config/report.ts';
import { readSource } from '../config/source.ts';
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

/** With `unsetVariables: 'warn'` a file that lacks nothing but values of variables counts as read. */
function load(source: Source, env: Environment, { strict, unsetVariables }: ProjectOptions): Read {
  const loaded = loadConfig(source, { variables: env, strict });
  if (loaded.ok || unsetVariables !== 'warn') return { loaded, unset: [] };
  const unset = loaded.mistakes.filter(({ code }) => code === 'missing-variable');
  if (unset.length === 0) return { loaded, unset: [] };
  const names = new Set([...source.text.matchAll(/\$\{([A-Za-z_]\w*)/g)].map(([, name]) => name ?? ''));
  // What a key takes cannot be known of a variable: text, a number or a duration.
  for (const standIn of ['set-where-it-runs', '1', '30s', 'true', 'https://set.example']) {
    const variables = { ...Object.fromEntries([...names].map((name) => [name, standIn])), ...env };
    const again = loadConfig(source, { variables, strict });
    if (again.ok) return { loaded: again, unset: unset.map((one) => ({ ...one, severity: 'warning' })) };
  }
  return { loaded, unset: [] };
}
