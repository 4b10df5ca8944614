// One svc per project folder. Whoever wants the folder puts up a claim, a file named after its process (id, start
// time, a random token), and only then looks for other claims. Of two that come at once at least one sees the other,
// so two never hold; a claim is only ever removed by its maker or when its process is gone, and no name is used
// twice, so clearing up after a killed svc cannot hit a living one. A single lock file has no such safe takeover.
// It does not see into other machines or containers that share the folder.
import { createHash, randomBytes, randomInt } from 'node:crypto';
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { giveTo, type Account } from './account.ts';
import { hasCode } from '../lib/error-code.ts';
import { alreadyRunning } from './problem.ts';
import { isAlive, startOf } from './process-table.ts';

export type ProjectLock = { release(): Promise<void> };

type Claim = { readonly file: string; readonly pid: number; readonly startDigest: string };

const PREFIX = 'postgres.lock-';
const HELD = 'held\n';
const ATTEMPTS = 50;

export async function acquireProjectLock(dir: string, owner: Account | undefined): Promise<ProjectLock> {
  const startDigest = await digestOfStart(process.pid);
  for (let attempt = 1; ; attempt += 1) {
    const file = join(dir, `${PREFIX}${process.pid}-${startDigest}-${randomBytes(6).toString('hex')}`);
    const release = () => rm(file, { force: true });
    try {
      await writeFile(file, '', { flag: 'wx', mode: 0o644 });
      await giveTo(file, owner);
      const rival = await findRival(dir, file);
      if (rival === undefined) {
        await writeFile(file, HELD);
        return { release };
      }
      if (attempt === ATTEMPTS || (await isHeld(rival))) throw alreadyRunning(dir, rival.pid);
    } catch (error) {
      await release();
      throw error;
    }
    // The rival saw us too and steps back as we do; whoever returns first finds the place free.
    await release();
    await delay(randomInt(4 * attempt + 4));
  }
}

/** A living claim that is not ours, one that is held if there is one. Clears away the claims of the dead. */
async function findRival(dir: string, mine: string): Promise<Claim | undefined> {
  let rival: Claim | undefined;
  for (const name of await readdir(dir)) {
    const claim = parseClaim(dir, name);
    if (claim === undefined || claim.file === mine) continue;
    if (await isLive(claim)) {
      if (await isHeld(claim)) return claim;
      rival = claim;
    } else {
      await rm(claim.file, { force: true });
    }
  }
  return rival;
}

function parseClaim(dir: string, name: string): Claim | undefined {
  const [, pid, startDigest] = /^postgres\.lock-(\d+)-([0-9a-f]*)-[0-9a-f]+$/.exec(name) ?? [];
  return pid === undefined || startDigest === undefined
    ? undefined
    : { file: join(dir, name), pid: Number(pid), startDigest };
}

async function isLive(claim: Claim): Promise<boolean> {
  if (!(await isAlive(claim.pid))) return false;
  const startDigest = await digestOfStart(claim.pid);
  // Without a start time the number has to do.
  return startDigest === '' || claim.startDigest === '' || startDigest === claim.startDigest;
}

async function isHeld(claim: Claim): Promise<boolean> {
  try {
    return (await readFile(claim.file, 'utf8')) === HELD;
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return false;
    throw error;
  }
}

async function digestOfStart(pid: number): Promise<string> {
  const start = await startOf(pid);
  return start === '' ? '' : createHash('sha256').update(start).digest('hex').slice(0, 16);
}
