// Checks of the machine: Node, native libraries, memory, open files, temporary space.
import { readFileSync } from 'node:fs';
import { mkdtemp, rm, statfs, writeFile } from 'node:fs/promises';
import { availableParallelism, tmpdir, totalmem } from 'node:os';
import { join } from 'node:path';
import { hasBcrypt } from '../../auth/users/imported-hash.ts';
import { checkPasswordHashing } from '../../auth/users/password.ts';
import { approximateBytes } from '../../lib/bytes.ts';
import { packageVersion, resolvePackage } from '../../lib/package-files.ts';
import { bad, type Check, ok, warning } from './check.ts';

const MB = 1024 ** 2;
const FEW_FILES = 4_096;
const LITTLE_DISK = 1024 * MB;
const LITTLE_MEMORY = 512 * MB;

export const node: Check = () =>
  ok(`svc ${packageVersion()} on Node ${process.versions.node}, ${process.platform} ${process.arch}`);

export const passwords: Check = () => {
  checkPasswordHashing();
  return hasBcrypt()
    ? ok('passwords can be hashed')
    : warning(
        'imported users with a bcrypt hash cannot sign in: @node-rs/bcrypt lacks its native module',
        'npm install without --omit=optional',
      );
};

export const images: Check = () => {
  try {
    resolvePackage('sharp');
    return ok('images can be transformed');
  } catch {
    return warning(
      'images cannot be transformed: sharp is not installed',
      'npm install without --omit=optional',
    );
  }
};

export const memory: Check = () => {
  // A container may have less memory than the machine.
  const bytes = Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY);
  const message = `${approximateBytes(bytes)} of memory, ${availableParallelism()} CPUs`;
  return bytes < LITTLE_MEMORY
    ? warning(message, 'give it 512 MB; see "Memory" in docs/running.md')
    : ok(message);
};

/** Checks the limit of open files. Only Linux shows it. */
export const openFiles: Check = () => {
  const limits = process.platform === 'linux' ? readFileSync('/proc/self/limits', 'utf8') : '';
  const [, soft] = /^Max open files\s+(\d+)/m.exec(limits) ?? [];
  if (soft === undefined) return ok('the limit of open files is unknown on this platform');
  return Number(soft) < FEW_FILES
    ? warning(
        `at most ${soft} open files; each connection needs one`,
        'LimitNOFILE=65536 in the unit, or ulimit -n',
      )
    : ok(`at most ${soft} open files`);
};

export const temporary: Check = async () => {
  const folder = await mkdtemp(join(tmpdir(), 'svc-doctor-'));
  try {
    await writeFile(join(folder, 'probe'), 'probe');
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  return await checkFreeSpace(tmpdir());
};

/** Checks the free space on the disk of the folder. */
export async function checkFreeSpace(folder: string): Promise<ReturnType<typeof ok>> {
  const { bavail, bsize } = await statfs(folder);
  const message = `${folder} is writable, ${approximateBytes(bavail * bsize)} free`;
  if (bavail * bsize < 50 * MB) return bad(message, 'free some disk space');
  return bavail * bsize < LITTLE_DISK ? warning(message, 'free some disk space') : ok(message);
}
