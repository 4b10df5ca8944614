// Which user PostgreSQL runs as. It refuses to run as root, so then the owner of the data or of the project runs it
// (`sudo svc dev` must leave nothing behind that its owner cannot use), else `postgres`, else `nobody`.
import { lchown, readFile, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { ifThere } from './if-there.ts';

export type Account = { readonly uid: number; readonly gid: number };

const NOBODY: Account = { uid: 65534, gid: 65534 };

export const isRoot = (): boolean => process.platform !== 'win32' && process.getuid?.() === 0;

/** The user to run PostgreSQL as; undefined: the one who runs svc. */
export async function chooseAccount(
  dataDirectory: string,
  projectDirectory: string,
): Promise<Account | undefined> {
  if (!isRoot()) return undefined;
  const owner = await ordinaryOwner(projectDirectory);
  return (
    (await ordinaryOwner(dataDirectory)) ??
    // initdb refuses a user id without a name, and the owner of a folder mounted into a container often has none.
    (owner && (await hasName(owner)) ? owner : undefined) ??
    (await accountNamed('postgres')) ??
    (await accountNamed('nobody')) ??
    NOBODY
  );
}

/** Owner of a path; undefined when it is root's or not there. */
export async function ordinaryOwner(path: string): Promise<Account | undefined> {
  const found = await ifThere(stat(path));
  return found && found.uid !== 0 ? { uid: found.uid, gid: found.gid } : undefined;
}

/** Gives a file we made to an account. Not through a symbolic link, which could lead to a file of the system. */
export async function giveTo(path: string, account: Account | undefined): Promise<void> {
  if (account !== undefined) await lchown(path, account.uid, account.gid);
}

/** May this account enter every folder on the way to a path, and the path itself? By mode bits, not access lists. */
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

/** The ordinary users. Node itself cannot look one up. */
async function users(): Promise<readonly (Account & { readonly name: string })[]> {
  const text = await readFile('/etc/passwd', 'utf8').catch(() => '');
  return text
    .split('\n')
    .map((line) => line.split(':'))
    .map(([name = '', , uid, gid]) => ({ name, uid: Number(uid), gid: Number(gid) }))
    .filter(({ name, uid, gid }) => name !== '' && uid > 0 && Number.isSafeInteger(gid));
}
