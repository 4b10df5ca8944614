// Makes the data directory, whole or not at all: initdb works in a folder beside the final place, which is renamed at
// the end. A crash in between leaves a folder that the next start removes.
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { must } from '../lib/assert.ts';
import { giveTo } from './account.ts';
import { hasCode } from '../lib/error-code.ts';
import { ifThere } from './if-there.ts';
import { notOurs, occupied, problemFromOutput, wrongVersion } from './problem.ts';
import { launch, nameOf, type Program } from './program.ts';

export type NewDataDirectory = {
  readonly dataDirectory: string;
  readonly password: string;
  /** False skips the flush to disk; for data nobody will miss. */
  readonly sync: boolean;
};

export async function createDataDirectory(program: Program, wanted: NewDataDirectory): Promise<void> {
  const work = await mkdtemp(`${wanted.dataDirectory}.new-`);
  try {
    const fresh = join(work, 'data');
    const passwordFile = join(work, 'password');
    await mkdir(fresh, { mode: 0o700 });
    await writeFile(passwordFile, wanted.password, { flag: 'wx', mode: 0o600 });
    for (const path of [work, fresh, passwordFile]) await giveTo(path, program.account);
    await runInitdb(program, fresh, wanted.sync);
    await moveInPlace(fresh, wanted.dataDirectory);
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

/** Removes what interrupted first starts left. Only the holder of the project's lock may. */
export async function removeHalfMade(dataDirectory: string): Promise<void> {
  const parent = dirname(dataDirectory);
  for (const name of await readdir(parent)) {
    if (name.startsWith(`${basename(dataDirectory)}.new-`)) {
      // An initdb that outlived its svc may still be writing there.
      await rm(join(parent, name), { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
    }
  }
}

/** Throws for a data directory that this svc cannot use. */
export async function hasDataDirectory(dataDirectory: string, program: Program): Promise<boolean> {
  const found = await ifThere(stat(dataDirectory));
  if (!found) return false;
  const us = program.account?.uid ?? process.getuid?.() ?? found.uid;
  if (found.uid !== us) throw notOurs(dataDirectory, found.uid, us);
  const major = (await ifThere(readFile(join(dataDirectory, 'PG_VERSION'), 'utf8')))?.trim();
  if (major !== undefined && major !== program.native.major) {
    throw wrongVersion(dataDirectory, major, program.native.major);
  }
  return major !== undefined;
}

/**
 * The built-in provider sorts by code point and knows Unicode's upper and lower case, the same on every machine. It
 * came with PostgreSQL 17; for older binaries the C library's locale of that name does the same.
 */
const localeOf = ({ native }: Program): string[] =>
  Number(native.major) >= 17
    ? ['--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8']
    : ['--locale=C.UTF-8'];

async function runInitdb(program: Program, fresh: string, sync: boolean): Promise<void> {
  const name = await nameOf(fresh, program.account);
  const child = await launch(program, {
    name: 'initdb',
    args: [
      `--pgdata=${name}`,
      `--pwfile=${name}/../password`,
      '--username=postgres',
      '--auth=scram-sha-256',
      '--encoding=UTF8',
      ...localeOf(program),
      '--no-instructions',
      ...(sync ? [] : ['--no-sync']),
    ],
    cwd: fresh,
    // Ctrl-C in the terminal reaches svc alone, which lets initdb end (in less than a second) and then stops.
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const exited = once(child, 'close');
  const [said, complained] = await Promise.all([
    text(must(child.stdout, 'stdout')),
    text(must(child.stderr, 'stderr')),
  ]);
  await exited;
  if (child.exitCode !== 0) throw problemFromOutput(`${said}\n${complained}`);
}
