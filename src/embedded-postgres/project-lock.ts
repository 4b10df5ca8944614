// One svc per project folder. Each starter first writes a claim, a file named after its process (id, start time, a
// random token), and then looks for other claims: of two at once at least one sees the other, so two never hold. No
// name is used twice, so clearing up after a killed svc cannot remove a living claim; a single lock file has no such
// safe takeover. Claims of other machines or containers that share the folder are not understood.
import { createHash, randomBytes, randomInt } from 'node:crypto';
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { giveTo, type Account } from './account.ts';
import { ifThere } from './if-there.ts';
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
    // The rival may have seen us and stepped back too; the random wait lets one of us come first.
    await release();
    await delay(randomInt(4 * attempt + 4));
  }
}

/** Another living claim, preferably one that is held. Removes the claims of dead processes. */
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
  // Without a start time the process id has to do.
  return startDigest === '' || claim.startDigest === '' || startDigest === claim.startDigest;
}

async function isHeld(claim: Claim): Promise<boolean> {
  return (await ifThere(readFile(claim.file, 'utf8'))) === HELD;
}

async function digestOfStart(pid: number): Promise<string> {
  const start = await startOf(pid);
  return start === '' ? '' : createHash('sha256').update(start).digest('hex').slice(0, 16);
}
