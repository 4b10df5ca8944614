// The sources of functions under `svc dev`: a fingerprint and a watcher. Both skip dependencies: changing them needs a
// restart.
import { readdir, stat } from 'node:fs/promises';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { watch } from 'chokidar';
import type { CodeFunction } from '../../config/config.ts';
import { localImports } from '../../lib/local-imports.ts';

const SKIPPED = new Set(['node_modules', '.git', '.svc']);

export type SourceWatch = { readonly roots: readonly string[]; close(): Promise<void> };

/** Differs when any source file has changed. */
export async function fingerprint(root: string, functions: readonly CodeFunction[]): Promise<string> {
  const entries: string[] = [];
  for (const path of await sourcePaths(root, functions)) await collect(path, entries);
  return entries.sort().join('\n');
}

/** Also calls `onChange` once when the watcher is ready: files may have changed since they were read. */
export function watchSources(root: string, roots: readonly string[], onChange: () => void): SourceWatch {
  const watcher = watch([...roots], {
    ignoreInitial: true,
    ignored: (path) =>
      relative(root, path)
        .split(sep)
        .some((part) => SKIPPED.has(part)),
    awaitWriteFinish: { stabilityThreshold: 50, pollInterval: 10 },
  });
  let timer: NodeJS.Timeout | undefined;
  const soon = (): void => {
    clearTimeout(timer);
    // Files saved together count as one change.
    timer = setTimeout(onChange, 20);
  };
  watcher.on('all', soon).on('ready', soon);
  return {
    roots,
    async close() {
      clearTimeout(timer);
      await watcher.close();
    },
  };
}

/** `functions/`, the folders of other declared files, and local files these import from elsewhere. */
export async function sourcePaths(root: string, functions: readonly CodeFunction[]): Promise<string[]> {
  const folders = new Set([join(root, 'functions')]);
  const found = new Set<string>();
  for (const { file } of functions) {
    const path = resolve(root, file);
    // Not the whole project root: it contains more than sources.
    if (dirname(path) === resolve(root)) found.add(path);
    else folders.add(dirname(path));
  }
  const { files, missing } = await localImports(
    root,
    functions.map(({ file }) => file),
  );
  for (const path of [...files, ...missing]) found.add(path);
  const all = [...folders, ...found];
  return all.filter((path) => ![...folders].some((folder) => path.startsWith(folder + sep)));
}

async function collect(path: string, entries: string[]): Promise<void> {
  const found = await stat(path).catch(() => undefined);
  if (!found) return;
  if (!found.isDirectory()) {
    entries.push(`${path} ${found.mtimeMs} ${found.size}`);
    return;
  }
  for (const entry of await readdir(path, { withFileTypes: true })) {
    if (SKIPPED.has(entry.name) || (!entry.isFile() && !entry.isDirectory())) continue;
    await collect(join(path, entry.name), entries);
  }
}
