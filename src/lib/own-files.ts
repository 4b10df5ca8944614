// Files of this very package, wherever its code runs from: src/ as it is, dist/ file by file, or the few merged files of a
// published package. The only module that asks where it stands itself.
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

/** A file or folder by its path from the root of the package. */
export function ownFile(path: string): string {
  return join(root, path);
}

/** A module of the product by its path below src/, without its ending: what a new process is started with. */
export function ownModule(name: string): string {
  return isSource ? join(root, 'src', `${name}.ts`) : join(root, 'dist', `${name}.js`);
}

/** The folder that all modules are below. */
export function codeFolder(): string {
  return join(root, isSource ? 'src' : 'dist');
}

/** Finds the file of a package that npm installed for this one; throws where there is none. */
export const resolvePackage: (name: string) => string = createRequire(import.meta.url).resolve;

let manifest: Manifest | undefined;

type Manifest = { readonly name: string; readonly version: string };

function readManifest(): Manifest {
  // Its own, which is always there and has both.
  return (manifest ??= JSON.parse(readFileSync(ownFile('package.json'), 'utf8')) as Manifest);
}

export function packageVersion(): string {
  return readManifest().version;
}

/** What npm and npx call it. */
export function packageName(): string {
  return readManifest().name;
}

/** It was installed from the registry, without its sources. */
export function isPublished(): boolean {
  return !existsSync(ownFile('src'));
}
