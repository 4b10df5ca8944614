// The end of an import: `verify` compares, `cut-over` opens the database for good, `abandon` takes everything out
// again.
import type { DatabaseAddress } from '../postgres/address/database-address.ts';
import { ident, sql } from '../postgres/sql.ts';
import { Problem } from '../problem/problem.ts';
import { announceImport, readImportState, setImportState } from '../provision/import-state.ts';
import { copyRows, compareAll, readPairs, requireOpen, type CopyOptions } from './copy.ts';
import { readFactors, usersWithoutTheirFactor } from './factors.ts';
import { countFileDifferences } from './files.ts';
import { withoutForeignKeys, withoutTriggers } from '../postgres/bulk/disable-triggers.ts';
import { compareSequences } from './compare-sequences.ts';
import type { Connected } from '../postgres/bulk/one-transaction.ts';
import { inOneTransaction, readSource } from './source.ts';
import { qualifiedName } from './tables.ts';
import { stageUsers, type Secrets } from './users.ts';
import { countChanges, isChange, type Changes } from './write-users.ts';
import { reportProgress } from '../lib/progress.ts';

/** Everything that is different here; without findings the import counts as ready for the cut-over. */
export async function verify({ source, target, secrets }: CopyOptions): Promise<readonly string[]> {
  return await readSource(source, (from) =>
    inOneTransaction(target, 'read write', async (to) => {
      await requireOpen(from, to);
      const findings = await compareSides(from, to, secrets);
      await setImportState(to, findings.length === 0 ? 'ready' : 'copied');
      return findings;
    }),
  );
}

async function compareSides(from: Connected, to: Connected, secrets: Secrets): Promise<string[]> {
  reportProgress('comparing users');
  await stageUsers(from, to, secrets);
  const users = (await countChanges(to)).filter(isChange);
  const tables = await compareAll(from, to, await readPairs(from, to));
  const sequences = await compareSequences(from, to);
  reportProgress('comparing files');
  const files = await countFileDifferences(from, to);
  return [
    ...users.map(
      ({ kind, added, changed, removed }) =>
        `${kind}: ${added} are not here yet, ${changed} differ, ${removed} are gone at the source`,
    ),
    ...tables.map(({ pair }) => `table ${qualifiedName(pair)}: rows differ`),
    ...(sequences.length > 0 ? [`${sequences.length} sequences have another position`] : []),
    ...(files > 0 ? [`${files} files are not here yet, or are gone at the source`] : []),
    ...(await strangers(to)),
  ];
}

/** Describes users that the import did not create, and imported users that no longer exist. */
async function strangers(target: Connected): Promise<string[]> {
  const [row] = await target.query<{ own: number; lost: number }>(sql`
    select count(*) filter (where r.id is null)::float8 as own, count(*) filter (where u.id is null)::float8 as lost
    from auth.users u full join (select id from svc_meta.import_row where kind = 'user') r on r.id = u.id::text`);
  const { own = 0, lost = 0 } = row ?? {};
  return [
    ...(own > 0 ? [`${own} users are here whom the source does not have`] : []),
    ...(lost > 0 ? [`${lost} users of the source were deleted here`] : []),
  ];
}

export type CutOverOptions = CopyOptions & {
  /** Whether users may lose their second factor because its kind does not move. */
  readonly dropFactors: boolean;
};

/**
 * Runs the last copy and the opening in one transaction, so that no client is served from a partial import.
 */
export async function cutOver({
  source,
  target,
  secrets,
  dropFactors,
}: CutOverOptions): Promise<readonly Changes[]> {
  return await readSource(source, (from) =>
    inOneTransaction(target, 'read write', async (to) => {
      await requireOpen(from, to);
      const exposed = usersWithoutTheirFactor(await readFactors(from, secrets.sourceKeys));
      if (exposed.length > 0 && !dropFactors) {
        throw new Problem(
          'IMP-406',
          500,
          `${exposed.length} users have a second factor at the source that does not move: ` +
            'here their password alone would be enough',
          {
            details: `${exposed.slice(0, 20).join(', ')}${exposed.length > 20 ? ' …' : ''}`,
            hint: 'Use --uncarried-factors drop to accept the loss, or remove these factors at the source first.',
          },
        );
      }
      const changes = await copyRows(from, to, secrets);
      await setImportState(to, 'cut over');
      return changes;
    }),
  );
}

/** Deletes the imported rows. The tables stay, empty. */
export async function abandon(target: DatabaseAddress): Promise<void> {
  await inOneTransaction(target, 'read write', async (to) => {
    const state = await readImportState(to);
    if (state === undefined || state === 'cut over') {
      throw new Problem(
        'IMP-403',
        500,
        state === undefined ? 'There is no import here' : 'The cut-over is done: this database is in use',
        { hint: state === undefined ? undefined : 'Drop the database if nothing in it is needed.' },
      );
    }
    const tables = await to.query<{ schema: string; name: string }>(sql`
      select n.nspname as schema, c.relname as name
      from pg_class c join pg_namespace n on n.oid = c.relnamespace
      join svc_meta.import_row r on r.kind = 'table' and r.id = n.nspname || '.' || c.relname
      where c.relkind in ('r', 'p')`);
    await withoutTriggers(to, [{ schema: 'auth', name: 'users' }, ...tables], async () => {
      await withoutForeignKeys(to, tables, async () => {
        for (const { schema, name } of tables) await to.query(sql`delete from ${ident(schema, name)}`);
      });
      await to.query(sql`
        delete from auth.users where id::text in (select id from svc_meta.import_row where kind = 'user')`);
    });
    // Another import brings sessions with the same ids, whose tokens must be accepted.
    await to.query(sql`
      delete from auth.ended_sessions
      where session_id::text in (select id from svc_meta.import_row where kind = 'session')`);
    await to.query(sql`
      delete from storage.objects where id::text in (select id from svc_meta.import_row where kind = 'object')`);
    await to.query(sql`delete from svc_meta.import_row`);
    await to.query(sql`delete from svc_meta.import`);
    await announceImport(to);
  });
}
