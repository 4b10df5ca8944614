// Tests the sets of ended sessions and refused users in one process.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startOwnerWorld, type OwnerWorld } from '../../test/support/owner-world.ts';
import { silentLog } from '../log/log.ts';
import type { OwnerDatabase } from '../postgres/owner-database.ts';
import { sql } from '../postgres/sql.ts';
import { EndedSessions } from './ended-sessions.ts';

let world: OwnerWorld;
let owner: OwnerDatabase;

beforeAll(async () => {
  world = await startOwnerWorld();
  ({ owner } = world);
});
afterAll(() => world.close());

test('a user who was banned an hour ago is still refused after a new session has ended', async () => {
  const banned = randomUUID();
  const sessionId = randomUUID();
  await owner.query(sql`
    insert into auth.ended_sessions (user_id, ended_at, until)
    values (${banned}, now() - interval '1 hour', now() + interval '1 hour')`);
  const ended = new EndedSessions({
    db: owner,
    log: silentLog,
    isListening: () => true,
    isEnabled: () => true,
  });
  await ended.start();
  try {
    expect(ended.has({ sub: banned, sessionId: null })).toBe(true);
    await owner.query(sql`
      insert into auth.ended_sessions (user_id, session_id, until)
      values (${randomUUID()}, ${sessionId}, now() + interval '1 hour')`);
    ended.wake();
    await expect.poll(() => ended.has({ sub: null, sessionId })).toBe(true);
    expect(ended.has({ sub: banned, sessionId: null })).toBe(true);
  } finally {
    ended.close();
  }
});
