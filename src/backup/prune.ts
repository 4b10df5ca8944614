// Old backups go, and then the stored files that none of the others names. A backup that is made meanwhile counts on files
// that are there, so the two take turns: it makes its folder and then looks for our mark; we make the mark and then look for
// folders that are not whole.
import { existsSync } from 'node:fs';
import { readdir, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { hasCode } from '../lib/error-code.ts';
import { Problem } from '../problem/problem.ts';
import { chooseKept, type Keep } from './keep.ts';
import { blobPath, listBackups, MANIFEST, readBlobs, readManifest } from './manifest.ts';

/** Whoever is slower than this has been killed. */
const A_DAY_MS = 86_400_000;
const MARK = 'pruning';
const MARK_LASTS_MS = 600_000;
const MARK_RENEWED_MS = 60_000;
const LOOK_AGAIN_MS = 200;
const ENDING = /\.age$/;

export type Pruned = {
  readonly removed: readonly string[];
  readonly kept: readonly string[];
  /** Stored files that no backup names any more. */
  readonly files: number;
  readonly bytes: number;
  /** A backup was being made: its files, and those of the removed ones, stay until the next time. */
  readonly busy: boolean;
};

/** `dryRun` says what would be removed, and removes nothing. */
export async function pruneBackups(
  target: string,
  keep: Keep,
  { dryRun = false }: { readonly dryRun?: boolean } = {},
): Promise<Pruned> {
  const all = await listBackups(target);
  const chosen = chooseKept(all, keep);
  const removed = all.filter((id) => !chosen.has(id));
  const kept = all.filter((id) => chosen.has(id));
  if (all.length === 0) return { removed, kept, files: 0, bytes: 0, busy: false };
  if (dryRun) return { removed, kept, ...(await unnamed(target, kept, async () => {})), busy: false };
  return await whileMarked(target, async () => {
    for (const id of removed) {
      // Without it the folder is no backup: whoever is killed here leaves none that looks whole.
      await rm(join(target, 'backups', id, MANIFEST), { force: true });
      await rm(join(target, 'backups', id), { recursive: true, force: true });
    }
    if (await isBusy(target)) return { removed, kept, files: 0, bytes: 0, busy: true };
    const gone = await unnamed(target, kept, (path) => rm(path, { force: true }));
    return { removed, kept, ...gone, busy: false };
  });
}

/** For a backup that has made its folder. */
export async function waitForPruning(target: string): Promise<void> {
  while (await isMarked(target)) await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS));
}

async function isMarked(target: string): Promise<boolean> {
  const found = await stat(join(target, MARK)).catch(() => undefined);
  return found !== undefined && Date.now() - found.mtimeMs < MARK_LASTS_MS;
}

async function whileMarked<T>(target: string, work: () => Promise<T>): Promise<T> {
  const mark = join(target, MARK);
  if (!(await isMarked(target))) await rm(mark, { force: true });
  await writeFile(mark, '', { flag: 'wx', mode: 0o600 }).catch((cause: unknown) => {
    if (!hasCode(cause, 'EEXIST')) throw cause;
    throw new Problem('backup_pruning', 500, `Backups in ${target} are being removed already`, {
      hint: `Wait for it. If it was killed, ${mark} counts for ten minutes more.`,
      cause,
    });
  });
  const timer = setInterval(() => void utimes(mark, new Date(), new Date()).catch(() => {}), MARK_RENEWED_MS);
  try {
    return await work();
  } finally {
    clearInterval(timer);
    await rm(mark, { force: true });
  }
}

/** Removes what backups have left that were killed, and answers whether one may be under way. */
async function isBusy(target: string): Promise<boolean> {
  let busy = false;
  for (const name of await readdir(join(target, 'backups'))) {
    const folder = join(target, 'backups', name);
    if (existsSync(join(folder, MANIFEST))) continue;
    const found = await stat(folder).catch(() => undefined);
    if (found === undefined) continue;
    if (Date.now() - found.mtimeMs < A_DAY_MS) busy = true;
    else await rm(folder, { recursive: true, force: true });
  }
  return busy;
}

/** Visits the files that none of `kept` names. */
async function unnamed(
  target: string,
  kept: readonly string[],
  visit: (path: string) => Promise<void>,
): Promise<{ readonly files: number; readonly bytes: number }> {
  const named = new Set<string>();
  for (const id of kept) {
    const folder = join(target, 'backups', id);
    const { store } = await readManifest(folder);
    for await (const { version } of readBlobs(folder)) named.add(blobPath(target, store, version));
  }
  let files = 0;
  let bytes = 0;
  for (const store of await readdir(target)) {
    if (!/^blobs(?:-[0-9a-f]+)?$/.test(store)) continue;
    for (const name of await readdir(join(target, store), { recursive: true })) {
      const path = join(target, store, name);
      const found = await stat(path);
      if (!found.isFile() || named.has(path.replace(ENDING, ''))) continue;
      bytes += found.size;
      files += 1;
      await visit(path);
    }
  }
  return { files, bytes };
}
