// Creates the data directory atomically: initdb runs in a temporary folder next to the final path, and the folder is
// renamed at the end. The next start removes the remains of a crash.
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { must } from '../lib/assert.ts';
import { giveTo } from './account.ts';
import { hasCode, ifExists } from '../lib/error-code.ts';
import { notOurs, occupied, problemFromOutput, wrongVersion } from './problem.ts';
import { launch, dataDirectoryArgument, type Program } from './program.ts';

/** `sync: false` skips the flush to disk, for throwaway data. */
export async function createDataDirectory(
  program: Program,
  dataDirectory: string,
  { password, sync }: { password: string; sync: boolean },
): Promise<void> {
  const work = await mkdtemp(`${dataDirectory}.new-`);
  try {
    const fresh = join(work, 'data');
    const passwordFile = join(work, 'password');
    await mkdir(fresh, { mode: 0o700 });
    await writeFile(passwordFile, password, { flag: 'wx', mode: 0o600 });
    for (const path of [work, fresh, passwordFile]) await giveTo(path, program.account);
    await runInitdb(program, fresh, sync);
    await moveInPlace(fresh, dataDirectory);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

async function moveInPlace(fresh: string, dataDirectory: string): Promise<void> {
  try {
    await rename(fresh, dataDirectory);
  } catch (error) {
    if (hasCode(error, 'ENOTEMPTY', 'EEXIST', 'ENOTDIR')) throw occupied(dataDirectory);
    throw error;
  }
}

/** Removes what interrupted first starts left. Call only with the project lock held. */
export async function removeUnfinished(dataDirectory: string): Promise<void> {
  const parent = dirname(dataDirectory);
  for (const name of await readdir(parent)) {
    if (name.startsWith(`${basename(dataDirectory)}.new-`)) {
      // Retries, because an initdb that outlived its svc may still be writing there.
      await rm(join(parent, name), { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
    }
  }
}

/** Throws if the data directory exists but this svc cannot use it. */
export async function hasDataDirectory(dataDirectory: string, program: Program): Promise<boolean> {
  const found = await ifExists(stat(dataDirectory));
  if (!found) return false;
  const us = program.account?.uid ?? process.getuid?.() ?? found.uid;
  if (found.uid !== us) throw notOurs(dataDirectory, found.uid, us);
  const major = (await ifExists(readFile(join(dataDirectory, 'PG_VERSION'), 'utf8')))?.trim();
  if (major !== undefined && major !== program.native.major) {
    throw wrongVersion(dataDirectory, major, program.native.major);
  }
  return major !== undefined;
}

/**
 * The built-in provider sorts by code point and maps Unicode case, the same on every machine. It exists since
 * PostgreSQL 17; older binaries use the C library's locale of the same name.
 */
const localeOptions = ({ native }: Program): string[] =>
  Number(native.major) >= 17
    ? ['--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8']
    : ['--locale=C.UTF-8'];

async function runInitdb(program: Program, fresh: string, sync: boolean): Promise<void> {
  const name = await dataDirectoryArgument(fresh, program.account);
  const child = await launch(program, {
    name: 'initdb',
    args: [
      `--pgdata=${name}`,
      `--pwfile=${name}/../password`,
      '--username=postgres',
      '--auth=scram-sha-256',
      '--encoding=UTF8',
      ...localeOptions(program),
      '--no-instructions',
      ...(sync ? [] : ['--no-sync']),
    ],
    cwd: fresh,
    // Detached, so that Ctrl-C reaches only svc, which waits for initdb (under a second) before it stops.
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const exited = once(child, 'close');
  const [stdout, stderr] = await Promise.all([
    text(must(child.stdout, 'stdout')),
    text(must(child.stderr, 'stderr')),
  ]);
  await exited;
  if (child.exitCode !== 0) throw problemFromOutput(`${stdout}\n${stderr}`);
}
