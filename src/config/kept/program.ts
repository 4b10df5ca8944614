// Which program this is, as far as it decides what a file means.
import { createHash } from 'node:crypto';
import { readdirSync, statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { packageVersion } from '../../lib/package-version.ts';

/** Folders whose modules read a file and hash what it declares. */
const FOLDERS = ['../../config/', '../../lib/', '../../migrate/schema/', '../../migrate/state/'];
const LIBRARIES = ['yaml', 'zod'];

let fingerprint: string | undefined;

/** Another one for every version, and for every build of one: the times of its files differ. */
export function programFingerprint(): string {
  return (fingerprint ??= makeFingerprint());
}

function makeFingerprint(): string {
  const hash = createHash('sha256');
  hash.update(`${packageVersion()} ${process.version} ${process.arch}`);
  for (const folder of FOLDERS) {
    const path = fileURLToPath(new URL(folder, import.meta.url));
    for (const name of readdirSync(path, { recursive: true, encoding: 'utf8' }).sort()) {
      if (name.endsWith('s')) hash.update(`\n${folder}${name} ${timesOf(`${path}${name}`)}`);
    }
  }
  for (const library of LIBRARIES)
    hash.update(`\n${library} ${timesOf(fileURLToPath(import.meta.resolve(library)))}`);
  return hash.digest('base64');
}

function timesOf(path: string): string {
  const { size, mtimeMs } = statSync(path);
  return `${size} ${mtimeMs}`;
}
