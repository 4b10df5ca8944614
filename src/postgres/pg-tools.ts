// Finds and runs PostgreSQL's pg_dump and pg_restore. No package contains them, so the usual folders are searched.
import { spawn } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import type { DatabaseAddress } from './address/database-address.ts';
import { Problem } from '../problem/problem.ts';

export type PgTool = { readonly path: string; readonly major: number };

/** Maximum output of a program that is kept, in characters. */
const MAX_OUTPUT_CHARS = 200_000;

const USUAL_FOLDERS = ['/usr/lib/postgresql', '/usr/local/opt', '/opt/homebrew/opt', '/Library/PostgreSQL'];

/** Returns the oldest version that is not older than the server. `env`: SVC_PG_BIN names one folder, PATH several. */
export async function findTool(
  name: 'pg_dump' | 'pg_restore',
  serverMajor: number,
  env: Readonly<Record<string, string | undefined>>,
): Promise<PgTool> {
  const found: PgTool[] = [];
  for (const folder of toolFolders(env)) {
    const path = join(folder, process.platform === 'win32' ? `${name}.exe` : name);
    if (!existsSync(path)) continue;
    const { output } = await run(path, ['--version'], {});
    const [, major] = /\(PostgreSQL\) (\d+)/.exec(output) ?? [];
    if (major !== undefined) found.push({ path, major: Number(major) });
  }
  const [best] = found.filter(({ major }) => major >= serverMajor).sort((a, b) => a.major - b.major);
  if (best) return best;
  const newest = Math.max(0, ...found.map(({ major }) => major));
  throw new Problem(
    newest === 0 ? `${name}_missing` : `${name}_too_old`,
    500,
    newest === 0
      ? `There is no ${name} on this machine`
      : `${name} ${newest} is older than the server, which is PostgreSQL ${serverMajor}`,
    {
      hint:
        `Install the client programs of PostgreSQL ${serverMajor} or newer (Debian: ` +
        `postgresql-client-${serverMajor}), or name their folder with SVC_PG_BIN.`,
    },
  );
}

/** Returns the folders to search for PostgreSQL programs. `env`: SVC_PG_BIN names one folder, PATH several. */
export function toolFolders(env: Readonly<Record<string, string | undefined>>): string[] {
  const { SVC_PG_BIN: named, PATH: path = '' } = env;
  if (named !== undefined && named !== '') return [named];
  const usual = USUAL_FOLDERS.filter((folder) => existsSync(folder)).flatMap((folder) =>
    readdirSync(folder).map((version) => join(folder, version, 'bin')),
  );
  // PATH comes last, because its program may be a script that chooses a version itself.
  return [...usual, ...path.split(delimiter).filter((entry) => entry !== '')];
}

/** Returns libpq's environment variables. They do not appear in the process list. */
export function libpqVariables(address: DatabaseAddress): Record<string, string> {
  const { targets, user, password, database, tls, attrs, connectTimeoutMs } = address;
  const given: Record<string, string | undefined> = {
    PGHOST: targets.map(({ host }) => host).join(','),
    PGPORT: targets.map(({ port }) => port).join(','),
    PGUSER: user,
    PGPASSWORD: password,
    PGDATABASE: database,
    PGSSLMODE: tls.sslmode,
    PGSSLROOTCERT: tls.sslrootcert,
    PGSSLCERT: tls.sslcert,
    PGSSLKEY: tls.sslkey,
    PGCHANNELBINDING: tls.channelBinding,
    PGTARGETSESSIONATTRS: attrs === 'prefer-primary' ? undefined : attrs,
    PGCONNECT_TIMEOUT: String(Math.ceil(connectTimeoutMs / 1000)),
    PGAPPNAME: 'svc',
  };
  return Object.fromEntries(
    Object.entries(given).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );
}

/** Runs the program with a stream as its input or output. Throws with the last lines of its error output. */
export async function pipeTool(
  { path }: PgTool,
  args: readonly string[],
  address: DatabaseAddress,
  pipe: (program: { readonly stdin: Writable; readonly stdout: Readable }) => Promise<void>,
): Promise<void> {
  const child = spawn(path, args, {
    env: { ...inherited(), ...libpqVariables(address) },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  let said = '';
  child.stderr.on('data', (chunk: Buffer) => {
    said = `${said}${chunk.toString()}`.slice(-10_000);
  });
  const ended = new Promise<number | null>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', resolve);
  });
  ended.catch(() => {});
  const failed = await pipe(child).then(
    () => undefined,
    (error: unknown) => {
      child.kill();
      return error instanceof Error ? error : new Error(String(error));
    },
  );
  const code = await ended;
  // A program that fails closes its streams. Its error output has the reason.
  if (failed instanceof Problem || (failed && code === null)) throw failed;
  if (code === 0 && !failed) return;
  const details = lastLines(said);
  throw new Problem('postgres_program_failed', 500, `${path} failed`, { details, cause: failed });
}

/** Returns the last lines of the output, which contain the reason for an exit. */
export function lastLines(said: string): string {
  return said.trim().split('\n').slice(-5).join('\n');
}

/** Runs the program and returns its output; of long output, the end. Messages are in English. */
export async function runTool(
  { path }: PgTool,
  args: readonly string[],
  address: DatabaseAddress,
): Promise<{ readonly code: number | null; readonly said: string }> {
  const { code, output } = await run(path, args, { ...libpqVariables(address), LC_ALL: 'C' });
  return { code, said: output };
}

async function run(
  path: string,
  args: readonly string[],
  variables: Readonly<Record<string, string>>,
  signal?: AbortSignal,
): Promise<{ code: number | null; output: string }> {
  const child = spawn(path, args, {
    env: { ...inherited(), ...variables },
    stdio: ['ignore', 'pipe', 'pipe'],
    signal,
  });
  let output = '';
  const keep = (chunk: Buffer): void => {
    output = `${output}${chunk.toString()}`.slice(-MAX_OUTPUT_CHARS);
  };
  child.stdout.on('data', keep);
  child.stderr.on('data', keep);
  return await new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, output }));
  });
}

function inherited(): Record<string, string> {
  const { PATH, HOME, LANG } = process.env;
  return Object.fromEntries(
    Object.entries({ PATH, HOME, LANG }).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, value]],
    ),
  );
}
