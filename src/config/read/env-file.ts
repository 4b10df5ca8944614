// Variables from `.env` and `.<mode>.env` in the directory of the file. Variables of the shell take precedence.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { readTextFile } from '../../lib/text/text-file.ts';
import type { Mode } from '../mode.ts';
import type { Variables } from './interpolate.ts';
import { readSecretFiles } from './secret-files.ts';

/** Variables for code functions. A server reads no other variables from `.env`. */
const FUNCTION_VARIABLE = /^SVC_ENV_/;

/**
 * Merges `.env`, `.<mode>.env` and the shell, in ascending precedence. Staging and production only read variables of
 * functions from `.env`: `svc dev` keeps its keys there, and a server must not start with those.
 */
export function readModeVariables(directory: string | undefined, mode: Mode, shell: Variables): Variables {
  const isServer = mode === 'staging' || mode === 'production';
  const isIncluded = (name: string): boolean => !isServer || FUNCTION_VARIABLE.test(name);
  const general = directory === undefined ? {} : variablesIn(directory, '.env', isIncluded);
  return { ...general, ...readVariables(directory, [`.${mode}.env`], shell) };
}

export function readVariables(
  directory: string | undefined,
  files: readonly string[],
  shell: Variables,
): Variables {
  const merged: Record<string, string | undefined> = {};
  if (directory !== undefined) {
    for (const name of files) Object.assign(merged, variablesIn(directory, name));
  }
  for (const [name, value] of Object.entries(shell)) if (value !== undefined) merged[name] = value;
  return merged;
}

/** Includes the contents of files that `_FILE` variables name. */
function variablesIn(
  directory: string,
  name: string,
  isIncluded: (variable: string) => boolean = () => true,
): Variables {
  const path = join(directory, name);
  if (!existsSync(path)) return {};
  const written = Object.entries(parseEnv(readTextFile(path))).filter(([variable]) => isIncluded(variable));
  const variables = Object.fromEntries(written);
  readSecretFiles(variables, directory);
  return variables;
}

/** Lines of the files that set nothing although they look as if they should, by number: they may hold secrets. */
export function brokenLines(directory: string | undefined, mode: Mode): string[] {
  if (directory === undefined) return [];
  return ['.env', `.${mode}.env`].flatMap((name) => {
    const path = join(directory, name);
    return existsSync(path) ? brokenLinesIn(readTextFile(path)).map((line) => `${name}:${line}`) : [];
  });
}

const ASSIGNMENT = /^\s*(?:export\s+)?[\w.-]+\s*=\s*(.*)$/;

export function brokenLinesIn(text: string): number[] {
  const broken: number[] = [];
  let open = '';
  text.split('\n').forEach((line, index) => {
    if (open !== '') {
      // Skip the rest of a quoted text with several lines.
      if (line.includes(open)) open = '';
      return;
    }
    if (/^\s*(#|$)/.test(line)) return;
    const value = ASSIGNMENT.exec(line.replace(/\r$/, ''))?.[1];
    if (value === undefined) {
      broken.push(index + 1);
      return;
    }
    const quote = /^["'`]/.exec(value)?.[0] ?? '';
    if (
      quote !== '' &&
      !value.slice(1).includes(quote) &&
      text
        .split('\n')
        .slice(index + 1)
        .some((following) => following.includes(quote))
    ) {
      open = quote;
    }
  });
  return broken;
}
