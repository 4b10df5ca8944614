// Old backups go, and then the stored files that none of the others names. A backup that is made meanwhile counts on files
// that are there, so the two take turns: it makes its folder and then looks for our mark; we make the mark and then look for
// folders that are not whole.
import { randomBytes } from 'node:crypto';
import { Problem } from '../problem/problem.ts';
import { chooseKept, type Keep } from './keep.ts';
import {
  blobPath,
  folderOf,
  listBackups,
  listFolders,
  MANIFEST,
  readBlobs,
  readManifest,
} from './manifest.ts';
import type { Target } from './target/target.ts';

/** Whoever is slower than this has been killed. */
const A_DAY_MS = 86_400_000;
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
  /** A backup was being made: its files, and those of the removed ones, stay until the next time. */
  readonly busy: boolean;
};

/** `dryRun` says what would be removed, and removes nothing. */
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
      // Without it the folder is no backup: whoever is killed here leaves none that looks whole.
      await target.remove(`${folderOf(id)}/${MANIFEST}`);
      await target.removeFolder(folderOf(id));
    }
    if (await isBusy(target)) return { removed, kept, files: 0, bytes: 0, busy: true };
    const gone = await unnamed(target, kept, (path) => target.remove(path));
    return { removed, kept, ...gone, busy: false };
  });
}

/** For a backup that has made its folder. */
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

/** Each has a mark of its own and then looks for others: a bucket cannot be asked for a file that only one makes. */
async function whileMarked<T>(target: Target, work: () => Promise<T>): Promise<T> {
  const mark = `${MARKS}/${randomBytes(8).toString('hex')}`;
  const renew = (): Promise<void> => target.write(mark, nothing());
  await renew();
  let renewing = Promise.resolve();
  const timer = setInterval(() => {
    renewing = renew().catch(() => {});
  }, MARK_RENEWED_MS);
  try {
    const [other] = (await liveMarks(target)).filter((one) => one !== mark);
    if (other !== undefined)
      throw new Problem('backup_pruning', 500, `Backups in ${target.name} are being removed already`, {
        hint: `Wait for it. If it was killed, ${other} counts for ten minutes more.`,
      });
    return await work();
  } finally {
    clearInterval(timer);
    await renewing;
    await target.remove(mark);
  }
}

async function* nothing(): AsyncIterable<Uint8Array> {}

/** Removes what backups have left that were killed, and answers whether one may be under way. */
async function isBusy(target: Target): Promise<boolean> {
  let busy = false;
  for (const { id, isWhole, changedAt } of await listFolders(target)) {
    if (isWhole) continue;
    if (Date.now() - changedAt.getTime() < A_DAY_MS) busy = true;
    else await target.removeFolder(folderOf(id));
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
    const { store } = await readManifest(target, folderOf(id));
    for await (const { version } of readBlobs(target, folderOf(id))) named.add(blobPath(store, version));
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
