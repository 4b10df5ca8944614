// Locates files of this package for all layouts: src/, dist/ file by file, or the merged files of a published
// package. No other module determines its location.
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = fileURLToPath(import.meta.url);
const isSource = here.endsWith('.ts');
const root = findRoot(dirname(here));

function findRoot(from: string): string {
  for (let folder = from; ; folder = dirname(folder)) {
    if (existsSync(join(folder, 'package.json'))) return folder;
    if (folder === dirname(folder)) throw new Error(`no package.json above ${from}`);
  }
}

/** Returns the absolute path of a file or folder of the package. */
export function ownFile(path: string): string {
  return join(root, path);
}

/** Returns a module of the product by its path below src/, without its extension, for starting a process. */
export function ownModule(name: string): string {
  return isSource ? join(root, 'src', `${name}.ts`) : join(root, 'dist', `${name}.js`);
}

/** The folder that all modules are below. */
export function codeFolder(): string {
  return join(root, isSource ? 'src' : 'dist');
}

/** Finds a file of an npm dependency of this package; throws if it does not exist. */
export const resolvePackage: (name: string) => string = createRequire(import.meta.url).resolve;

let manifest: Manifest | undefined;

type Manifest = { readonly name: string; readonly version: string };

function readManifest(): Manifest {
  // This package's manifest always exists and has both fields.
  return (manifest ??= JSON.parse(readFileSync(ownFile('package.json'), 'utf8')) as Manifest);
}

export function packageVersion(): string {
  return readManifest().version;
}

/** Package name for npm and npx. */
export function packageName(): string {
  return readManifest().name;
}

/** Whether the package was installed from the registry, without its sources. */
export function isPublished(): boolean {
  return !existsSync(ownFile('src'));
}
