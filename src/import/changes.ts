// Lists the changes made here since the cut-over, for a return to the source. The command compares the present state
// of both sides: nothing has to be recorded, because the source has not changed since its writes stopped.
import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { createWriteStream } from 'node:fs';
import { join as joinPath } from 'node:path';
import { finished } from 'node:stream/promises';
import { copyBetween, copyOut } from '../postgres/bulk/copy.ts';
import { ident, join, raw, sql, type Sql } from '../postgres/sql.ts';
import { Problem } from '../problem/problem.ts';
import { readPairs, requireImport, type CopyOptions } from './copy.ts';
import { FILE_COLUMNS, LIVE_FILES } from './files.ts';
import { compareRows, differingRows, sqlText } from './rows.ts';
import type { Connected } from '../postgres/bulk/one-transaction.ts';
import { inOneTransaction, readSource } from './source.ts';
import { qualifiedName } from './tables.ts';
import { stageUsers } from './users.ts';

export type ChangesOptions = CopyOptions & {
  /** Directory for the rows as CSV, new or empty; undefined only counts. */
  readonly out: string | undefined;
};

/** How many rows of a table differ from the source, and how. */
export type Changed = {
  readonly table: string;
  readonly inserted: number;
  readonly updated: number;
  readonly deleted: number;
};

/** Queries for the changed rows. Deleted rows come from the source. */
export type RowSets = { readonly inserted: Sql; readonly updated: Sql; readonly deleted: Sql };

/** Tables without a difference are left out. Throws a Problem before the cut-over, and for a directory with files. */
export async function listChanges({
  source,
  target,
  secrets,
  out,
}: ChangesOptions): Promise<readonly Changed[]> {
  if (out !== undefined) prepareDirectory(out);
  return await readSource(source, (from) =>
    inOneTransaction(target, 'snapshot', async (to) => {
      if ((await requireImport(from, to)) !== 'cut over') {
        throw new Problem(
          'IMP-403',
          500,
          'The cut-over is not done: until then nothing of this side counts',
          {
            hint: 'svc import supabase verify compares both sides before it.',
          },
        );
      }
      const changed: Changed[] = [];
      const list = async (table: string, sets: RowSets): Promise<void> => {
        const written = await write(to, { table, sets, out });
        if (written.inserted + written.updated + written.deleted > 0) changed.push(written);
      };
      await stageUsers(from, to, secrets);
      await list('auth.users', USERS);
      await list('auth.identities', IDENTITIES);
      for (const pair of await readPairs(from, to)) {
        const difference = await compareRows(from, to, pair);
        if (difference === undefined) continue;
        await differingRows(from, to, difference, (sets) => list(qualifiedName(pair), sets));
      }
      await stageFiles(from, to);
      await list('storage.objects', FILES);
      return changed;
    }),
  );
}

/** Users have hashes of passwords, so the files are the owner's alone. */
function prepareDirectory(out: string): void {
  mkdirSync(out, { recursive: true, mode: 0o700 });
  if (readdirSync(out).length === 0) return;
  throw new Problem('IMP-407', 500, `The directory ${out} has files already`, {
    hint: 'Name a new one: files of two lists must not be mixed.',
  });
}

type Listing = { readonly table: string; readonly sets: RowSets; readonly out: string | undefined };

async function write(target: Connected, { table, sets, out }: Listing): Promise<Changed> {
  const copy = async (kind: keyof RowSets): Promise<number> => {
    const statement = sqlText(sql`copy (${sets[kind]}) to stdout (format csv, header)`);
    if (out === undefined) return await copyOut({ client: target.client, statement });
    const path = joinPath(out, `${table.replaceAll('/', '%2F')}.${kind}.csv`);
    const file = createWriteStream(path, { mode: 0o600 });
    // Errors such as a full disk surface after all rows are written.
    const written = finished(file);
    written.catch(() => {});
    const rows = await copyOut({ client: target.client, statement }, file);
    file.end();
    await written;
    if (rows === 0) rmSync(path);
    return rows;
  };
  return {
    table,
    inserted: await copy('inserted'),
    updated: await copy('updated'),
    deleted: await copy('deleted'),
  };
}

const columnList = (of: string, columns: readonly string[]): Sql =>
  join(columns.map((column) => ident(of, column)));

/**
 * Columns that count as a change. Times of sign-ins are left out, because they do not need to be carried back.
 */
const COMPARED = `email phone role raw_app_meta_data raw_user_meta_data email_confirmed_at phone_confirmed_at
  banned_until deleted_at is_anonymous`.split(/\s+/);

/** Columns that the source has, too. */
const USER_COLUMNS =
  `id aud role email encrypted_password email_confirmed_at invited_at last_sign_in_at raw_app_meta_data
  raw_user_meta_data created_at updated_at phone phone_confirmed_at banned_until is_sso_user is_anonymous
  deleted_at`.split(/\s+/);

const staged = (kind: 'user' | 'password' | 'identity', id: Sql): Sql =>
  sql`select from pg_temp.import_stage s where s.kind = ${raw(`'${kind}'`)} and s.id = ${id}::text`;

const USERS: RowSets = {
  inserted: sql`
    select ${columnList('u', USER_COLUMNS)} from auth.users u where not exists (${staged('user', sql`u.id`)})`,
  updated: sql`
    select ${columnList('u', USER_COLUMNS)}
    from auth.users u
    join pg_temp.import_stage s on s.kind = 'user' and s.id = u.id::text
    cross join jsonb_populate_record(null::auth.users, s.row) t
    left join pg_temp.import_stage p on p.kind = 'password' and p.id = s.id
    where (${columnList('u', COMPARED)}) is distinct from (${columnList('t', COMPARED)})
      or u.encrypted_password is distinct from p.row ->> 'encrypted_password'`,
  deleted: sql`
    select s.id, s.row ->> 'email' as email from pg_temp.import_stage s
    where s.kind = 'user' and not exists (select from auth.users u where u.id::text = s.id)`,
};

const IDENTITY_COLUMNS = ['id', 'user_id', 'provider', 'provider_id', 'identity_data'];
const MORE_OF_IDENTITIES = ['last_sign_in_at', 'created_at', 'updated_at'];

const IDENTITIES: RowSets = {
  inserted: sql`
    select ${columnList('i', [...IDENTITY_COLUMNS, ...MORE_OF_IDENTITIES])} from auth.identities i
    where not exists (${staged('identity', sql`i.id`)})`,
  updated: sql`
    select ${columnList('i', [...IDENTITY_COLUMNS, ...MORE_OF_IDENTITIES])}
    from auth.identities i
    join pg_temp.import_stage s on s.kind = 'identity' and s.id = i.id::text
    cross join jsonb_populate_record(null::auth.identities, s.row) t
    where (${columnList('i', IDENTITY_COLUMNS)}) is distinct from (${columnList('t', IDENTITY_COLUMNS)})`,
  deleted: sql`
    select s.id, s.row ->> 'user_id' as user_id, s.row ->> 'provider' as provider from pg_temp.import_stage s
    where s.kind = 'identity' and not exists (select from auth.identities i where i.id::text = s.id)`,
};

/** Stages the live files of the source. A file that was never copied was not deleted here. */
async function stageFiles(from: Connected, to: Connected): Promise<void> {
  await to.query(
    raw(`create temporary table import_files_stage
      (id text, bucket_id text, name text, owner_id text, etag text, size text) on commit drop`),
  );
  await copyBetween(
    { client: from.client, statement: `copy (${LIVE_FILES}) to stdout` },
    { client: to.client, statement: 'copy pg_temp.import_files_stage from stdin' },
  );
  await to.query(raw('analyze pg_temp.import_files_stage'));
}

const FILES: RowSets = {
  inserted: sql`
    select ${columnList('o', FILE_COLUMNS)} from storage.objects o
    where not exists (select from pg_temp.import_files_stage s where s.id = o.id::text)`,
  updated: sql`
    select ${columnList('o', FILE_COLUMNS)} from storage.objects o join pg_temp.import_files_stage s
      on s.id = o.id::text
    where (o.bucket_id, o.name) is distinct from (s.bucket_id, s.name)
      or o.metadata ->> 'eTag' is distinct from coalesce(s.etag, o.metadata ->> 'eTag')
      or o.metadata ->> 'size' is distinct from coalesce(s.size, o.metadata ->> 'size')`,
  deleted: sql`
    select s.id, s.bucket_id, s.name from pg_temp.import_files_stage s
    join svc_meta.import_row r on r.kind = 'object' and r.id = s.id
    where not exists (select from storage.objects o where o.id::text = s.id)`,
};
