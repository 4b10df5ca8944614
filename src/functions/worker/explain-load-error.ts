// Advice for errors of Node's loader, and stacks that begin with the frames of the project.
import { existsSync } from 'node:fs';
import { dirname, relative, sep } from 'node:path';
import { codeFolder } from '../../lib/package-files.ts';

const EXTENSIONS = ['.ts', '.js', '.mts', '.mjs', '.cjs', '.json'];
const OWN_FRAME = /^\s+at .*(?:node:internal\/|\bnode:async_hooks\b)/;
const OWN_FOLDER = codeFolder();

/** Returns what to do about an import that cannot be resolved, or undefined for other errors. */
export function adviceFor(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined;
  if (error.code !== 'ERR_MODULE_NOT_FOUND' && error.code !== 'ERR_UNSUPPORTED_DIR_IMPORT') return undefined;
  const { message } = error;
  const name = /^Cannot find package '((?:@[^/']+\/)?[^/']+)[^']*'/.exec(message)?.[1];
  if (name !== undefined) return `Run \`npm install --prefix functions ${name}\`, then restart \`svc dev\`.`;
  const [, path, importer] =
    /^(?:Cannot find module|Directory import) '([^']+)'.* imported from (.+)$/.exec(message) ?? [];
  if (path === undefined || importer === undefined) return undefined;
  const found = candidates(path).find((file) => existsSync(file));
  if (found === undefined) return `Create ${path}, or correct the import in ${importer}.`;
  const specifier = relative(dirname(importer), found).split(sep).join('/');
  return `Write \`${specifier.startsWith('.') ? specifier : `./${specifier}`}\`.`;
}

function candidates(path: string): string[] {
  const isScript = /\.[cm]?js$/.test(path);
  return [
    ...(isScript ? [path.replace(/js$/, 'ts')] : []),
    ...EXTENSIONS.map((extension) => path + extension),
    ...EXTENSIONS.map((extension) => `${path}/index${extension}`),
  ];
}

/** Removes the frames of Node's internals and of this worker. */
export function withoutOwnFrames(stack: string): string {
  return stack
    .split('\n')
    .filter((line) => !OWN_FRAME.test(line) && !(/^\s+at /.test(line) && line.includes(OWN_FOLDER)))
    .join('\n');
}
