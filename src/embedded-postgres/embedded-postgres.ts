// The development PostgreSQL of one project: created at the first start in the project's `.svc` folder, and recovered
// however svc or the server ended. Roles, schemas and migrations are left to the caller.
import { randomBytes } from 'node:crypto';
import { mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { ifExists } from '../lib/error-code.ts';
import type { Log } from '../log/log.ts';
import { chooseAccount, giveTo, isRoot, ordinaryOwner, type Account } from './account.ts';
import { createDataDirectory, hasDataDirectory, removeUnfinished } from './data-directory.ts';
import { limitSize, openLogFile } from './log-file.ts';
import { findNativePackage, type NativePackage } from './native-package.ts';
import {
  clearRuins,
  probeServer,
  findPostmaster,
  pollUntil,
  startPostmaster,
  stopPostmaster,
  type Durability,
  type Postmaster,
} from './postmaster.ts';
import { readPostmasterFile } from './postmaster-file.ts';
import { notOurs, passwordLost, startFailed } from './problem.ts';
import { isAlive } from './process-table.ts';
import type { Program } from './program.ts';
import { acquireProjectLock } from './project-lock.ts';
import { usableNative } from './usable-native.ts';

/** Time for a disposable server to stop. */
const ABANDONED_ENDS_MS = 10_000;

export type EmbeddedPostgresOptions = {
  /** The project's `.svc` folder; created if missing. */
  readonly dir: string;
  readonly log: Log;
  /** `throwaway` trades crash safety for speed. For tests. */
  readonly durability?: Durability | undefined;
  /** Binaries to use instead of those npm installed for this platform. */
  readonly native?: NativePackage | undefined;
};

export type EmbeddedPostgres = {
  /** Connection string of the superuser, with the password. */
  readonly url: string;
  /** Version, for example `18.4`. */
  readonly version: string;
  readonly pid: number;
  /** Stops the server and releases the project lock; idempotent. */
  stop(): Promise<void>;
};

type Project = {
  readonly program: Program;
  readonly durability: Durability;
  /** Owner for our files when root works in a user's project. */
  readonly owner: Account | undefined;
  readonly dataDirectory: string;
  readonly passwordFile: string;
  readonly logFile: string;
};

export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const dir = resolve(options.dir);
  const owner = await makeFolder(dir);
  const lock = await acquireProjectLock(dir, owner);
  try {
    const project = await openProject(dir, owner, options);
    const password = await prepareData(project);
    await stopLeftOver(project);
    const server = await startServer(project, password);
    options.log.debug({ pid: server.pid, port: server.port }, 'PostgreSQL is ready');

    const stopLimiting = limitSize(project.logFile);
    const reportExit = () =>
      options.log.error(
        { pid: server.pid },
        `PostgreSQL exited unexpectedly: see ${project.logFile}, then restart svc`,
      );
    server.child.once('exit', reportExit);
    // For an exit without `stop`: an exit hook is synchronous, so all it can do is send a signal.
    const signalServer = () => signalQuietly(server.pid);
    process.once('exit', signalServer);
    let stopping: Promise<void> | undefined;
    const stop = async () => {
      stopLimiting();
      server.child.removeListener('exit', reportExit);
      try {
        await stopPostmaster(project.program, project.dataDirectory, server.pid, project.durability);
      } finally {
        process.removeListener('exit', signalServer);
        await lock.release();
      }
    };
    return {
      url: serverUrl(server.port, password),
      version: project.program.native.version,
      pid: server.pid,
      stop: () => (stopping ??= stop()),
    };
  } catch (error) {
    await lock.release();
    throw error;
  }
}

/** Address of the server that another svc of this project runs; undefined if there is none. */
export async function runningUrl(dir: string): Promise<string | undefined> {
  const { dataDirectory, passwordFile } = filesIn(dir);
  const postmaster = await readPostmasterFile(dataDirectory);
  const password = await readPassword(passwordFile);
  return postmaster && password && serverUrl(postmaster.port, password);
}

/** Removes a folder like `.svc`, and ends the server that a killed svc has left running in it. */
export async function removeState(dir: string): Promise<void> {
  const left = await findPostmaster(filesIn(dir).dataDirectory);
  if (left) {
    signalQuietly(left.pid, 'SIGQUIT');
    await pollUntil(ABANDONED_ENDS_MS, async () => ((await isAlive(left.pid)) ? undefined : true));
  }
  await rm(dir, { recursive: true, force: true });
}

function serverUrl(port: number | undefined, password: string): string {
  return `postgres://postgres:${password}@127.0.0.1:${port}/postgres`;
}

function filesIn(dir: string): Pick<Project, 'dataDirectory' | 'passwordFile' | 'logFile'> {
  return {
    dataDirectory: join(dir, 'postgres'),
    passwordFile: join(dir, 'postgres.password'),
    logFile: join(dir, 'postgres.log'),
  };
}

/** Creates `.svc`. Returns the owner for our files if root works in a user's project. */
async function makeFolder(dir: string): Promise<Account | undefined> {
  await mkdir(dir, { recursive: true });
  const { uid } = await stat(dir);
  if (!isRoot()) {
    const us = process.getuid?.();
    if (us !== undefined && uid !== us) throw notOurs(dir, uid, us);
    return undefined;
  }
  const owner = await ordinaryOwner(dirname(dir));
  if (uid === 0) await giveTo(dir, owner);
  return owner;
}

async function openProject(
  dir: string,
  owner: Account | undefined,
  { native, durability }: EmbeddedPostgresOptions,
): Promise<Project> {
  const files = filesIn(dir);
  const account = await chooseAccount(files.dataDirectory, dirname(dir));
  return {
    program: { native: await usableNative(native ?? (await findNativePackage()), account, dir), account },
    durability: durability ?? 'durable',
    owner,
    ...files,
  };
}

/** Creates data directory and password on the first start. Returns the password. */
async function prepareData(project: Project): Promise<string> {
  const { program, dataDirectory, passwordFile } = project;
  await removeUnfinished(dataDirectory);
  const known = await readPassword(passwordFile);
  if (await hasDataDirectory(dataDirectory, program)) {
    if (known === undefined) throw passwordLost(passwordFile, dataDirectory);
    return known;
  }
  // The password first: after a crash in between, the next start uses it for the new data directory.
  const password = known ?? (await createPassword(passwordFile, project.owner));
  await createDataDirectory(program, dataDirectory, { password, sync: project.durability === 'durable' });
  return password;
}

async function readPassword(file: string): Promise<string | undefined> {
  return (await ifExists(readFile(file, 'utf8')))?.trim() || undefined;
}

/** Every user of the machine can connect to loopback, so a server without a password would be open to all of them. */
async function createPassword(file: string, owner: Account | undefined): Promise<string> {
  const password = randomBytes(24).toString('base64url');
  const draft = `${file}.${randomBytes(4).toString('hex')}`;
  await writeFile(draft, `${password}\n`, { flag: 'wx', mode: 0o600 });
  await giveTo(draft, owner);
  await rename(draft, file);
  return password;
}

/** Stops a server that a killed svc left running: its data is safe, and a new start applies the present settings. */
async function stopLeftOver({ program, dataDirectory }: Project): Promise<void> {
  const found = await findPostmaster(dataDirectory);
  if (found === undefined) return;
  await stopPostmaster(program, dataDirectory, found.pid, 'durable');
  // The server may have been killed in the meantime, or may not be fully gone.
  await clearRuins(dataDirectory, found.pid);
}

async function startServer(project: Project, password: string): Promise<Postmaster> {
  const { program, durability, dataDirectory, passwordFile, logFile } = project;
  const log = await openLogFile(logFile, project.owner);
  try {
    const server = await startPostmaster(program, { dataDirectory, durability, log });
    const answer = await probeServer(serverUrl(server.port, password));
    if (answer.kind === 'ok') return server;
    await stopPostmaster(program, dataDirectory, server.pid, durability);
    if (answer.kind === 'wrong-password') throw passwordLost(passwordFile, dataDirectory);
    throw startFailed('it does not answer on its port', logFile, answer.cause);
  } finally {
    await log.close();
  }
}

function signalQuietly(pid: number, signal: NodeJS.Signals = 'SIGINT'): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has already exited.
  }
}
