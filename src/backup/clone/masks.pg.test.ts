import pg from 'pg';
import { expect, inject, test } from 'vitest';
import { literal, sql } from '../../postgres/sql.ts';
import { maskText, type MaskWay } from './masks.ts';

async function masked(way: MaskWay, values: readonly string[], salt = 'salt'): Promise<unknown[]> {
  const client = new pg.Client(inject('postgresUrl'));
  await client.connect();
  try {
    const masks: unknown[] = [];
    for (const value of values) {
      const { rows } = await client.query<{ mask: string }>(
        sql`select ${maskText(literal(value), way, salt)} as mask`.compile().text,
      );
      masks.push(rows[0]?.mask);
    }
    return masks;
  } finally {
    await client.end();
  }
}

test('an address has one mask, however it is capitalised', async () => {
  const [one, same, other] = await masked('email', ['Ann@Example.com', 'ann@example.com', 'ben@example.com']);
  expect(one).toMatch(/^user-[0-9a-f]{16}@example\.invalid$/);
  expect(same).toBe(one);
  expect(other).not.toBe(one);
});

test('a hash keeps texts apart that differ in case, and differs in the next clone', async () => {
  const [one, other] = await masked('hash', ['K-1', 'k-1']);
  expect(other).not.toBe(one);
  expect(await masked('hash', ['K-1'], 'another')).not.toEqual([one]);
});
