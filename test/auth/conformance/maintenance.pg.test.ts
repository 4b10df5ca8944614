// Maintenance deletes expired rows: each table has one expired row and one that has not expired.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { maintain } from '../../../src/auth/maintenance.ts';
import { raw, sql, type Sql } from '../../../src/postgres/sql.ts';
import { anAuthContext } from '../../support/auth-context.ts';
import { aUser, startAuth, type AuthWorld } from '../../support/auth-world.ts';

let world: AuthWorld;
beforeAll(async () => {
  world = await startAuth();
});
afterAll(() => world.close());

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
/** Lifetime of a refresh token in this world's settings. */
const SESSION_DAYS = 7;

type Kind = {
  readonly table: string;
  /** The column that distinguishes the two rows. */
  readonly key: string;
  /** How long ago the expired one was made, and the other. */
  readonly expired: number;
  readonly young: number;
  readonly insert: (key: string, at: Date, user: string, parents: Parents) => Sql;
};
type Parents = { readonly session: string; readonly factor: string };

const KINDS: readonly Kind[] = [
  {
    table: 'sessions',
    key: 'id',
    expired: (SESSION_DAYS + 2) * DAY,
    young: SESSION_DAYS * DAY,
    insert: (id, at, user) =>
      sql`insert into auth.sessions (id, user_id, created_at, refreshed_at) values (${id}, ${user}, ${at}, ${at})`,
  },
  {
    table: 'sessions',
    key: 'id',
    expired: 2 * DAY,
    young: 0,
    insert: (id, at, user) =>
      sql`insert into auth.sessions (id, user_id, not_after) values (${id}, ${user}, ${at})`,
  },
  {
    table: 'refresh_tokens',
    key: 'token',
    expired: 2 * DAY,
    young: 0,
    insert: (token, at, _user, { session }) =>
      sql`insert into auth.refresh_tokens (token, revoked, updated_at, session_id)
        values (${token}, true, ${at}, ${session})`,
  },
  {
    table: 'flow_state',
    key: 'id',
    expired: 2 * DAY,
    young: 0,
    insert: (id, at) =>
      sql`insert into auth.flow_state (id, provider_type, authentication_method, created_at)
        values (${id}, 'github', 'oauth', ${at})`,
  },
  {
    table: 'one_time_tokens',
    key: 'token_hash',
    expired: 2 * DAY,
    young: 0,
    insert: (hash, at, user) => {
      const type = at < new Date(Date.now() - DAY) ? 'recovery_token' : 'confirmation_token';
      return sql`
        insert into auth.one_time_tokens (user_id, token_type, token_hash, code_hash, expires_at)
        values (${user}, ${type}, ${hash}, '', ${at})`;
    },
  },
  {
    table: 'mfa_challenges',
    key: 'id',
    expired: 2 * DAY,
    young: 0,
    insert: (id, at, _user, { factor }) =>
      sql`insert into auth.mfa_challenges (id, factor_id, created_at) values (${id}, ${factor}, ${at})`,
  },
  {
    table: 'mfa_factors',
    key: 'id',
    expired: 2 * DAY,
    young: 0,
    insert: (id, at, user) =>
      sql`insert into auth.mfa_factors (id, user_id, factor_type, created_at) values (${id}, ${user}, 'totp', ${at})`,
  },
  {
    table: 'email_throttle',
    key: 'email_hash',
    expired: 2 * HOUR,
    young: 0,
    insert: (hash, at) =>
      sql`insert into auth.email_throttle (email_hash, kind, sent_at) values (${hash}, 'recovery', ${at})`,
  },
  {
    table: 'rate_limits',
    key: 'key',
    expired: 2 * DAY,
    young: 0,
    insert: (key, at) =>
      sql`insert into auth.rate_limits (bucket, key, tokens, updated_at) values ('test', ${key}, 1, ${at})`,
  },
  {
    table: 'audit_log_entries',
    key: 'id',
    expired: 91 * DAY,
    young: 89 * DAY,
    insert: (id, at) =>
      sql`insert into auth.audit_log_entries (id, payload, created_at) values (${id}, '{}', ${at})`,
  },
  ...(['sent', 'failed', 'uncertain', 'caught'] as const).map((state): Kind => ({
    table: 'mail_outbox',
    key: 'id',
    expired: 8 * DAY,
    young: 6 * DAY,
    insert: (id, at) => sql`
        insert into auth.mail_outbox (id, kind, recipient, subject, state, created_at)
        values (${id}, 'recovery', 'ada@example.com', 'Hello', ${state}, ${at})`,
  })),
];

test('every kind of row is removed after its expiry, and not before', async () => {
  const { id: user } = await aUser(world);
  const parents = { session: randomUUID(), factor: randomUUID() };
  await world.query(sql`insert into auth.sessions (id, user_id) values (${parents.session}, ${user})`);
  await world.query(
    sql`insert into auth.mfa_factors (id, user_id, factor_type, status)
      values (${parents.factor}, ${user}, 'totp', 'verified')`,
  );
  const rows = KINDS.map((kind) => ({ kind, expired: randomUUID(), young: randomUUID() }));
  for (const { kind, expired, young } of rows) {
    await world.query(kind.insert(expired, new Date(Date.now() - kind.expired), user, parents));
    await world.query(kind.insert(young, new Date(Date.now() - kind.young), user, parents));
  }
  const auth = anAuthContext(world);
  await maintain(auth);
  await auth.outbox.close();
  const left = await Promise.all(
    rows.map(async ({ kind: { table, key }, expired, young }) => ({
      table,
      left: (
        await world.query<{ key: string }>(
          sql`select ${raw(key)}::text as key from auth.${raw(table)}
            where ${raw(key)}::text in (${expired}, ${young})`,
        )
      ).map((row) => (row.key === young ? 'young' : 'expired')),
    })),
  );
  expect(left).toEqual(KINDS.map(({ table }) => ({ table, left: ['young'] })));
});

test('a pending mail is kept at any age', async () => {
  const auth = anAuthContext(world);
  const ids = await world.query<{ id: string }>(sql`
    insert into auth.mail_outbox (kind, recipient, subject, state, created_at, next_attempt_at, lease_until)
    select 'recovery', 'ada@example.com', 'Hello', state, now() - interval '8 days', now() + interval '1 day',
      now() + interval '1 day'
    from unnest(array['pending', 'sending']) state returning id`);
  await maintain(auth);
  await auth.outbox.close();
  const left = await world.query(
    sql`select state from auth.mail_outbox where id = any(${ids.map(({ id }) => id)}::uuid[]) order by state`,
  );
  expect(left).toEqual([{ state: 'pending' }, { state: 'sending' }]);
});
