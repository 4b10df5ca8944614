// How initdb and postgres are called: as which user, with which environment, and how they name the data directory.
import { spawn, type ChildProcess, type StdioOptions } from 'node:child_process';
import { canReach, type Account } from './account.ts';
import { hasCode } from '../lib/error-code.ts';
import { binary, type NativePackage } from './native-package.ts';
import { noUnprivilegedUser, notExecutable, unreachableDirectory } from './problem.ts';

export type Program = { readonly native: NativePackage; readonly account: Account | undefined };

export type Invocation = {
  readonly name: 'initdb' | 'postgres' | 'pg_ctl';
  readonly args: readonly string[];
  /** Always the data directory: PostgreSQL goes there anyway, and see `nameOf`. */
  readonly cwd: string;
  readonly stdio: StdioOptions;
  readonly detached?: boolean | undefined;
};

/**
 * The path by which the program should name its data directory. The project may lie below a folder that only root may
 * enter (such as /root). Node enters the working directory before it gives up root's rights, and Linux lets a process
 * open the directory it is in as /proc/self/cwd, whatever lies above.
 */
export async function nameOf(dataDirectory: string, account: Account | undefined): Promise<string> {
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

/** Nothing of the user's: PGPORT or PGOPTIONS would reconfigure the server, and secrets do not belong in it. */
function environment(): NodeJS.ProcessEnv {
  // English messages, because we recognise some of them; UTC, because initdb would write the local zone down.
  const fixed = { LC_ALL: 'C', TZ: 'UTC' };
  if (process.platform !== 'win32') return { ...fixed, PATH: '/usr/bin:/bin' };
  const root = String.raw`C:\Windows`;
  return { ...fixed, SystemRoot: root, PATH: String.raw`${root}\System32` };
}
