// The sources of functions under `svc dev`: a fingerprint, and a watch for changes. Dependencies are left out: changing
// them needs a restart.
import { readdir, stat } from 'node:fs/promises';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { watch } from 'chokidar';
import type { CodeFunction } from '../../config/config.ts';
import { localImports } from '../../lib/local-imports.ts';

const SKIPPED = new Set(['node_modules', '.git', '.svc']);

export type SourceWatch = { readonly roots: readonly string[]; close(): Promise<void> };

/** Changes when a source file does. */
export async function fingerprint(root: string, functions: readonly CodeFunction[]): Promise<string> {
  const entries: string[] = [];
  for (const path of await sourcePaths(root, functions)) await collect(path, entries);
  return entries.sort().join('\n');
}

/** Calls once as soon as it watches too: the sources may have changed since they were read. */
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
    // Several files saved together are one change.
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

/** `functions/`, the folder of each declared file outside of it, and what these files reach elsewhere. */
export async function sourcePaths(root: string, functions: readonly CodeFunction[]): Promise<string[]> {
  const folders = new Set([join(root, 'functions')]);
  const found = new Set<string>();
  for (const { file } of functions) {
    const path = resolve(root, file);
    // Of the project's own directory only this file: there is more in it than sources.
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
