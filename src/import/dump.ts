// Restores a dump of a project once into a separate database on the target's server, and reads it there like any
// other source. The SQL of the dump is not trusted, so a role without other privileges restores and reads it.
import { createHash, createHmac } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { tryLock } from '../postgres/advisory-lock.ts';
import type { DatabaseAddress } from '../postgres/address/database-address.ts';
import { oneSession } from '../postgres/bulk/one-transaction.ts';
import type { Queryable } from '../postgres/owner-database.ts';
import { isDatabaseError } from '../postgres/pg-error.ts';
import { findTool, lastLines, runTool } from '../postgres/pg-tools.ts';
import { ident, literal, raw, sql } from '../postgres/sql.ts';
import { Problem } from '../problem/problem.ts';
import { API_ROLES } from '../provision/roles.ts';
import { scramVerifier } from '../provision/scram.ts';
import { inOneTransaction } from './source.ts';
import { inTarget } from './target.ts';

export type DumpOptions = {
  /** Server for the restored dump. The role must be able to create roles and databases. */
  readonly server: DatabaseAddress;
  readonly env: Readonly<Record<string, string | undefined>>;
};

export type Restored = {
  readonly address: DatabaseAddress;
  /** Statements that the server rejected. Undefined if the dump was restored earlier. */
  readonly refused: readonly Refused[] | undefined;
};

/** A statement of the dump, its first line, and why. */
export type Refused = { readonly statement: string; readonly why: string };

/** Comment of a database that is complete. */
const COMPLETE = 'svc: a dump, restored by svc import supabase';
const HOW_TO_DUMP = 'pg_dump --format=custom --file=project.dump "$SVC_IMPORT_SOURCE_URL"';

/**
 * Returns the database of the dump in `path`, a file or a folder. Restores it unless that was done before.
 */
export async function restoreDump(path: string, { server, env }: DumpOptions): Promise<Restored> {
  await requireArchive(path);
  const name = await readDatabaseName(path);
  const password = findPassword(name, server);
  const address = server.as(name, password).on(name);
  return await asAdministrator(server, async (session) => {
    const [found] = await session.query<{ comment: string | null }>(
      sql`select shobj_description(oid, 'pg_database') as comment from pg_database where datname = ${name}`,
    );
    if (found?.comment === COMPLETE) return { address, refused: undefined };
    if (found) await session.query(sql`drop database ${ident(name)} with (force)`);
    const [version] = await session.query<{ major: number }>(
      raw(`select current_setting('server_version_num')::int / 10000 as major`),
    );
    const tool = await findTool('pg_restore', version?.major ?? 0, env);
    await makeRoles(session, name, password);
    await session.query(sql`create database ${ident(name)} owner ${ident(name)} template template0`);
    try {
      await session.query(sql`revoke all on database ${ident(name)} from public`);
      const { code, said } = await runTool(
        tool,
        ['--no-owner', '--no-comments', `--dbname=${name}`, path],
        address,
      );
      const refused = refusedIn(said);
      if (code !== 0 && refused.length === 0)
        throw new Problem('IMP-411', 500, `${path} could not be restored`, { details: lastLines(said) });
      await requireProject(path, address);
      await session.query(sql`comment on database ${ident(name)} is ${literal(COMPLETE)}`);
      return { address, refused };
    } catch (error) {
      await session.query(sql`drop database if exists ${ident(name)} with (force)`);
      throw error;
    }
  });
}

/** Deletes the restored database and its role. Returns false if there was none. */
export async function forgetDump(path: string, { server }: Pick<DumpOptions, 'server'>): Promise<boolean> {
  await requireArchive(path);
  const name = await readDatabaseName(path);
  return await asAdministrator(server, async (session) => {
    const found = await session.query(sql`select from pg_database where datname = ${name}`);
    await session.query(sql`drop database if exists ${ident(name)} with (force)`);
    await session.query(sql`drop role if exists ${ident(name)}`);
    return found.length > 0;
  });
}

/** Works under a lock, because another command may use the same dump. */
async function asAdministrator<T>(
  server: DatabaseAddress,
  work: (session: Queryable) => Promise<T>,
): Promise<T> {
  const enter = (inside: (session: Queryable) => Promise<T>): Promise<T> =>
    oneSession({ address: server, applicationName: 'svc-import' }, inside);
  try {
    return await inTarget(server, enter, async (session) => {
      if (await tryLock(session, 'importDump')) return await work(session);
      throw new Problem('IMP-411', 500, 'Another command is restoring a dump, or forgetting one', {
        hint: 'Try again when it has ended.',
      });
    });
  } catch (error) {
    if (!isDatabaseError(error, 'insufficient_privilege')) throw error;
    throw new Problem('IMP-411', 500, `A dump cannot be restored on this server: ${error.message}`, {
      hint:
        'The restore needs a separate database and role: alter role … createdb createrole, ' +
        'or use a role that can create both.',
      cause: error,
    });
  }
}

/** The role of the dump, and those that its grants and policies name. */
async function makeRoles(session: Queryable, name: string, password: string | undefined): Promise<void> {
  const roles = await session.query<{ name: string }>(
    sql`select name from unnest(${[name, ...API_ROLES]}::text[]) name where to_regrole(quote_ident(name)) is null`,
  );
  for (const role of roles) await session.query(sql`create role ${ident(role.name)} nologin`);
  const secret = password === undefined ? raw('null') : literal(scramVerifier(password));
  await session.query(sql`alter role ${ident(name)} login password ${secret}`);
  // A role must be a member of the role for which it creates a database.
  const [self] = await session.query<{ isSuperuser: boolean }>(
    raw('select rolsuper as "isSuperuser" from pg_roles where rolname = current_user'),
  );
  if (self?.isSuperuser !== true) await session.query(sql`grant ${ident(name)} to current_user`);
}

async function requireProject(path: string, address: DatabaseAddress): Promise<void> {
  const found = await inOneTransaction(address, 'read only', async (dump) => {
    const [there] = await dump.query<{ isProject: boolean }>(
      raw(
        `select to_regclass('auth.users') is not null and to_regclass('storage.buckets') is not null as "isProject"`,
      ),
    );
    if (there?.isProject !== true) return 'no auth.users and storage.buckets';
    const users = await dump.query(raw('select from auth.users limit 1'));
    return users.length > 0 ? undefined : 'no users';
  });
  if (found === undefined) return;
  throw new Problem('IMP-401', 500, `${path} is not a dump of a whole Supabase project: it has ${found}`, {
    hint:
      'supabase db dump leaves the schemas auth and storage or their rows out. All of it is written by: ' +
      HOW_TO_DUMP,
  });
}

/**
 * Derives the password from the server's credentials, like those of the login roles, so that it is not stored.
 */
function findPassword(name: string, { password }: DatabaseAddress): string | undefined {
  if (password === undefined) return undefined;
  return createHmac('sha256', password).update(`svc import dump\0${name}`).digest('base64url');
}

/** The name depends on the content of the dump, not on its path. */
async function readDatabaseName(path: string): Promise<string> {
  const hash = createHash('sha256');
  for (const file of await listDumpFiles(path))
    for await (const chunk of createReadStream(file)) hash.update(chunk as Buffer);
  return `svc_dump_${hash.digest('hex').slice(0, 16)}`;
}

async function listDumpFiles(path: string): Promise<string[]> {
  if (!(await stat(path)).isDirectory()) return [path];
  return (await readdir(path)).sort().map((name) => join(path, name));
}

/**
 * Throws unless `pg_restore` can read the dump: a custom-format file, a tar or a directory, with a table of contents.
 */
async function requireArchive(path: string): Promise<void> {
  const isFolder = (await stat(path)).isDirectory();
  const head = isFolder ? '' : await firstBytes(path);
  const isArchive = isFolder
    ? (await readdir(path)).includes('toc.dat')
    : head.startsWith('PGDMP') || head.startsWith('toc.dat');
  if (isArchive) return;
  throw new Problem('IMP-411', 500, `${path} is not a dump that pg_restore can read`, {
    hint:
      'One in plain SQL may hold commands that run programs on this machine, so it is not run. ' +
      `Make another: ${HOW_TO_DUMP}`,
  });
}

async function firstBytes(path: string): Promise<string> {
  const file = await open(path);
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(16), 0, 16, 0);
    return buffer.toString('latin1', 0, bytesRead);
  } finally {
    await file.close();
  }
}

/** Parses the output of `pg_restore`, which continues after a failed statement and reports each failure. */
function refusedIn(said: string): Refused[] {
  return [
    ...said.matchAll(
      /could not execute query: [^:\n]+: +([^\n]+)\n(?:(?!pg_restore: |Command was: ).*\n)*Command was: ([^\n]*)/g,
    ),
  ].map(([, why = '', statement = '']) => ({ statement, why }));
}
