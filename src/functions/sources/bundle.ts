// Builds a bundle: sources and locked dependencies in one archive that `serve` runs without installing anything. The
// same inputs give the same bytes. Also lists the sources for a deployment.
import { createWriteStream } from 'node:fs';
import { copyFile, lstat, mkdir, mkdtemp, readdir, realpath, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join, relative, resolve, sep } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { CodeFunction } from '../../config/config.ts';
import { Problem } from '../../problem/problem.ts';
import { pack, type ArchiveEntry } from './archive.ts';
import { BUNDLE_FORMAT, MANIFEST, type BundleManifest } from './bundle-store.ts';
import { checkFunctions } from './check.ts';
import { sourcePaths } from './dev-sources.ts';
import { Digest } from './digest.ts';
import { installLocked, requireLockfile, type InstallOptions } from './install.ts';
import { WorkerProcess } from '../runtime/worker-process.ts';

export type BundleOptions = InstallOptions & {
  readonly functions: readonly CodeFunction[];
  /** Import every handler from the packed files; default true. */
  readonly verify?: boolean | undefined;
};

export type BuiltBundle = {
  /** A temporary file, removed by `close`. */
  readonly archive: string;
  readonly sha256: string;
  readonly bytes: number;
  readonly files: number;
  close(): Promise<void>;
};

/** Never in a bundle: secrets, state, and npm's own files. */
const EXCLUDED =
  /^(\.env|\.env\..*|\..*\.env|\.git|\.svc|\.bin|\.cache|\.package-lock\.json|\.svc-installed|\.DS_Store|\.npmrc)$/;

export async function buildBundle(options: BundleOptions): Promise<BuiltBundle> {
  const { directory, functions, env } = options;
  if (functions.length === 0) {
    throw new Problem('no_functions', 500, 'There are no code functions to bundle', {
      hint: 'Declare one with `svc functions new <name>`.',
    });
  }
  requireLockfile(directory);
  checkFunctions(functions, directory, process.execPath);
  const folder = await mkdtemp(join(tmpdir(), 'svc-bundle-'));
  const close = (): Promise<void> => rm(folder, { recursive: true, force: true });
  try {
    // Installed in a copy, so that the project's own node_modules stays unchanged.
    const staging = join(folder, 'root');
    for (const { path, file } of await listSources(directory, functions)) {
      await mkdir(dirname(join(staging, path)), { recursive: true });
      await copyFile(file, join(staging, path));
    }
    await installLocked(join(staging, 'functions'), env);
    if (options.verify ?? true) await verify(staging, options);
    const entries = await listFiles(staging, staging, () => true);
    const native = entries.some(({ path }) => path.endsWith('.node'));
    const manifest: BundleManifest = {
      format: BUNDLE_FORMAT,
      functions: functions.map(({ name, file }) => ({ name, file })),
      platform: native ? `${process.platform}-${process.arch}` : null,
    };
    const archive = join(folder, 'bundle.tgz');
    const written = await writeArchive(archive, [
      { path: MANIFEST, content: Buffer.from(`${JSON.stringify(manifest, null, 2)}\n`) },
      ...entries.map(({ path, file, size }) => ({ path, content: { file, size } })),
    ]);
    return { archive, ...written, files: entries.length, close };
  } catch (error) {
    await close();
    throw error;
  }
}

export async function writeArchive(
  target: string,
  entries: readonly ArchiveEntry[],
): Promise<{ sha256: string; bytes: number }> {
  const digest = new Digest();
  await pipeline(pack(entries), digest.through, createWriteStream(target));
  return { sha256: digest.sha256(), bytes: digest.bytes };
}

export type ListedFile = { readonly path: string; readonly file: string; readonly size: number };

/** The project's own code, without dependencies. */
export async function listSources(
  directory: string,
  functions: readonly CodeFunction[],
): Promise<ListedFile[]> {
  const found = new Map<string, ListedFile>();
  for (const root of await sourcePaths(directory, functions)) {
    if (isExcluded(root)) continue;
    for (const file of await listFiles(root, directory, (name) => name !== 'node_modules')) {
      found.set(file.path, file);
    }
  }
  return [...found.values()];
}

async function listFiles(
  path: string,
  base: string,
  wanted: (name: string) => boolean,
): Promise<ListedFile[]> {
  const found = await lstat(path).catch(() => undefined);
  if (!found) return [];
  if (found.isSymbolicLink()) {
    const target = await realpath(path).catch(() => undefined);
    const root = await realpath(base);
    if (target === undefined || !(target === root || target.startsWith(root + sep))) {
      const message = `${relative(base, path)} is a link that leads outside the project`;
      throw new Problem('link_outside', 500, message, { hint: 'Copy what it links to into the project.' });
    }
    // A link must not smuggle an excluded file in under another name.
    if (isExcluded(target)) return [];
    // A link to a parent folder would recurse forever.
    if (path.startsWith(target + sep)) return [];
  }
  const followed = found.isSymbolicLink() ? await stat(path) : found;
  if (followed.isFile()) {
    return [{ path: relative(base, path).split(sep).join('/'), file: path, size: followed.size }];
  }
  if (!followed.isDirectory()) return [];
  const files: ListedFile[] = [];
  for (const name of await readdir(path)) {
    if (isExcluded(name) || !wanted(name)) continue;
    files.push(...(await listFiles(join(path, name), base, wanted)));
  }
  return files;
}

function isExcluded(path: string): boolean {
  return EXCLUDED.test(basename(path));
}

/** Imports every handler as `serve` will, so that a missing file is found now and not in production. */
async function verify(root: string, { functions, env, log }: BundleOptions): Promise<void> {
  const started = Promise.withResolvers<boolean>();
  const worker = new WorkerProcess(
    {
      runtime: process.execPath,
      memoryMb: 512,
      settings: {
        root: resolve(root),
        functions: functions.map(({ name, file }) => ({ name, file })),
        url: 'http://127.0.0.1:9',
        publishableKey: 'none',
      },
      env,
      log,
      redact: (text) => text,
      showErrors: false,
      serviceToken: () => Promise.reject(new Error('there are no service tokens while a bundle is verified')),
    },
    {
      onReady: () => started.resolve(true),
      onExit: () => started.resolve(false),
      onDegraded: () => {},
      onFree: () => {},
      onUnread: () => {},
    },
  );
  try {
    if (!(await started.promise)) throw new Problem('no_runtime', 500, 'Could not start a worker');
    for (const { name } of functions) {
      const { failure } = await worker.load(name);
      if (failure) {
        throw new Problem('bundle_unloadable', 500, `The function ${name} cannot be loaded from the bundle`, {
          details: failure.stack ?? failure.message,
          hint: 'Its imports must be in functions/ or in the dependencies. --no-verify skips this check.',
        });
      }
    }
  } finally {
    await worker.stop();
  }
}
