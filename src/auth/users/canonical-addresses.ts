// Rewrites addresses that were stored before svc had a canonical form, or that were written by SQL. Runs once per
// start, in batches, on one instance. Two accounts whose addresses have the same canonical form both keep theirs.
import { tryTransactionLock } from '../../postgres/advisory-lock.ts';
import { sql } from '../../postgres/sql.ts';
import type { Queryable } from '../../postgres/owner-database.ts';
import { recordAudit } from '../audit.ts';
import type { AuthContext } from '../auth-context.ts';
import { readEmail } from './email-address.ts';

const BATCH = 1000;
const FIRST_ID = '00000000-0000-0000-0000-000000000000';

type Stored = { id: string; email: string | null; email_change: string | null };

export type Rewritten = { readonly rewritten: number; readonly pairs: number };

export async function rewriteAddresses(auth: AuthContext): Promise<Rewritten> {
  let after = FIRST_ID;
  let rewritten = 0;
  let pairs = 0;
  for (;;) {
    const batch = await auth.db.transaction(async (db) => {
      if (!(await tryTransactionLock(db, 'authMaintenance'))) return undefined;
      const rows = await readBatch(db, after);
      for (const row of rows) {
        const outcome = await rewrite(db, auth.now(), row);
        if (outcome === 'rewritten') rewritten += 1;
        if (outcome === 'pair') pairs += 1;
      }
      return rows;
    });
    // Another instance has the lock and rewrites the addresses.
    if (batch === undefined) break;
    const last = batch.at(-1);
    if (last === undefined || batch.length < BATCH) break;
    after = last.id;
  }
  if (rewritten > 0)
    auth.log.info({ users: rewritten }, 'email addresses were rewritten to their canonical form');
  if (pairs > 0)
    auth.log.warn({ users: pairs }, 'two accounts for one mailbox exist; `svc doctor` lists them');
  return { rewritten, pairs };
}

/** Returns pairs of accounts whose addresses are two spellings of one mailbox. */
export async function duplicateMailboxes(db: Queryable): Promise<readonly string[]> {
  const pairs: string[] = [];
  for (let after = FIRST_ID; ;) {
    const rows = await readBatch(db, after);
    for (const { id, email } of rows) {
      const canonical = email === null ? undefined : readEmail(email);
      if (canonical !== undefined && canonical !== email && (await hasOtherOwner(db, canonical, id)))
        pairs.push(`${email} and ${canonical}`);
    }
    const last = rows.at(-1);
    if (last === undefined || rows.length < BATCH) return pairs;
    after = last.id;
  }
}

/** Reads addresses that can differ from their canonical form. All others are plain lower-case ASCII. */
async function readBatch(db: Queryable, after: string): Promise<Stored[]> {
  return await db.query<Stored>(sql`
    select id, email, email_change from auth.users
    where id > ${after} and not is_sso_user and deleted_at is null and (
      email !~ '^[!-@\[-~]+$' or email ~ '[@.]xn--'
      or email_change !~ '^[!-@\[-~]*$' or email_change ~ '[@.]xn--')
    order by id limit ${BATCH}`);
}

async function rewrite(
  db: Queryable,
  now: Date,
  { id, email, email_change: pending }: Stored,
): Promise<'rewritten' | 'pair' | 'unchanged'> {
  const newPending = canonicalForm(pending);
  if (newPending !== undefined)
    await db.query(
      sql`update auth.users set email_change = ${newPending}, updated_at = ${now} where id = ${id}`,
    );
  const canonical = canonicalForm(email);
  if (canonical === undefined) return newPending === undefined ? 'unchanged' : 'rewritten';
  if (await hasOtherOwner(db, canonical, id)) return 'pair';
  await db.query(sql`
    update auth.users set email = ${canonical}, updated_at = ${now},
      raw_user_meta_data = case when raw_user_meta_data ->> 'email' = ${email}
        then raw_user_meta_data || jsonb_build_object('email', ${canonical}::text) else raw_user_meta_data end
    where id = ${id} and email = ${email}`);
  await db.query(sql`
    update auth.identities set identity_data = identity_data || jsonb_build_object('email', ${canonical}::text)
    where user_id = ${id} and provider = 'email'`);
  const client = { address: '127.0.0.1', proto: 'http', via: 'local' } as const;
  await recordAudit(db, { client, now }, 'email_normalised', { id, email: canonical });
  return 'rewritten';
}

/** Returns the canonical form, or undefined if the stored text has it already or is not an address. */
function canonicalForm(stored: string | null): string | undefined {
  const canonical = stored === null || stored === '' ? undefined : readEmail(stored);
  return canonical === stored ? undefined : canonical;
}

async function hasOtherOwner(db: Queryable, email: string, exceptId: string): Promise<boolean> {
  const [row] = await db.query(sql`
    select 1 from auth.users where email = ${email} and not is_sso_user and id <> ${exceptId}`);
  return row !== undefined;
}
