// What the machine gives: Node, native libraries, memory, files, a place for temporary ones.
import { readFileSync } from 'node:fs';
import { mkdtemp, rm, statfs, writeFile } from 'node:fs/promises';
import { availableParallelism, tmpdir, totalmem } from 'node:os';
import { join } from 'node:path';
import { hasBcrypt } from '../../auth/users/imported-hash.ts';
import { checkPasswordHashing } from '../../auth/users/password.ts';
import { approximateBytes } from '../../lib/bytes.ts';
import { packageVersion, resolvePackage } from '../../lib/own-files.ts';
import { bad, type Look, ok, warning } from './check.ts';

const MB = 1024 ** 2;
const FEW_FILES = 4_096;
const LITTLE_DISK = 1024 * MB;
const LITTLE_MEMORY = 512 * MB;

export const node: Look = () =>
  ok(`svc ${packageVersion()} on Node ${process.versions.node}, ${process.platform} ${process.arch}`);

export const passwords: Look = () => {
  checkPasswordHashing();
  return hasBcrypt()
    ? ok('passwords can be hashed')
    : warning(
        'users that came with a hash of bcrypt cannot sign in: @node-rs/bcrypt lacks its native half',
        'npm install without --omit=optional',
      );
};

export const images: Look = () => {
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

export const memory: Look = () => {
  // A container says less than the machine has.
  const bytes = Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY);
  const says = `${approximateBytes(bytes)} of memory, ${availableParallelism()} processors`;
  return bytes < LITTLE_MEMORY ? warning(says, 'give it 512 MB; see "Memory" in docs/running.md') : ok(says);
};

/** Linux only: elsewhere the limit cannot be read. */
export const openFiles: Look = () => {
  const limits = process.platform === 'linux' ? readFileSync('/proc/self/limits', 'utf8') : '';
  const [, soft] = /^Max open files\s+(\d+)/m.exec(limits) ?? [];
  if (soft === undefined) return ok('the limit of open files is not known here');
  return Number(soft) < FEW_FILES
    ? warning(
        `at most ${soft} open files, and each connection is one`,
        'LimitNOFILE=65536 in the unit, or ulimit -n',
      )
    : ok(`at most ${soft} open files`);
};

export const temporary: Look = async () => {
  const folder = await mkdtemp(join(tmpdir(), 'svc-doctor-'));
  try {
    await writeFile(join(folder, 'probe'), 'probe');
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  return await spaceOf(tmpdir());
};

/** Room on the disk that the folder is on. */
export async function spaceOf(folder: string): Promise<ReturnType<typeof ok>> {
  const { bavail, bsize } = await statfs(folder);
  const says = `${folder} is writable, ${approximateBytes(bavail * bsize)} free`;
  if (bavail * bsize < 50 * MB) return bad(says, 'make room');
  return bavail * bsize < LITTLE_DISK ? warning(says, 'make room') : ok(says);
}
