import { afterAll, beforeAll, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../../test/support/database.ts';
import { OwnerDatabase, type Row } from '../postgres/owner-database.ts';
import { provisionAt } from '../../test/support/provision.ts';
import { Keyring } from './keyring.ts';
import { SigningKeys } from './signing-keys.ts';
import { parseAddress } from '../postgres/address/parse-address.ts';

let database: TestDatabase;
let owner: OwnerDatabase;

beforeAll(async () => {
  database = await createDatabase();
  const { ownerUrl } = await provisionAt(database.url);
  owner = new OwnerDatabase({
    address: parseAddress(ownerUrl),
    applicationName: 'test',
    max: 2,
    idleTimeoutMs: 1000,
  });
});
afterAll(async () => {
  await owner.close();
  await database.drop();
});

test('a change during a reading is seen by whoever asks after it', async () => {
  const keyring = await Keyring.open(owner, { current: 'x'.repeat(40), previous: [] }, 'refuse');
  const box = keyring.box('signing keys');
  const here = new SigningKeys(owner, box);
  await here.load();
  const elsewhere = new SigningKeys(owner, box);
  await elsewhere.load();

  // The answer of the reading that runs already is held back until the change is made.
  let release = (): void => {};
  const held = new Promise<void>((resolve) => (release = resolve));
  const query = owner.query.bind(owner);
  owner.query = async <R extends Row>(...input: Parameters<typeof query>) => {
    owner.query = query;
    const rows = await query<R>(...input);
    await held;
    return rows;
  };
  const early = here.reload();
  const kid = await elsewhere.rotate('now');
  const late = here.reload();
  release();
  await Promise.all([early, late]);
  expect(here.signing.kid).toBe(kid);
});

test('a key that another instance has just made is found at once; for made-up ones nobody looks again so soon', async () => {
  const keyring = await Keyring.open(owner, { current: 'x'.repeat(40), previous: [] }, 'refuse');
  const box = keyring.box('signing keys');
  const [here, elsewhere] = [new SigningKeys(owner, box), new SigningKeys(owner, box)];
  await Promise.all([here.load(), elsewhere.load()]);
  const kid = await elsewhere.rotate('now');
  const found = await Promise.all([here.findKey(kid), here.findKey(kid)]);
  expect(found.map((key) => key !== undefined)).toEqual([true, true]);
  const unseen = await elsewhere.rotate('now');
  expect(await here.findKey('made up')).toBeUndefined();
  expect(await here.findKey(unseen)).toBeUndefined();
  await here.reload();
  expect(await here.findKey(unseen)).toBeDefined();
});
