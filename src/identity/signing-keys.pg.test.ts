import { afterAll, beforeAll, expect, test } from 'vitest';
import { startOwnerWorld, type OwnerWorld } from '../../test/support/owner-world.ts';
import type { OwnerDatabase, Row } from '../postgres/owner-database.ts';
import { sql } from '../postgres/sql.ts';
import { Keyring } from './keyring.ts';
import { SigningKeys } from './signing-keys.ts';

let world: OwnerWorld;
let owner: OwnerDatabase;

beforeAll(async () => {
  world = await startOwnerWorld();
  ({ owner } = world);
});
afterAll(() => world.close());

test('a change during a reload is visible to later lookups', async () => {
  const keyring = await Keyring.open(owner, { current: 'x'.repeat(40), previous: [] }, 'refuse');
  const box = keyring.box('signing keys');
  const here = new SigningKeys(owner, box);
  await here.load();
  const elsewhere = new SigningKeys(owner, box);
  await elsewhere.load();

  // Delay the result of the running read until the change is made.
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

test('a new key of another instance is found, and unknown keys do not cause more reloads', async () => {
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

test('an imported key stays valid when a rotation revokes earlier keys of svc', async () => {
  const keyring = await Keyring.open(owner, { current: 'x'.repeat(40), previous: [] }, 'refuse');
  const keys = new SigningKeys(owner, keyring.box('signing keys'));
  await keys.load();
  const own = keys.signing.kid;
  const imported = await keys.importKey({ sharedSecret: 's'.repeat(40) });
  await keys.rotate('now');
  const inADay = new Date(Date.now() + 86_400_000);
  expect(await keys.advance(inADay)).toBe(true);
  const states = new Map((await keys.list()).map(({ kid, state }) => [kid, state]));
  expect([states.get(own), states.get(imported)]).toEqual(['revoked', 'previously_used']);
});

test('a rotated key is accepted until the longest token of a session has expired', async () => {
  const keyring = await Keyring.open(owner, { current: 'x'.repeat(40), previous: [] }, 'refuse');
  const keys = new SigningKeys(owner, keyring.box('signing keys'));
  await keys.load();
  const own = keys.signing.kid;
  const userId = '00000000-0000-4000-8000-000000000001';
  await owner.query(sql`insert into auth.users (id, email) values (${userId}, 'ann@example.com')`);
  const openSession = async (seconds: number): Promise<void> => {
    await owner.query(sql`
      insert into auth.sessions (id, user_id, token_seconds) values (gen_random_uuid(), ${userId}, ${seconds})`);
  };
  // The first session has signed in before `jwt_expiry` was lowered.
  await openSession(7200);
  await openSession(900);
  await keys.rotate('now');
  const inMinutes = (minutes: number): Date => new Date(Date.now() + minutes * 60_000);
  const stateOfOwn = async (): Promise<string | undefined> =>
    (await keys.list()).find(({ kid }) => kid === own)?.state;
  await keys.advance(inMinutes(119));
  expect(await stateOfOwn()).toBe('previously_used');
  await keys.advance(inMinutes(126));
  expect(await stateOfOwn()).toBe('revoked');
});
