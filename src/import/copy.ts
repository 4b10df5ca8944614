// `copy`: takes over whatever differs, in one transaction on either side. An interrupted run leaves nothing behind.
import type { DatabaseAddress } from '../postgres/address/database-address.ts';
import type { Queryable } from '../postgres/owner-database.ts';
import { isDatabaseError } from '../postgres/pg-error.ts';
import { raw, sql, type Sql } from '../postgres/sql.ts';
import { Problem } from '../problem/problem.ts';
import { setImportState, type ImportState } from '../provision/import-state.ts';
import { adoptReferences } from './adopt-references.ts';
import { withoutForeignKeys, withoutTriggers } from '../postgres/bulk/quiet-tables.ts';
import { compareRows, writeRows, type Difference } from './rows.ts';
import { moveSequences } from '../postgres/bulk/sequences.ts';
import { compareSequences } from './compare-sequences.ts';
import type { Connected } from '../postgres/bulk/one-transaction.ts';
import { identityOf, inOneTransaction, readSource } from './source.ts';
import { mayNotRead } from './way-to-source.ts';
import { nameOf, pairTables, readTables, type Pair } from './tables.ts';
import { stageUsers, type Secrets } from './users.ts';
import { countChanges, deleteGoneUsers, isChange, writeUsers, type Changes } from './write-users.ts';

export type CopyOptions = {
  readonly source: DatabaseAddress;
  /** As the owner of what is written. */
  readonly target: DatabaseAddress;
  readonly secrets: Secrets;
};

export async function copy({ source, target, secrets }: CopyOptions): Promise<readonly Changes[]> {
  return await readSource(source, (from) =>
    inOneTransaction(target, 'read write', async (to) => {
      await begin(from, to);
      return await bring(from, to, secrets);
    }),
  );
}

/** Without what PostgreSQL shows of a row. */
function refused(error: Error): Problem {
  const message = error.message.replace(/: ".*/s, '').replace(/^value ".*" (is|too) /s, 'a value $1 ');
  return new Problem('IMP-405', 500, `The target refuses a row of the source: ${message}`, {
    hint: 'Mend the row at the source, or the rule in svc.yaml. Nothing of this run was written.',
  });
}

/** Writes what differs. Throws a Problem for a row that the target does not take. */
export async function bring(from: Connected, to: Connected, secrets: Secrets): Promise<readonly Changes[]> {
  try {
    await stageUsers(from, to, secrets);
    const users = await countChanges(to);
    const pairs = await readPairs(from, to);
    const differences = await compareAll(from, to, pairs);
    const rows = await write(from, to, { differences, withUsers: users.some(isChange) });
    const sequences = await compareSequences(from, to);
    await moveSequences(to, sequences);
    await rememberTables(to, pairs);
    return [...users, ...rows, { kind: 'sequence', added: 0, changed: sequences.length, removed: 0 }];
  } catch (error) {
    if (isDatabaseError(error, 'integrity_constraint_violation', 'data_exception')) throw refused(error);
    // At the target, what is written belongs to the one who writes.
    if (isDatabaseError(error, 'insufficient_privilege')) throw mayNotRead(error.message);
    throw error;
  }
}

type Writing = { readonly differences: readonly Difference[]; readonly withUsers: boolean };

async function write(
  from: Connected,
  to: Connected,
  { differences, withUsers }: Writing,
): Promise<Changes[]> {
  const rows: Changes[] = [];
  const tables = differences.map(({ pair }) => pair);
  if (!withUsers && tables.length === 0) return rows;
  await withoutTriggers(to, [{ schema: 'auth', name: 'users' }, ...tables], async () => {
    await writeUsers(to);
    await withoutForeignKeys(to, tables, async () => {
      for (const difference of differences) rows.push(await writeRows(from, to, difference));
    });
    await deleteGoneUsers(to);
  });
  await adoptReferences(to, tables);
  return rows;
}

export async function readPairs(source: Connected, target: Connected): Promise<readonly Pair[]> {
  return pairTables(await readTables(source), await readTables(target)).pairs;
}

/** Refuses to write over rows that no import has brought. */
export async function compareAll(
  source: Connected,
  target: Connected,
  pairs: readonly Pair[],
): Promise<Difference[]> {
  const known = await target.query<{ id: string }>(
    sql`select id from svc_meta.import_row where kind = 'table'`,
  );
  const names = new Set(known.map(({ id }) => id));
  const differences: Difference[] = [];
  for (const pair of pairs) {
    if (pair.foreignOwner !== null) throw belongsToOthers(pair, pair.foreignOwner);
    const difference = await compareRows(source, target, pair);
    if (difference === undefined) continue;
    if (!difference.isEmptyHere && !names.has(nameOf(pair))) {
      throw new Problem(
        'IMP-403',
        500,
        `The table ${nameOf(pair)} of the target has rows already, which are not of this import`,
        {
          hint: 'Empty it: it becomes the same as at the source.',
        },
      );
    }
    differences.push(difference);
  }
  return differences;
}

function belongsToOthers(pair: Pair, owner: string): Problem {
  return new Problem('IMP-403', 500, `The table ${nameOf(pair)} of the target belongs to the role ${owner}`, {
    hint: 'Drop or rename it there and let svc migrate apply make it from svc.yaml. Nothing of this run was written.',
  });
}

async function rememberTables(target: Connected, pairs: readonly Pair[]): Promise<void> {
  await target.query(sql`
    insert into svc_meta.import_row (kind, id, digest) select 'table', name, '' from unnest(${pairs.map(nameOf)}::text[]) name
    on conflict do nothing`);
}

/** The one import that the target may hold is of this source; others that work on it wait here. */
async function begin(source: Connected, target: Connected): Promise<void> {
  const identity = await identityOf(source);
  const made = await target.query(sql`
    insert into svc_meta.import (source, state) values (${identity}, 'copied') on conflict do nothing returning 1`);
  const [row] = await target.query<{ users: boolean }>(sql`select exists (select from auth.users) as users`);
  if (made.length > 0 && row?.users === true) {
    throw new Problem('IMP-403', 500, 'The target has users already, who are not of an import', {
      hint: 'Import into a database without users.',
    });
  }
  await requireOpen(source, target);
  await setImportState(target, 'copied');
}

/** Throws unless an import of this source is here and may go on. */
export async function requireOpen(source: Connected, target: Queryable): Promise<void> {
  if ((await requireImport(source, target, raw('for update'))) !== 'cut over') return;
  throw new Problem('IMP-403', 500, 'The cut-over is done: this database has its own users and rows now', {
    hint: 'What the source has besides can no longer be taken over by copying. svc import supabase changes lists what differs.',
  });
}

/** The state of the import of this source; throws when there is none. */
export async function requireImport(
  source: Connected,
  target: Queryable,
  lock: Sql = raw(''),
): Promise<ImportState> {
  const identity = await identityOf(source);
  const [row] = await target.query<{ source: string; state: ImportState }>(
    sql`select source, state from svc_meta.import ${lock}`,
  );
  if (row === undefined) {
    throw new Problem('IMP-403', 500, 'Nothing has been copied yet', {
      hint: 'Run svc import supabase copy.',
    });
  }
  if (row.source !== identity) {
    throw new Problem('IMP-403', 500, 'The target holds the import of another project', {
      hint: 'Import each project into a database of its own.',
    });
  }
  return row.state;
}
