// Runs initdb, postgres and pg_ctl: the user, the environment, and the path of the data directory.
import { spawn, type ChildProcess, type StdioOptions } from 'node:child_process';
import { canReach, type Account } from './account.ts';
import { hasCode } from '../lib/error-code.ts';
import { binary, type NativePackage } from './native-package.ts';
import { noUnprivilegedUser, notExecutable, unreachableDirectory } from './problem.ts';

export type Program = { readonly native: NativePackage; readonly account: Account | undefined };

export type Invocation = {
  readonly name: 'initdb' | 'postgres' | 'pg_ctl';
  readonly args: readonly string[];
  /** Always the data directory; `dataDirectoryArgument` relies on it. */
  readonly cwd: string;
  readonly stdio: StdioOptions;
  readonly detached?: boolean | undefined;
};

/**
 * The data directory as an argument for the program. The project may be below a folder that only root can enter, such
 * as /root. Node changes the directory before it drops root's privileges, and on Linux a process can open its working
 * directory as /proc/self/cwd, whatever the folders above permit.
 */
export async function dataDirectoryArgument(
  dataDirectory: string,
  account: Account | undefined,
): Promise<string> {
  if (account === undefined || (await canReach(account, dataDirectory))) return dataDirectory;
  if (process.platform !== 'linux') throw unreachableDirectory(dataDirectory, account.uid);
  return '/proc/self/cwd';
}

export async function launch(program: Program, call: Invocation): Promise<ChildProcess> {
  const file = binary(program.native, call.name);
  const child = spawn(file, call.args, {
    cwd: call.cwd,
    env: environment(),
    stdio: call.stdio,
    detached: call.detached ?? false,
    windowsHide: true,
    ...program.account,
  });
  await new Promise<void>((resolve, reject) => {
    child.once('spawn', resolve);
    child.once('error', (cause) => {
      if (program.account && hasCode(cause, 'EPERM', 'EINVAL')) {
        reject(noUnprivilegedUser(program.account.uid, cause));
      } else {
        reject(notExecutable(file, cause));
      }
    });
  });
  return child;
}

/**
 * Does not inherit variables: PGPORT or PGOPTIONS would reconfigure the server, and it must not receive our secrets.
 */
function environment(): NodeJS.ProcessEnv {
  // English messages, because problemFromOutput matches them; UTC, because initdb would store the local time zone.
  const fixed = { LC_ALL: 'C', TZ: 'UTC' };
  if (process.platform !== 'win32') return { ...fixed, PATH: '/usr/bin:/bin' };
  const root = String.raw`C:\Windows`;
  return { ...fixed, SystemRoot: root, PATH: String.raw`${root}\System32` };
}
