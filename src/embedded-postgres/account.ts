// Which user PostgreSQL runs as. It refuses user id 0, so when svc runs as root the database runs as somebody else:
// as the owner of the data or the project when that is an ordinary user, so that `sudo svc dev` leaves nothing behind
// that its owner cannot use, else as `postgres`, else as `nobody`. An ordinary user runs it as himself.
import { lchown, readFile, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { hasCode } from '../lib/error-code.ts';

export type Account = { readonly uid: number; readonly gid: number };

const NOBODY: Account = { uid: 65534, gid: 65534 };

export const isRoot = (): boolean => process.platform !== 'win32' && process.getuid?.() === 0;

/** The user to run PostgreSQL as; undefined is "as ourselves". */
export async function chooseAccount(
  dataDirectory: string,
  projectDirectory: string,
): Promise<Account | undefined> {
  if (!isRoot()) return undefined;
  const owner = await ordinaryOwner(projectDirectory);
  return (
    (await ordinaryOwner(dataDirectory)) ??
    // initdb refuses to work for a user id without a name, as the owners of mounted folders in containers often are.
    (owner && (await hasName(owner)) ? owner : undefined) ??
    (await accountNamed('postgres')) ??
    (await accountNamed('nobody')) ??
    NOBODY
  );
}

/** Owner of a path, unless it is root's or not there. */
export async function ordinaryOwner(path: string): Promise<Account | undefined> {
  try {
    const { uid, gid } = await stat(path);
    return uid === 0 ? undefined : { uid, gid };
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}

/** Gives a file we made to an account. Never through a symbolic link, which could lead to a file of the system. */
export async function giveTo(path: string, account: Account | undefined): Promise<void> {
  if (account !== undefined) await lchown(path, account.uid, account.gid);
}

/** May this account enter every folder on the way to a path, and the path itself? Access lists are not looked at. */
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

/** The ordinary users. Node can switch to a user by name but not look one up without switching. */
async function users(): Promise<readonly (Account & { readonly name: string })[]> {
  const text = await readFile('/etc/passwd', 'utf8').catch(() => '');
  return text
    .split('\n')
    .map((line) => line.split(':'))
    .map(([name = '', , uid, gid]) => ({ name, uid: Number(uid), gid: Number(gid) }))
    .filter(({ name, uid, gid }) => name !== '' && uid > 0 && Number.isSafeInteger(gid));
}
