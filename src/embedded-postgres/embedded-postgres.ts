// The development PostgreSQL of one project: made at the first start, kept in the project's `.svc` folder, found again
// however svc or the server ended. Roles, schemas and migrations are for whoever gets its URL.
import { mkdir, stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import type { Log } from '../log/log.ts';
import { chooseAccount, giveTo, isRoot, ordinaryOwner, type Account } from './account.ts';
import { createDataDirectory, hasDataDirectory, removeHalfMade } from './data-directory.ts';
import { keepShort, openLogFile } from './log-file.ts';
import { findNativePackage, type NativePackage } from './native-package.ts';
import { createPassword, readPassword } from './password.ts';
import {
  askServer,
  findPostmaster,
  startPostmaster,
  stopPostmaster,
  whenReady,
  type Durability,
  type Postmaster,
} from './postmaster.ts';
import { notOurs, passwordLost, startFailed } from './problem.ts';
import { isAlive } from './process-table.ts';
import type { Program } from './program.ts';
import { acquireProjectLock } from './project-lock.ts';
import { usableNative } from './usable-native.ts';

export type EmbeddedPostgresOptions = {
  /** The project's `.svc` folder; made when it is not there. */
  readonly dir: string;
  readonly log: Log;
  /** `throwaway` trades the safety of the data for speed; for tests. */
  readonly durability?: Durability | undefined;
  /** Other binaries than the ones npm installed for this platform. */
  readonly native?: NativePackage | undefined;
};

export type EmbeddedPostgres = {
  /** Connection string of the superuser; it holds the password. */
  readonly url: string;
  /** For example `18.4`. */
  readonly version: string;
  /** The server was left running by an earlier svc. */
  readonly adopted: boolean;
  readonly pid: number;
  /** Ends the server and releases the project; may be called more than once. */
  stop(): Promise<void>;
};

/** What every step of a start works with. */
type Project = {
  readonly program: Program;
  readonly durability: Durability;
  /** Whom our files should belong to when root works in a user's project. */
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
    const urlOf = (port: number) => `postgres://postgres:${password}@127.0.0.1:${port}/postgres`;
    const left = await takeOver(project, urlOf);
    const server = left ?? (await startServer(project, urlOf));
    const adopted = left !== undefined;
    options.log.debug({ pid: server.pid, port: server.port, adopted }, 'PostgreSQL is ready');

    const endShortening = keepShort(project.logFile);
    const endWatch = watchFor(server.pid, () =>
      options.log.error(
        { pid: server.pid },
        `PostgreSQL ended unexpectedly: see ${project.logFile}, start svc again`,
      ),
    );
    // When svc ends without stopping the server: an exit hook can do no more than send a signal.
    const signalServer = () => signalQuietly(server.pid);
    process.once('exit', signalServer);
    let stopping: Promise<void> | undefined;
    const stop = async () => {
      endShortening();
      endWatch();
      try {
        await stopPostmaster(project.program, project.dataDirectory, server.pid, project.durability);
      } finally {
        process.removeListener('exit', signalServer);
        await lock.release();
      }
    };
    return {
      url: urlOf(server.port),
      version: project.program.native.version,
      adopted,
      pid: server.pid,
      stop: () => (stopping ??= stop()),
    };
  } catch (error) {
    await lock.release();
    throw error;
  }
}

/** Makes `.svc`, and finds whom our files should belong to: when root works in a user's project, that user. */
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
  const dataDirectory = join(dir, 'postgres');
  const account = await chooseAccount(dataDirectory, dirname(dir));
  return {
    program: { native: await usableNative(native ?? (await findNativePackage()), account, dir), account },
    durability: durability ?? 'durable',
    owner,
    dataDirectory,
    passwordFile: join(dir, 'postgres.password'),
    logFile: join(dir, 'postgres.log'),
  };
}

/** Data directory and password, made when this is the first start. Returns the password. */
async function prepareData(project: Project): Promise<string> {
  const { program, dataDirectory, passwordFile } = project;
  await removeHalfMade(dataDirectory);
  const known = await readPassword(passwordFile);
  if (await hasDataDirectory(dataDirectory, program)) {
    if (known === undefined) throw passwordLost(passwordFile, dataDirectory);
    return known;
  }
  // The password comes first: a crash in between leaves a password without data, which the next start uses.
  const password = known ?? (await createPassword(passwordFile, project.owner));
  await createDataDirectory(program, { dataDirectory, password, sync: project.durability === 'durable' });
  return password;
}

/** A server that outlived its svc is used again when it is surely ours and current, and stopped otherwise. */
async function takeOver(
  { program, dataDirectory }: Project,
  urlOf: (port: number) => string,
): Promise<Postmaster | undefined> {
  const found = await findPostmaster(dataDirectory);
  if (found === undefined) return undefined;
  const ready = await whenReady(dataDirectory, found.pid);
  if (ready?.port !== undefined) {
    const answer = await askServer(urlOf(ready.port));
    if (
      answer.kind === 'answers' &&
      answer.version === program.native.version &&
      Math.abs(answer.startedAtSeconds - ready.startedAtSeconds) <= 2
    ) {
      return { pid: ready.pid, port: ready.port };
    }
  }
  await stopPostmaster(program, dataDirectory, found.pid, 'durable');
  return undefined;
}

async function startServer(project: Project, urlOf: (port: number) => string): Promise<Postmaster> {
  const { program, durability, dataDirectory, passwordFile, logFile } = project;
  const log = await openLogFile(logFile, project.owner);
  try {
    const server = await startPostmaster(program, { dataDirectory, durability, log });
    const answer = await askServer(urlOf(server.port));
    if (answer.kind === 'answers') return server;
    await stopPostmaster(program, dataDirectory, server.pid, durability);
    if (answer.kind === 'refuses-password') throw passwordLost(passwordFile, dataDirectory);
    throw startFailed('it does not answer on its port', logFile, answer.cause);
  } finally {
    await log.close();
  }
}

/** Calls when the process ends, child of ours or adopted: an adopted one announces nothing. The result ends the watch. */
function watchFor(pid: number, onEnd: () => void): () => void {
  let watching = true;
  const end = () => {
    watching = false;
    clearInterval(timer);
  };
  const timer = setInterval(() => {
    void isAlive(pid).then((alive) => {
      // The watch may have been ended in the meantime.
      if (alive || !watching) return;
      end();
      onEnd();
    });
  }, 1000);
  timer.unref();
  return end;
}

function signalQuietly(pid: number): void {
  try {
    process.kill(pid, 'SIGINT');
  } catch {
    // It ended before us.
  }
}
