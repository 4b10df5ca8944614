// `copy`: takes over whatever differs, in one transaction on either side. An interrupted run leaves nothing behind.
import type { DatabaseAddress } from '../postgres/address/database-address.ts';
import { sql } from '../postgres/sql.ts';
import { Problem } from '../problem/problem.ts';
import { withoutTriggers } from './quiet-tables.ts';
import { identityOf, inOneTransaction, readSource, type Connected } from './source.ts';
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
      await stageUsers(from, to, secrets);
      const users = await countChanges(to);
      if (users.some(isChange)) {
        await withoutTriggers(to, [{ schema: 'auth', name: 'users' }], async () => {
          await writeUsers(to);
          await deleteGoneUsers(to);
        });
      }
      return users;
    }),
  );
}

/** Refuses a target that holds anything else than this import; others that copy wait here. */
async function begin(source: Connected, target: Connected): Promise<void> {
  const identity = await identityOf(source);
  const made = await target.query(sql`
    insert into svc_meta.import (source, state) values (${identity}, 'copied') on conflict do nothing returning 1`);
  const [row] = await target.query<{ source: string; state: string; users: boolean }>(sql`
    select source, state, exists (select from auth.users) as users from svc_meta.import for update`);
  if (made.length > 0 && row?.users === true) {
    throw new Problem('IMP-403', 500, 'The target has users already, who are not of an import', {
      hint: 'Import into a database without users.',
    });
  }
  if (row?.source !== identity) {
    throw new Problem('IMP-403', 500, 'The target holds the import of another project', {
      hint: 'Import each project into a database of its own.',
    });
  }
  if (row.state === 'cut over') {
    throw new Problem('IMP-403', 500, 'The cut-over is done: this database has its own users and rows now', {
      hint: 'What the source has besides can no longer be taken over by copying.',
    });
  }
  await target.query(
    sql`update svc_meta.import set state = 'copied', changed_at = now() where state <> 'copied'`,
  );
}
