// Removes old backups, and then the stored files that no remaining backup refers to. A concurrent backup relies on
// existing files. It creates its folder and then checks for a prune mark; a prune creates its mark and then checks
// for incomplete folders. Hence at least one of the two sees the other.
import { randomBytes } from 'node:crypto';
import { DAY_MS } from '../lib/duration.ts';
import { Problem } from '../problem/problem.ts';
import { chooseKept, type Keep } from './keep.ts';
import {
  blobPath,
  backupFolder,
  listBackups,
  listFolders,
  MANIFEST,
  readBlobs,
  readManifest,
} from './manifest.ts';
import type { Target } from './target/target.ts';

const MARKS = 'pruning';
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
  /** True if a backup was in progress. Files are then kept until the next run. */
  readonly busy: boolean;
};

/** Removes backups. `dryRun` only returns what a run would remove. */
export async function pruneBackups(
  target: Target,
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
      // Remove the manifest first, so that an interrupted prune leaves no folder that looks complete.
      await target.remove(`${backupFolder(id)}/${MANIFEST}`);
      await target.removeFolder(backupFolder(id));
    }
    if (await isBusy(target)) return { removed, kept, files: 0, bytes: 0, busy: true };
    const gone = await unnamed(target, kept, (path) => target.remove(path));
    return { removed, kept, ...gone, busy: false };
  });
}

/** Waits until no prune runs. Call it after the folder of the backup exists. */
export async function waitForPruning(target: Target): Promise<void> {
  while ((await liveMarks(target)).length > 0)
    await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS));
}

async function liveMarks(target: Target): Promise<string[]> {
  const marks: string[] = [];
  for await (const { path, modifiedAt } of target.list(MARKS))
    if (Date.now() - modifiedAt.getTime() < MARK_LASTS_MS) marks.push(path);
  return marks;
}

/**
 * Every prune writes its own mark and then checks for others, because a bucket cannot create a file exclusively.
 */
async function whileMarked<T>(target: Target, work: () => Promise<T>): Promise<T> {
  const mark = `${MARKS}/${randomBytes(8).toString('hex')}`;
  const renew = (): Promise<void> => target.write(mark, nothing());
  await renew();
  let renewing = Promise.resolve();
  const timer = setInterval(() => {
    renewing = renew().catch(() => {});
  }, MARK_RENEWED_MS);
  try {
    const [otherMark] = (await liveMarks(target)).filter((found) => found !== mark);
    if (otherMark !== undefined)
      throw new Problem('backup_pruning', 500, `Backups in ${target.name} are being removed already`, {
        hint: `Wait for it. If it was killed, ${otherMark} counts for ten minutes more.`,
      });
    return await work();
  } finally {
    clearInterval(timer);
    await renewing;
    await target.remove(mark);
  }
}

async function* nothing(): AsyncIterable<Uint8Array> {}

/** Removes incomplete backups older than a day, and returns whether a recent one may be in progress. */
async function isBusy(target: Target): Promise<boolean> {
  let busy = false;
  for (const { id, isWhole, changedAt } of await listFolders(target)) {
    if (isWhole) continue;
    if (Date.now() - changedAt.getTime() < DAY_MS) busy = true;
    else await target.removeFolder(backupFolder(id));
  }
  return busy;
}

/** Visits the files that none of `kept` names. */
async function unnamed(
  target: Target,
  kept: readonly string[],
  visit: (path: string) => Promise<void>,
): Promise<{ readonly files: number; readonly bytes: number }> {
  const named = new Set<string>();
  for (const id of kept) {
    const { store } = await readManifest(target, backupFolder(id));
    for await (const { version } of readBlobs(target, backupFolder(id))) named.add(blobPath(store, version));
  }
  let files = 0;
  let bytes = 0;
  for (const store of await target.folders()) {
    if (!/^blobs(?:-[0-9a-f]+)?$/.test(store)) continue;
    for await (const file of target.list(store)) {
      if (named.has(file.path.replace(ENDING, ''))) continue;
      bytes += file.bytes;
      files += 1;
      await visit(file.path);
    }
  }
  return { files, bytes };
}
