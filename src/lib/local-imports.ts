// Finds the files that a project's handlers reach by relative paths, for bundles and watchers. Every quoted relative
// path counts, so that a file opened with `new URL('../texts/mail.html', import.meta.url)` is found as well as an
// imported one.
import { readFile, stat } from 'node:fs/promises';
import { dirname, extname, join, relative, resolve, sep } from 'node:path';

export type LocalImports = {
  readonly files: readonly string[];
  /** Named but absent, for example while several files are being saved. */
  readonly missing: readonly string[];
};

const CODE = new Set(['.js', '.mjs', '.cjs', '.ts', '.mts', '.cts']);
const RELATIVE_PATH = /(["'`])(\.{1,2}\/[^"'`\n\\$]+)\1/g;
/** More files cannot be a handler's code. */
const MAX_FILES = 10_000;
const MAX_SOURCE_BYTES = 2 * 1024 * 1024;

/** Returns absolute paths, including the given files. Excludes paths outside `root` and in node_modules. */
export async function localImports(root: string, files: readonly string[]): Promise<LocalImports> {
  const found = new Set<string>();
  const missing = new Set<string>();
  const waiting = files.map((file) => resolve(root, file));
  for (let path = waiting.pop(); path !== undefined && found.size < MAX_FILES; path = waiting.pop()) {
    if (found.has(path) || !isInProject(root, path)) continue;
    const known = await stat(path).catch(() => undefined);
    if (!known) missing.add(path);
    if (!known?.isFile()) continue;
    found.add(path);
    if (!CODE.has(extname(path)) || known.size > MAX_SOURCE_BYTES) continue;
    const text = await readFile(path, 'utf8');
    for (const [, , named = ''] of text.matchAll(RELATIVE_PATH)) {
      waiting.push(...(await candidates(join(dirname(path), named.replace(/[?#].*$/, '')))));
    }
  }
  // The nearest package.json decides whether a .js file is a module.
  const manifests = new Set<string>();
  for (const folder of new Set([...found].map((path) => dirname(path)))) {
    const manifest = await nearestManifest(root, folder);
    if (manifest !== undefined) manifests.add(manifest);
  }
  return { files: [...new Set([...found, ...manifests])].sort(), missing: [...missing].sort() };
}

/** Returns the path as written, or as `require` completes it. */
async function candidates(path: string): Promise<string[]> {
  const known = await stat(path).catch(() => undefined);
  if (known?.isFile()) return [path];
  const completed = ['.js', '.cjs', '.json'].map((ending) => path + ending).concat(join(path, 'index.js'));
  for (const one of completed) {
    if ((await stat(one).catch(() => undefined))?.isFile()) return [one];
  }
  return extname(path) === '' ? [] : [path];
}

async function nearestManifest(root: string, folder: string): Promise<string | undefined> {
  for (let at = folder; at === resolve(root) || isInProject(root, at); at = dirname(at)) {
    const manifest = join(at, 'package.json');
    if ((await stat(manifest).catch(() => undefined))?.isFile()) return manifest;
    if (at === resolve(root)) return undefined;
  }
  return undefined;
}

function isInProject(root: string, path: string): boolean {
  const inside = relative(resolve(root), path);
  return inside !== '' && !inside.split(sep).some((part) => part === '..' || part === 'node_modules');
}
