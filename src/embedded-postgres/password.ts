// The superuser's password of the development database: random, made once, readable by its owner only.
// Loopback is shared by every user of the machine, so a server without a password would be open to all of them.
import { randomBytes } from 'node:crypto';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { giveTo, type Account } from './account.ts';
import { hasCode } from '../lib/error-code.ts';

export async function readPassword(file: string): Promise<string | undefined> {
  try {
    return (await readFile(file, 'utf8')).trim() || undefined;
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}

export async function createPassword(file: string, owner: Account | undefined): Promise<string> {
  const password = randomBytes(24).toString('base64url');
  const draft = `${file}.${randomBytes(4).toString('hex')}`;
  await writeFile(draft, `${password}\n`, { flag: 'wx', mode: 0o600 });
  await giveTo(draft, owner);
  await rename(draft, file);
  return password;
}
