// A separate provisioned database, with a connection as its owner.
import { parseAddress } from '../../src/postgres/address/parse-address.ts';
import { OwnerDatabase } from '../../src/postgres/owner-database.ts';
import { createDatabase, type TestDatabase } from './database.ts';
import { provisionAt } from './provision.ts';

export type OwnerWorld = {
  readonly database: TestDatabase;
  readonly owner: OwnerDatabase;
  close(): Promise<void>;
};

export async function startOwnerWorld(): Promise<OwnerWorld> {
  const database = await createDatabase();
  const { ownerUrl } = await provisionAt(database.url);
  const owner = new OwnerDatabase({
    address: parseAddress(ownerUrl),
    applicationName: 'test',
    max: 2,
    idleTimeoutMs: 1000,
  });
  return {
    database,
    owner,
    async close() {
      await owner.close();
      await database.drop();
    },
  };
}
