// The hook custom_access_token as an SQL function: each way to a token, and hooks that fail.
import { createClient, type SupabaseClient } from '@supabase/supabase-js';
import { Secret, TOTP } from 'otpauth';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { raw, sql } from '../../../src/postgres/sql.ts';
import { startBackend } from '../../../src/server/backend.ts';
import { startBackendWorld, type BackendWorld } from '../../support/backend-world.ts';
import { collectLog } from '../../support/collect-log.ts';

// The body is the example of the original's documentation, without its grants.
const YAML = `
version: 1
auth:
  email: {}
  hooks:
    custom_access_token: { rpc: custom_access_token_hook, timeout: 500ms }
tables:
  user_roles:
    fields:
      - { name: user_id, type: uuid, primary_key: true }
      - { name: role, type: text, required: true }
    rls: []
  notes:
    fields:
      - { name: id, type: integer, primary_key: true }
    rls:
      - { operations: [select], to: authenticated, check: "auth.jwt() ->> 'user_role' = 'admin'" }
rpc:
  custom_access_token_hook:
    args: [{ name: event, type: jsonb }]
    returns: { type: jsonb }
    volatility: stable
    expose: false
    body: |
      declare
        claims jsonb;
        user_role text;
      begin
        select role into user_role from public.user_roles where user_id = (event->>'user_id')::uuid;
        claims := event->'claims';
        if user_role is not null then
          claims := jsonb_set(claims, '{user_role}', to_jsonb(user_role));
        else
          claims := jsonb_set(claims, '{user_role}', 'null');
        end if;
        event := jsonb_set(event, '{claims}', claims);
        return event;
      end;
`;

let world: BackendWorld;
const { log, lines } = collectLog();
const ORIGINAL_BODY = /body: \|\n([^]*)/.exec(YAML)?.[1] ?? '';

beforeAll(async () => {
  world = await startBackendWorld(YAML, { log, dev: true, env: { SVC_AUTH_RATE_LIMITS: 'off' } });
});
afterAll(() => world?.close());

const stateless = { auth: { persistSession: false, autoRefreshToken: false, detectSessionInUrl: false } };
const anonymous = (url = world.url): SupabaseClient => createClient(url, world.keys.publishable, stateless);
const admin = (): SupabaseClient => createClient(world.url, world.keys.secret, stateless);

function decodeClaims(token: string | undefined): Record<string, unknown> {
  return JSON.parse(Buffer.from(token?.split('.')[1] ?? '', 'base64url').toString()) as Record<
    string,
    unknown
  >;
}

/** Replaces the body of the hook until the returned function is called. */
async function withBody(body: string, work: () => Promise<void>): Promise<void> {
  const replace = (text: string, volatility: string) =>
    world.owner.query(
      raw(`create or replace function public.custom_access_token_hook(event jsonb default null) returns jsonb
        language plpgsql ${volatility} as $hook$ ${text} $hook$`),
    );
  await replace(body, 'volatile');
  try {
    await work();
  } finally {
    await replace(ORIGINAL_BODY, 'stable');
  }
}

const PASSWORD = 'correct horse battery';
let number = 0;
async function aUser(client = anonymous()): Promise<{ client: SupabaseClient; id: string; email: string }> {
  const email = `user${number++}@example.com`;
  const { data, error } = await client.auth.signUp({ email, password: PASSWORD });
  if (error) throw error;
  const id = data.user?.id ?? '';
  await world.owner.query(sql`insert into user_roles values (${id}, 'admin')`);
  return { client, id, email };
}

const countSessions = async (id: string): Promise<number> =>
  (await world.owner.query(sql`select 1 from auth.sessions where user_id = ${id}`)).length;

describe('each way to a token has the claims of the hook', () => {
  test('sign-up, with a policy that reads the claim after the next refresh', async () => {
    const { client } = await aUser();
    const { data: first } = await client.auth.getSession();
    expect(decodeClaims(first.session?.access_token)).toHaveProperty('user_role', null);
    await world.owner.query(sql`insert into notes values (1) on conflict do nothing`);
    expect((await client.from('notes').select()).data).toEqual([]);
    const { data: second } = await client.auth.refreshSession();
    expect(decodeClaims(second.session?.access_token)).toHaveProperty('user_role', 'admin');
    expect((await client.from('notes').select()).data).toEqual([{ id: 1 }]);
  });

  test('password', async () => {
    const { email } = await aUser();
    const { data } = await anonymous().auth.signInWithPassword({ email, password: PASSWORD });
    expect(decodeClaims(data.session?.access_token)).toHaveProperty('user_role', 'admin');
  });

  test('anonymous sign-in', async () => {
    const { data } = await anonymous().auth.signInAnonymously();
    expect(decodeClaims(data.session?.access_token)).toMatchObject({ user_role: null, is_anonymous: true });
  });

  test('a mailed link', async () => {
    const { email } = await aUser();
    const { data: link } = await admin().auth.admin.generateLink({ type: 'magiclink', email });
    const token_hash = link.properties?.hashed_token ?? '';
    const { data } = await anonymous().auth.verifyOtp({ type: 'magiclink', token_hash });
    expect(decodeClaims(data.session?.access_token)).toHaveProperty('user_role', 'admin');
  });

  test('a verified factor, at each sign-in', async () => {
    const { client, id, email } = await aUser();
    const { data: factor } = await client.auth.mfa.enroll({ factorType: 'totp' });
    if (factor?.type !== 'totp') throw new Error('no factor');
    const totp = new TOTP({ secret: Secret.fromBase32(factor.totp.secret) });
    const { data, error } = await client.auth.mfa.challengeAndVerify({
      factorId: factor.id,
      code: totp.generate(),
    });
    expect(error).toBeNull();
    expect(decodeClaims(data?.access_token)).toMatchObject({ user_role: 'admin', aal: 'aal2' });
    const again = anonymous();
    const { data: password } = await again.auth.signInWithPassword({ email, password: PASSWORD });
    expect(decodeClaims(password.session?.access_token)).toMatchObject({ user_role: 'admin', aal: 'aal1' });
    await withBody(`begin return jsonb_set(event, '{claims,aal}', '"aal2"'); end`, async () => {
      const { error: refused } = await anonymous().auth.signInWithPassword({ email, password: PASSWORD });
      expect(refused?.status, 'a hook cannot replace the factor').toBe(500);
    });
    expect(await countSessions(id)).toBe(2);
  });

  test('the payload has the form of the original', async () => {
    await withBody(`begin return jsonb_set(event, '{claims,event}', event - 'claims'); end`, async () => {
      const { client, id } = await aUser();
      const { data } = await client.auth.refreshSession();
      expect(decodeClaims(data.session?.access_token)['event']).toEqual({
        user_id: id,
        authentication_method: 'token_refresh',
        metadata: {
          uuid: expect.stringMatching(/^[\da-f-]{36}$/) as string,
          time: expect.stringMatching(/^\d{4}-\d\d-\d\dT/) as string,
          name: 'customize-access-token',
          ip_address: '127.0.0.1',
        },
      });
    });
  });

  test('an earlier end is the end that the client sees', async () => {
    await withBody(
      `begin return jsonb_set(event, '{claims,exp}', to_jsonb((event #>> '{claims,iat}')::bigint + 60)); end`,
      async () => {
        const { client } = await aUser();
        const { data } = await client.auth.getSession();
        expect(data.session?.expires_in).toBe(60);
        expect(data.session?.expires_at).toBe(decodeClaims(data.session?.access_token)['exp']);
      },
    );
  });

  test('20 parallel refreshes under a slow hook are one rotation', async () => {
    const { client, id } = await aUser();
    const { data } = await client.auth.getSession();
    const refresh_token = data.session?.refresh_token ?? '';
    await withBody(`begin perform pg_sleep(0.05); return event; end`, async () => {
      const refreshed = await Promise.all(
        Array.from({ length: 20 }, () => anonymous().auth.refreshSession({ refresh_token })),
      );
      expect(
        new Set(refreshed.map(({ data: { session }, error }) => session?.refresh_token ?? error)),
      ).toHaveLength(1);
    });
    expect(await countSessions(id)).toBe(1);
  });

  test('a second instance uses the same hook', async () => {
    const second = await startBackend(world.options);
    try {
      const { client } = await aUser(anonymous(second.url));
      const { data } = await client.auth.refreshSession();
      expect(decodeClaims(data.session?.access_token)).toHaveProperty('user_role', 'admin');
      const { data: other } = await anonymous().auth.refreshSession({
        refresh_token: data.session?.refresh_token ?? '',
      });
      expect(decodeClaims(other.session?.access_token)).toHaveProperty('user_role', 'admin');
    } finally {
      await second.stop();
    }
  });
});

describe('a hook that fails', () => {
  test('refuses the sign-in with its own status and message', async () => {
    const { email, id } = await aUser();
    const before = await countSessions(id);
    await withBody(
      `begin return '{"error": {"http_code": 403, "message": "Not in office hours"}}'; end`,
      async () => {
        const { error } = await anonymous().auth.signInWithPassword({ email, password: PASSWORD });
        expect(error).toMatchObject({ status: 403, message: 'Not in office hours', code: 'hook_refused' });
      },
    );
    expect(await countSessions(id), 'no session is left').toBe(before);
  });

  test.each([
    ['raises', `begin raise exception 'broken'; end`, /P0001.*: broken/],
    ['quotes a value in an error', `begin return (event #>> '{claims,email}')::int; end`, /22P02/],
    ['returns null', `begin return null; end`, /returned null/],
    ['returns a text', `begin return '"text"'; end`, /not a JSON object/],
    ['returns no claims', `begin return '{}'; end`, /no object "claims"/],
    ['returns claims that are a list', `begin return '{"claims": []}'; end`, /no object "claims"/],
    [
      'returns too much',
      `begin return jsonb_build_object('claims', repeat('x', 300000)); end`,
      /larger than/,
    ],
    [
      'adds too much',
      `begin return jsonb_set(event, '{claims,x}', to_jsonb(repeat('x', 5000))); end`,
      /bytes larger/,
    ],
    [
      'mints service_role',
      `begin return jsonb_set(event, '{claims,role}', '"service_role"'); end`,
      /claim role/,
    ],
    ['changes the user', `begin return jsonb_set(event, '{claims,sub}', '"other"'); end`, /claim sub/],
    ['removes a claim', `begin return event #- '{claims,session_id}'; end`, /claim session_id is missing/],
  ])('%s: no token, and the log has the cause without the payload', async (_name, body, cause) => {
    const { email, id } = await aUser();
    const before = await countSessions(id);
    const from = lines().length;
    await withBody(body, async () => {
      const { data, error } = await anonymous().auth.signInWithPassword({ email, password: PASSWORD });
      expect(error).toMatchObject({
        status: 500,
        message: 'Error running hook custom_access_token',
      });
      expect(data.session).toBeNull();
    });
    expect(await countSessions(id)).toBe(before);
    const logged = lines()
      .slice(from)
      .filter(({ hook }) => hook === 'custom_access_token');
    expect(logged).toMatchObject([
      { why: expect.stringMatching(cause) as string, requestId: expect.any(String) as string },
    ]);
    // Under `svc dev` the line of a captured mail has its address.
    const written = lines()
      .slice(from)
      .filter(({ kind }) => kind !== 'confirm');
    expect(JSON.stringify(written)).not.toContain(email);
  });

  test('hangs: the deadline ends the sign-in, and other requests are served', async () => {
    const { email, id } = await aUser();
    const before = await countSessions(id);
    await withBody(`begin perform pg_sleep(600); return event; end`, async () => {
      const signIns = Array.from({ length: 12 }, () =>
        anonymous().auth.signInWithPassword({ email, password: PASSWORD }),
      );
      expect((await admin().auth.admin.getUserById(id)).error).toBeNull();
      const statuses = new Set((await Promise.all(signIns)).map(({ error }) => error?.status));
      // Sign-ins that cannot get a connection for their hook are rejected without running it.
      expect([...statuses].toSorted((a = 0, b = 0) => a - b)).toEqual(statuses.has(503) ? [422, 503] : [422]);
    });
    expect(await countSessions(id)).toBe(before);
  });

  test('during a refresh, the session stays and the refresh token works again', async () => {
    const { client, id } = await aUser();
    const { data } = await client.auth.getSession();
    const refresh_token = data.session?.refresh_token ?? '';
    await withBody(`begin raise exception 'broken'; end`, async () => {
      const response = await fetch(`${world.url}/auth/v1/token?grant_type=refresh_token`, {
        method: 'POST',
        headers: { apikey: world.keys.publishable, 'content-type': 'application/json' },
        body: JSON.stringify({ refresh_token }),
      });
      expect(response.status, 'a status after which clients keep their session').toBe(503);
    });
    const { error } = await anonymous().auth.refreshSession({ refresh_token });
    expect(error).toBeNull();
    expect(await countSessions(id)).toBe(1);
  });
});

test('a client cannot call the function of the hook', async () => {
  const { client } = await aUser();
  for (const caller of [anonymous(), client]) {
    const { error, status } = await caller.rpc('custom_access_token_hook', { event: {} });
    expect(status).toBe(404);
    expect(error?.code).toBe('PGRST202');
  }
});
