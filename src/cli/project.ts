// The project a command works on: file read, variables gathered, mistakes shown. Everything after this has a
// Config that holds.
import { resolve } from 'node:path';
import type { Config } from '../config/config.ts';
import { readModeVariables, type Mode } from '../config/env-file.ts';
import { loadConfig } from '../config/load.ts';
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
  /** How the command ends when the file has mistakes. */
  readonly mistakesExit?: number | undefined;
  /** The shell's environment. */
  readonly env: Environment;
};

export async function loadProject(options: ProjectOptions, terminal: Terminal): Promise<Project> {
  const source = await readSource(options.config, process.cwd());
  const env = readModeVariables(source.directory, options.mode, options.env);
  const loaded = loadConfig(source, { variables: env, strict: options.strict });
  const report = { file: source.name, text: source.text, color: terminal.color };
  if (!loaded.ok) {
    const errors = loaded.mistakes.filter((mistake) => mistake.severity === 'error').length;
    const total = `${errors} ${errors === 1 ? 'mistake' : 'mistakes'} in ${source.name}`;
    throw new CommandFailure(
      options.mistakesExit ?? EXIT.badConfiguration,
      `${renderMistakes(loaded.mistakes, report)}\n\n${total}`,
    );
  }
  if (loaded.warnings.length > 0) terminal.printError(`${renderMistakes(loaded.warnings, report)}\n`);
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
