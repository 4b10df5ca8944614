// The user PostgreSQL runs as. It refuses to run as root; root therefore uses the owner of the data or of the project
// (after `sudo svc dev` the owner must still be able to use every file), else `postgres`, else `nobody`.
import { lchown, readFile, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { ifExists } from '../lib/error-code.ts';

export type Account = { readonly uid: number; readonly gid: number };

const NOBODY: Account = { uid: 65534, gid: 65534 };

export const isRoot = (): boolean => process.platform !== 'win32' && process.getuid?.() === 0;

/** The user to run PostgreSQL as; undefined for the current one. */
export async function chooseAccount(
  dataDirectory: string,
  projectDirectory: string,
): Promise<Account | undefined> {
  if (!isRoot()) return undefined;
  const owner = await ordinaryOwner(projectDirectory);
  return (
    (await ordinaryOwner(dataDirectory)) ??
    // initdb refuses a user id without a name, and owners of folders mounted into containers often have none.
    (owner && (await hasName(owner)) ? owner : undefined) ??
    (await accountNamed('postgres')) ??
    (await accountNamed('nobody')) ??
    NOBODY
  );
}

/** Owner of a path; undefined if that is root or the path does not exist. */
export async function ordinaryOwner(path: string): Promise<Account | undefined> {
  const found = await ifExists(stat(path));
  return found && found.uid !== 0 ? { uid: found.uid, gid: found.gid } : undefined;
}

/** Changes the owner of a file we created. Does not follow symbolic links: they could point to a system file. */
export async function giveTo(path: string, account: Account | undefined): Promise<void> {
  if (account !== undefined) await lchown(path, account.uid, account.gid);
}

/** Can the account enter (or execute) a path and every folder above it? By mode bits only, not by access lists. */
export async function canReach(account: Account, path: string): Promise<boolean> {
  for (let at = resolve(path); ; at = dirname(at)) {
    const { uid, gid, mode } = await stat(at);
    const bit = uid === account.uid ? 0o100 : gid === account.gid ? 0o010 : 0o001;
    if ((mode & bit) === 0) return false;
    if (dirname(at) === at) return true;
  }
}

export async function accountNamed(name: string): Promise<Account | undefined> {
  const account = (await users()).find((user) => user.name === name);
  return account && { uid: account.uid, gid: account.gid };
}

async function hasName(account: Account): Promise<boolean> {
  return (await users()).some(({ uid }) => uid === account.uid);
}

/** All users but root; Node has no API to look one up. */
async function users(): Promise<readonly (Account & { readonly name: string })[]> {
  const text = await readFile('/etc/passwd', 'utf8').catch(() => '');
  return text
    .split('\n')
    .map((line) => line.split(':'))
    .map(([name = '', , uid, gid]) => ({ name, uid: Number(uid), gid: Number(gid) }))
    .filter(({ name, uid, gid }) => name !== '' && uid > 0 && Number.isSafeInteger(gid));
}
