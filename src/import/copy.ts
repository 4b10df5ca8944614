// `svc import supabase copy`: copies all differences, in one transaction on each side. An interrupted run leaves no
// changes.
import type { DatabaseAddress } from '../postgres/address/database-address.ts';
import type { Queryable } from '../postgres/owner-database.ts';
import { isDatabaseError } from '../postgres/pg-error.ts';
import { raw, sql, type Sql } from '../postgres/sql.ts';
import { Problem } from '../problem/problem.ts';
import { setImportState, type ImportState } from '../provision/import-state.ts';
import { adoptReferences } from './adopt-references.ts';
import { withoutForeignKeys, withoutTriggers } from '../postgres/bulk/disable-triggers.ts';
import { compareRows, writeRows, type Difference } from './rows.ts';
import { moveSequences } from '../postgres/bulk/sequences.ts';
import { compareSequences } from './compare-sequences.ts';
import type { Connected } from '../postgres/bulk/one-transaction.ts';
import { readIdentity, inOneTransaction, readSource } from './source.ts';
import { readDenied } from './source-connection.ts';
import { qualifiedName, pairTables, readTables, type Pair } from './tables.ts';
import { stageUsers, type Secrets } from './users.ts';
import { countChanges, deleteGoneUsers, isChange, writeUsers, type Changes } from './write-users.ts';
import { reportProgress } from '../lib/progress.ts';

export type CopyOptions = {
  readonly source: DatabaseAddress;
  /** Connection as the owner of the written rows. */
  readonly target: DatabaseAddress;
  readonly secrets: Secrets;
};

export async function copy({ source, target, secrets }: CopyOptions): Promise<readonly Changes[]> {
  return await readSource(source, (from) =>
    inOneTransaction(target, 'read write', async (to) => {
      await begin(from, to);
      return await copyRows(from, to, secrets);
    }),
  );
}

/** Removes the values of the row that PostgreSQL quotes in its message. */
function refused(error: Error): Problem {
  const message = error.message.replace(/: ".*/s, '').replace(/^value ".*" (is|too) /s, 'a value $1 ');
  return new Problem('IMP-405', 500, `The target refuses a row of the source: ${message}`, {
    hint: 'Mend the row at the source, or the rule in svc.yaml. Nothing of this run was written.',
  });
}

/** Writes the differences. Throws a Problem for a row that the target rejects. */
export async function copyRows(
  from: Connected,
  to: Connected,
  secrets: Secrets,
): Promise<readonly Changes[]> {
  try {
    reportProgress('comparing users');
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
    // The target role owns the written rows, so a missing right concerns the source.
    if (isDatabaseError(error, 'insufficient_privilege')) throw readDenied(error.message);
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
    reportProgress('writing users');
    await writeUsers(to);
    await withoutForeignKeys(to, tables, async () => {
      for (const [index, difference] of differences.entries()) {
        reportProgress(`copying ${qualifiedName(difference.pair)}`, index + 1, differences.length);
        rows.push(await writeRows(from, to, difference));
      }
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
  for (const [index, pair] of pairs.entries()) {
    reportProgress(`comparing ${qualifiedName(pair)}`, index + 1, pairs.length);
    if (pair.foreignOwner !== null) throw belongsToOthers(pair, pair.foreignOwner);
    const difference = await compareRows(source, target, pair);
    if (difference === undefined) continue;
    if (!difference.isEmptyHere && !names.has(qualifiedName(pair))) {
      throw new Problem(
        'IMP-403',
        500,
        `The table ${qualifiedName(pair)} of the target has rows already, which are not of this import`,
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
  return new Problem(
    'IMP-403',
    500,
    `The table ${qualifiedName(pair)} of the target belongs to the role ${owner}`,
    {
      hint: 'Drop or rename it there and let svc migrate apply make it from svc.yaml. Nothing of this run was written.',
    },
  );
}

async function rememberTables(target: Connected, pairs: readonly Pair[]): Promise<void> {
  await target.query(sql`
    insert into svc_meta.import_row (kind, id, digest) select 'table', name, ''
      from unnest(${pairs.map(qualifiedName)}::text[]) name
    on conflict do nothing`);
}

/**
 * Registers the import of this source, of which the target has at most one. Concurrent commands wait here.
 */
async function begin(source: Connected, target: Connected): Promise<void> {
  const identity = await readIdentity(source);
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

/** Throws unless the import of this source exists and is still open. */
export async function requireOpen(source: Connected, target: Queryable): Promise<void> {
  if ((await requireImport(source, target, raw('for update'))) !== 'cut over') return;
  throw new Problem('IMP-403', 500, 'The cut-over is done: this database has its own users and rows now', {
    hint: 'Further rows of the source cannot be copied. Run svc import supabase changes to list the differences.',
  });
}

/** Returns the state of the import of this source. Throws if there is none. */
export async function requireImport(
  source: Connected,
  target: Queryable,
  lock: Sql = raw(''),
): Promise<ImportState> {
  const identity = await readIdentity(source);
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
      hint: 'Import each project into a separate database.',
    });
  }
  return row.state;
}
