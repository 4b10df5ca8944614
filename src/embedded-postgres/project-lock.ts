// Allows one svc per project folder. Each starter first writes a claim, a file named after its process (id, start time,
// random token), then looks for other claims: of two starters at least one sees the other, so both never hold the lock.
// Names are unique, so cleaning up after a killed svc cannot remove a live claim; with a single lock file it could.
// Claims of other machines or containers that share the folder are not recognised.
import { createHash, randomBytes, randomInt } from 'node:crypto';
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { giveTo, type Account } from './account.ts';
import { ifExists } from '../lib/error-code.ts';
import { alreadyRunning } from './problem.ts';
import { isAlive, readStartTime } from './process-table.ts';

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
    // The rival may have backed off as well; the random delay lets one of us win.
    await release();
    await delay(randomInt(4 * attempt + 4));
  }
}

/** Another live claim, preferably a held one. Removes the claims of dead processes. */
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
  // Without a start time only the process id can be compared.
  return startDigest === '' || claim.startDigest === '' || startDigest === claim.startDigest;
}

async function isHeld(claim: Claim): Promise<boolean> {
  return (await ifExists(readFile(claim.file, 'utf8'))) === HELD;
}

async function digestOfStart(pid: number): Promise<string> {
  const start = await readStartTime(pid);
  return start === '' ? '' : createHash('sha256').update(start).digest('hex').slice(0, 16);
}
