// Checks handlers of code functions without running them: their syntax, and their default export.
import { execFile, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { KeyPath } from '../../mistakes/mistake.ts';
import type { CheckContext } from '../context.ts';

const PARSER = { env: {}, timeout: 10_000, windowsHide: true };
const STRIP_TYPES = `const { stripTypeScriptTypes } = require('node:module');
try { stripTypeScriptTypes?.(require('node:fs').readFileSync(0, 'utf8')); }
catch (error) {
  if (error.code === 'ERR_INVALID_TYPESCRIPT_SYNTAX') {
    console.error('[stdin]' + error.stack.split('\\n')[0] + '\\nSyntaxError: ' + error.message);
    process.exit(1);
  }
}`;

export function checkHandler(context: CheckContext, path: KeyPath, file: string): void {
  const { directory } = context.options;
  if (directory === undefined) return;
  const source = readFileSync(join(directory, file), 'utf8');
  if (!hasDefaultExport(source)) {
    const isCommonJs = /\bmodule\.exports\b|^\s*exports\.\w+\s*=/m.test(source);
    return context.badValue(
      path,
      isCommonJs
        ? `${context.show(path, file)} is a CommonJS module`
        : `${context.show(path, file)} has no default export`,
      'Export the handler: export default async (request, ctx) => new Response("ok").',
    );
  }
  const fault = syntaxFault(source, isTypeScriptFile(file));
  if (fault !== undefined)
    context.badValue(path, `${context.show(path, file)} has a syntax error: ${fault}`, `Correct ${file}.`);
}

/** Can return true for a text that only mentions an export. Always true for a module with a default export. */
function hasDefaultExport(source: string): boolean {
  return /\bexport\s+default\b|\bas\s+(?:default\b|["']default["'])|\bexport\s*\{[^}]*\bdefault\b/.test(
    source,
  );
}

/** Parses the module with Node in a process that does not execute it. */
function syntaxFault(source: string, isTypeScript: boolean): string | undefined {
  const { status, stderr } = spawnSync(process.execPath, parserArguments(isTypeScript), {
    input: source,
    encoding: 'utf8',
    ...PARSER,
  });
  return status === 1 ? readFault(stderr) : undefined;
}

/** Returns `line 3: …`, or undefined. Does not block the event loop. */
export function findSyntaxFault(file: string, source: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const { stdin } = execFile(
      process.execPath,
      parserArguments(isTypeScriptFile(file)),
      PARSER,
      (failure, _stdout, stderr) => resolve(failure?.code === 1 ? readFault(stderr) : undefined),
    );
    stdin?.on('error', () => {
      // The process has ended; the callback receives its result.
    });
    stdin?.end(source);
  });
}

function isTypeScriptFile(file: string): boolean {
  return /\.m?ts$/.test(file);
}

function parserArguments(isTypeScript: boolean): string[] {
  const parse = isTypeScript ? ['-e', STRIP_TYPES] : ['--check', '--input-type=module', '-'];
  return ['--no-warnings', ...parse];
}

function readFault(stderr: string): string | undefined {
  const line = /^\[stdin\]:(\d+)$/m.exec(stderr)?.[1];
  const message = /^SyntaxError: (.+)$/m.exec(stderr)?.[1];
  if (message === undefined) return undefined;
  return line === undefined ? message : `line ${line}: ${message}`;
}
