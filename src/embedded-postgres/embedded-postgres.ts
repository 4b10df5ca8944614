// The development PostgreSQL of one project: made at the first start, kept in the project's `.svc` folder, found
// again after any kind of end. It knows nothing of roles, schemas or migrations: whoever gets its URL does the rest.
import { mkdir, stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import type { Log } from '../log/log.ts';
import { chooseAccount, giveTo, isRoot, ordinaryOwner } from './account.ts';
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
  /** Ends the server and gives the project free; may be called more than once. */
  stop(): Promise<void>;
};

export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const dir = resolve(options.dir);
  const places = {
    dir,
    dataDirectory: join(dir, 'postgres'),
    passwordFile: join(dir, 'postgres.password'),
    logFile: join(dir, 'postgres.log'),
  };
  const durability = options.durability ?? 'durable';
  const owner = await makeFolder(dir);
  const lock = await acquireProjectLock(dir, owner);
  try {
    const account = await chooseAccount(places.dataDirectory, dirname(dir));
    const native = await usableNative(options.native ?? (await findNativePackage()), account, dir);
    const program: Program = { native, account };
    const password = await prepareData(program, places, durability, owner);
    const urlOf = (port: number) => `postgres://postgres:${password}@127.0.0.1:${port}/postgres`;

    const left = await takeOver(program, places.dataDirectory, urlOf);
    const server = left ?? (await startServer(program, places, durability, owner, urlOf));
    options.log.debug(
      { pid: server.pid, port: server.port, adopted: left !== undefined },
      'PostgreSQL is ready',
    );

    const endShortening = keepShort(places.logFile);
    const endWatch = watchFor(server.pid, () =>
      options.log.error(
        { pid: server.pid },
        `PostgreSQL ended unexpectedly: see ${places.logFile}, start svc again`,
      ),
    );
    // The last resort when svc ends without stopping us: a signal is all that can be sent from there.
    const lastResort = () => signalQuietly(server.pid);
    process.once('exit', lastResort);
    let stopping: Promise<void> | undefined;
    const stop = async () => {
      endShortening();
      endWatch();
      try {
        await stopPostmaster(program, places.dataDirectory, server.pid, durability);
      } finally {
        process.removeListener('exit', lastResort);
        await lock.release();
      }
    };
    return {
      url: urlOf(server.port),
      version: native.version,
      adopted: left !== undefined,
      pid: server.pid,
      stop: () => (stopping ??= stop()),
    };
  } catch (error) {
    await lock.release();
    throw error;
  }
}

type Places = {
  readonly dir: string;
  readonly dataDirectory: string;
  readonly passwordFile: string;
  readonly logFile: string;
};

type Owner = Awaited<ReturnType<typeof ordinaryOwner>>;

/** Makes `.svc`, and finds whom our files should belong to: when root works in a user's project, that user. */
async function makeFolder(dir: string): Promise<Owner> {
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

/** Data directory and password, made when this is the first start. Answers the password. */
async function prepareData(
  program: Program,
  places: Places,
  durability: Durability,
  owner: Owner,
): Promise<string> {
  await removeHalfMade(places.dataDirectory);
  const known = await readPassword(places.passwordFile);
  if (await hasDataDirectory(places.dataDirectory, program)) {
    if (known === undefined) throw passwordLost(places.passwordFile, places.dataDirectory);
    return known;
  }
  // The password comes first: a crash in between leaves a password without data, which the next start uses.
  const password = known ?? (await createPassword(places.passwordFile, owner));
  await createDataDirectory(program, {
    dataDirectory: places.dataDirectory,
    password,
    sync: durability === 'durable',
  });
  return password;
}

/** A server that outlived its svc is used as it is when it is surely ours and current, and ended otherwise. */
async function takeOver(
  program: Program,
  dataDirectory: string,
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

async function startServer(
  program: Program,
  places: Places,
  durability: Durability,
  owner: Owner,
  urlOf: (port: number) => string,
): Promise<Postmaster> {
  const log = await openLogFile(places.logFile, owner);
  try {
    const { dataDirectory } = places;
    const server = await startPostmaster(program, { dataDirectory, durability, log });
    const answer = await askServer(urlOf(server.port));
    if (answer.kind === 'answers') return server;
    await stopPostmaster(program, dataDirectory, server.pid, durability);
    if (answer.kind === 'refuses-password') throw passwordLost(places.passwordFile, dataDirectory);
    throw startFailed('it does not answer on its port', places.logFile, answer.cause);
  } finally {
    await log.close();
  }
}

/** An adopted server is no child of ours and announces nothing, so both kinds are looked at. */
function watchFor(pid: number, ended: () => void): () => void {
  let watching = true;
  const timer = setInterval(() => {
    void isAlive(pid).then((alive) => {
      // The answer may come after a stop has begun.
      if (alive || !watching) return;
      end();
      ended();
    });
  }, 1000);
  const end = () => {
    watching = false;
    clearInterval(timer);
  };
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
