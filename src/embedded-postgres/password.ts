// The superuser's password of the development database: random, created once, readable only by its owner. Every user of
// the machine can connect to loopback, so a server without a password would be open to all of them.
import { randomBytes } from 'node:crypto';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { giveTo, type Account } from './account.ts';
import { ifExists } from './if-exists.ts';

export async function readPassword(file: string): Promise<string | undefined> {
  return (await ifExists(readFile(file, 'utf8')))?.trim() || undefined;
}

export async function createPassword(file: string, owner: Account | undefined): Promise<string> {
  const password = randomBytes(24).toString('base64url');
  const draft = `${file}.${randomBytes(4).toString('hex')}`;
  await writeFile(draft, `${password}\n`, { flag: 'wx', mode: 0o600 });
  await giveTo(draft, owner);
  await rename(draft, file);
  return password;
}
