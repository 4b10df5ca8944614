// Which program this is, as far as it decides what a file means.
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { codeFolder, packageVersion, resolvePackage } from '../../lib/own-files.ts';

/** Folders whose modules read a file and hash what it declares; in a published package they are merged into few files. */
const FOLDERS = ['config', 'lib', 'migrate/schema', 'migrate/state'];
const LIBRARIES = ['yaml', 'zod'];

let fingerprint: string | undefined;

/** Another one for every version, and for every build of one: the times of its files differ. */
export function programFingerprint(): string {
  return (fingerprint ??= makeFingerprint());
}

function makeFingerprint(): string {
  const hash = createHash('sha256');
  hash.update(`${packageVersion()} ${process.version} ${process.arch}`);
  const isMerged = !existsSync(join(codeFolder(), 'config'));
  for (const folder of isMerged ? ['.'] : FOLDERS) {
    const path = join(codeFolder(), folder);
    for (const name of readdirSync(path, { recursive: true, encoding: 'utf8' }).sort()) {
      if (name.endsWith('s')) hash.update(`\n${folder}/${name} ${timesOf(join(path, name))}`);
    }
  }
  for (const library of isMerged ? [] : LIBRARIES)
    hash.update(`\n${library} ${timesOf(resolvePackage(library))}`);
  return hash.digest('base64');
}

function timesOf(path: string): string {
  const { size, mtimeMs } = statSync(path);
  return `${size} ${mtimeMs}`;
}
