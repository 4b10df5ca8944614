// A database for development out of a real one: its tables, users and the rows that were chosen. What opens something
// (sessions, tokens, keys, factors, waiting mail) stays where it is, and what is masked is masked by the source:
// neither is ever written here.
import { randomBytes } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import type { DatabaseAddress } from '../../postgres/address/database-address.ts';
import { type Connected, oneTransaction } from '../../postgres/bulk/one-transaction.ts';
import { isDatabaseError } from '../../postgres/pg-error.ts';
import type { OwnerDatabase } from '../../postgres/owner-database.ts';
import { raw, type Sql } from '../../postgres/sql.ts';
import { Problem } from '../../problem/problem.ts';
import { PROVISION_STEPS } from '../../provision/steps/steps.ts';
import { readRun } from '../../migrate/state/history.ts';
import type { Config } from '../../config/config.ts';
import { loadRows } from '../rows/load-rows.ts';
import { type Choice, saveRows } from '../rows/save-rows.ts';
import { openLocal } from '../seal.ts';
import { folderWriter } from '../write-file.ts';
import { suggestionHint, type Mask, maskedValues, refused } from './masks.ts';
import { userValues } from './users.ts';

/**
 * svc's own tables that a clone copies. A table added by a later version is left out until it is listed here.
 */
const CARRIED = new Set([
  'auth.users',
  'auth.identities',
  'storage.buckets',
  'storage.objects',
  'svc_meta.data_step',
  'svc_meta.seed',
]);
const OWN = /^(?:auth|storage|realtime|svc_meta|svc_events)\./;

export type CloneChoice = {
  readonly masks: readonly Mask[];
  /** Pattern of email addresses. Other users are masked. */
  readonly keepUsers?: string | undefined;
  /** Rows to copy, keyed by `schema.table`: `all`, `none`, or a condition. */
  readonly tables: ReadonlyMap<string, string>;
  /** Which rows of `storage.objects` to copy. The bytes are copied separately. */
  readonly files: 'all' | 'public' | 'none';
};

export type Saved = { readonly rows: Readonly<Record<string, number>>; readonly users: number };

/** Reads the source in one snapshot and writes the chosen rows to `folder`. Does not change the source. */
export async function saveForClone(
  source: DatabaseAddress,
  folder: string,
  choice: CloneChoice,
): Promise<Saved> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const transaction = { address: source, access: 'read only', applicationName: 'svc-clone' } as const;
  return await oneTransaction(transaction, async (session) => {
    // Fail instead of silently cloning fewer rows when a policy hides rows from this role.
    await session.query(raw('set local row_security = off'));
    await assertKnown(session, source);
    const run = await readRun(session);
    if (run === null)
      throw new Problem(
        'nothing_applied',
        500,
        'No svc.yaml has been applied to the database that is cloned yet',
        {
          hint: 'Start its service, or run svc migrate apply there.',
        },
      );
    const tables = run.model.tables.map(({ schema, name }) => `${schema}.${name}`);
    const choose = await chooser(session, tables, choice);
    const rows = await saveRows(session, run.model, folderWriter(folder), choose);
    return { rows, users: rows['auth.users'] ?? 0 };
  }).catch((error: unknown) => {
    const isOurText = isDatabaseError(error) && /^(?:22|42)/.test(error.code ?? '') && choice.tables.size > 0;
    if (isOurText && !isDatabaseError(error, 'insufficient_privilege'))
      throw refused(
        `PostgreSQL does not take a condition: ${error.message}`,
        'What follows --table <name>= is written as after where, with the columns of that table.',
      );
    if (!isDatabaseError(error, 'insufficient_privilege')) throw error;
    throw new Problem('clone_rights', 500, `The role may not read all of the source: ${error.message}`, {
      hint: 'Name a superuser, or the role that owns the tables (svc_owner).',
      cause: error,
    });
  });
}

async function assertKnown(session: Connected, source: DatabaseAddress): Promise<void> {
  const [found] = await session.query<{ there: boolean }>(
    raw(`select exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where n.nspname = 'svc_meta' and c.relname = 'provision_step') as there`),
  );
  if (found?.there !== true)
    throw new Problem('clone_no_svc', 500, `${source.describe()} is not a database of svc`, {
      hint: 'Use svc import for a Supabase project. docs/adoption.md describes how to adopt an existing database.',
    });
  const steps = await session.query<{ id: string }>(raw('select id from svc_meta.provision_step'));
  const known = new Set(PROVISION_STEPS.map(({ id }) => id));
  if (steps.some(({ id }) => !known.has(id)))
    throw new Problem('clone_source_newer', 500, 'A newer svc has prepared the database that is cloned', {
      hint: 'Clone it with that version.',
    });
}

async function chooser(
  session: Connected,
  declared: readonly string[],
  { masks, keepUsers, tables, files }: CloneChoice,
): Promise<(table: string) => Choice | undefined> {
  const known = new Set([...declared, ...CARRIED]);
  for (const table of [...tables.keys(), ...masks.map((mask) => mask.table)])
    if (!known.has(table)) throw refused(`there is no table ${table}`, suggestionHint(table, [...known]));
  const salt = randomBytes(16).toString('hex');
  const values = new Map(await maskedValues(session, masks, salt));
  const { users, identities } = userValues(masks, values.get('auth.users') ?? new Map(), keepUsers, salt);
  values.set('auth.users', users);
  values.set('auth.identities', new Map([...identities, ...(values.get('auth.identities') ?? [])]));
  return (table) => {
    if (OWN.test(table) && !CARRIED.has(table)) return undefined;
    if (table === 'storage.objects' && files === 'none') return undefined;
    const said = tables.get(table) ?? 'all';
    if (said === 'none') return undefined;
    const conditions: Sql[] = [
      // The condition comes from an operator who may read all rows anyway.
      ...(said === 'all' ? [] : [raw(`(${said})`)]),
      ...(table === 'storage.objects' && files === 'public'
        ? [raw('bucket_id in (select id from storage.buckets where public)')]
        : []),
    ];
    const where = conditions.length === 0 ? undefined : raw(conditions.map(sqlText).join(' and '));
    const replaced = values.get(table);
    return {
      ...(replaced === undefined || replaced.size === 0 ? {} : { values: replaced }),
      ...(where === undefined ? {} : { where }),
    };
  };
}

function sqlText(fragment: Sql): string {
  return fragment.compile().text;
}

/** Into a database that is empty, or half cloned. */
export async function loadClone(
  folder: string,
  owner: OwnerDatabase,
  address: DatabaseAddress,
  config: Config,
): Promise<void> {
  await loadRows(folder, owner, address, config, openLocal).catch((error: unknown) => {
    if (isDatabaseError(error, 'foreign_key_violation'))
      throw new Problem('clone_dangling', 500, `Rows refer to others that are not cloned: ${error.message}`, {
        ...(error.detail === undefined ? {} : { details: error.detail }),
        hint: 'Leave them out, too (--table), or mask both columns with hash.',
        cause: error,
      });
    if (isDatabaseError(error, 'unique_violation'))
      throw new Problem('clone_same', 500, `Masked values are the same: ${error.message}`, {
        hint: 'Mask that column with hash or email, which keep different values different.',
        cause: error,
      });
    throw error;
  });
}
