import { generateKeyPair } from 'jose';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../../test/support/database.ts';
import { signToken, TokenVerifier } from '../identity/token.ts';
import { silentLog } from '../log/log.ts';
import { DatabaseClock } from './database-clock.ts';
import { OwnerDatabase } from './owner-database.ts';
import { parseAddress } from './address/parse-address.ts';

const MINUTES = 60_000;
let database: TestDatabase;
let owner: OwnerDatabase;
beforeAll(async () => {
  database = await createDatabase();
  owner = new OwnerDatabase({
    address: parseAddress(database.url),
    applicationName: 'test',
    max: 2,
    idleTimeoutMs: 1000,
  });
});
afterAll(async () => {
  await owner.close();
  await database.drop();
});

async function aMachine(ahead: number): Promise<DatabaseClock> {
  const clock = new DatabaseClock(owner, silentLog, () => Date.now() + ahead);
  await clock.measure();
  return clock;
}

test.each([-90 * MINUTES, -5 * MINUTES, 5 * MINUTES, 90 * MINUTES])(
  'a machine %d ms ahead goes by the time of the database',
  async (ahead) => {
    const startedAt = Date.now();
    const clock = await aMachine(ahead);
    const difference = Math.abs(clock.now().getTime() - Date.now());
    // The error is at most the round trip of a measurement, and rounding.
    expect(difference).toBeLessThanOrEqual(Date.now() - startedAt + 2);
  },
);

test('a token made on one machine is good on another whose clock is ten minutes apart', async () => {
  const [early, late] = [await aMachine(-5 * MINUTES), await aMachine(5 * MINUTES)];
  const { publicKey, privateKey } = await generateKeyPair('ES256');
  const keys = { findKey: () => Promise.resolve({ alg: 'ES256', key: publicKey } as const) };
  for (const [maker, reader] of [
    [early, late],
    [late, early],
  ] as const) {
    const iat = Math.floor(maker.now().getTime() / 1000);
    const token = await signToken(
      { role: 'anon', iat, exp: iat + 120 },
      { kid: 'k', alg: 'ES256', privateKey },
    );
    const verifier = new TokenVerifier(keys, () => Math.floor(reader.now().getTime() / 1000));
    expect(await verifier.verify(token)).toMatchObject({ ok: true });
  }
});

test('a clock that is right is left alone', async () => {
  const fixed = Date.now();
  const clock = new DatabaseClock(owner, silentLog, () => fixed);
  await clock.measure();
  expect(clock.now().getTime()).toBe(fixed);
});
