// Parity rows RF, US, LO, MF: refreshing, the user's own record, signing out, second factors.
import { Secret, TOTP } from 'otpauth';
import { SignJWT, exportSPKI, importJWK } from 'jose';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  aUser,
  decodeClaims,
  mailSecrets,
  startAuth,
  withAuth,
  type AuthWorld,
  type Reply,
} from '../../support/auth-world.ts';
import { makeRefreshToken } from '../../../src/auth/sessions/refresh-token.ts';
import { sql } from '../../../src/postgres/sql.ts';

let world: AuthWorld;
beforeAll(async () => {
  world = await startAuth({ auth: { redirectUrls: ['https://app.example'] } });
});
afterAll(() => world.close());

const refresh = (token: string): Promise<Reply> =>
  world.call('POST', '/token?grant_type=refresh_token', { body: { refresh_token: token } });
const signIn = (user: { email: string; password: string }): Promise<Reply> =>
  world.call('POST', '/token?grant_type=password', { body: { email: user.email, password: user.password } });
const statusAndCode = (reply: Reply): unknown => [reply.status, reply.json.error_code];
const admin = () => world.admin().auth.admin;

async function after<T>(ms: number, work: () => Promise<T>): Promise<T> {
  world.ahead += ms;
  return await work();
}

describe('refresh', () => {
  test('rotates, and the previous token gets the same response', async () => {
    const user = await aUser(world);
    const first = await refresh(user.refresh);
    expect(first.status).toBe(200);
    expect(first.json.refresh_token).not.toBe(user.refresh);
    const [before, now] = [decodeClaims(user.access), decodeClaims(first.json.access_token)];
    expect(now.session_id).toBe(before.session_id);
    expect(now.amr).toEqual(before.amr);
    expect((await refresh(user.refresh)).json.refresh_token).toBe(first.json.refresh_token);
    // Without a time limit, because a client that lost the response may retry much later.
    expect((await after(3_600_000, () => refresh(user.refresh))).json.refresh_token).toBe(
      first.json.refresh_token,
    );
  });

  test.each([
    ['shorter', 7200, 900],
    ['longer', 900, 7200],
  ])('with a %s lifetime, the end of the session refuses its longest token', async (_, first, second) => {
    for (const isRotated of [true, false]) {
      let session!: { id: string; refresh: string };
      await withAuth(world, { jwtExpirySeconds: first }, async () => {
        const user = await aUser(world);
        session = { id: decodeClaims(user.access).session_id, refresh: user.refresh };
        if (!isRotated) await refresh(session.refresh);
      });
      await withAuth(world, { jwtExpirySeconds: second }, async () => {
        expect((await refresh(session.refresh)).json.expires_in).toBe(second);
      });
      await world.query(sql`delete from auth.sessions where id = ${session.id}`);
      const [ended] = await world.query<{ seconds: number }>(sql`
        select extract(epoch from until - now())::int as seconds from auth.ended_sessions
        where session_id = ${session.id}`);
      expect(ended?.seconds).toBeGreaterThan(7200);
    }
  });

  test('fifty at once share one new token', async () => {
    const user = await aUser(world);
    const replies = await Promise.all(Array.from({ length: 50 }, () => refresh(user.refresh)));
    expect(replies.map((reply) => reply.status)).toEqual(Array(50).fill(200));
    expect(new Set(replies.map((reply) => reply.json.refresh_token)).size).toBe(1);
    expect((await refresh(replies[0]!.json.refresh_token)).status).toBe(200);
  });

  test('two tabs that refresh in turn never lose the session', async () => {
    const user = await aUser(world);
    let [left, right] = [user.refresh, user.refresh];
    for (let round = 0; round < 10; round++) {
      const [a, b] = await Promise.all([refresh(left), refresh(right)]);
      expect([a.status, b.status]).toEqual([200, 200]);
      [left, right] = [a.json.refresh_token, b.json.refresh_token];
      expect(left).toBe(right);
    }
  });

  test('a token before the previous one counts as reuse and ends the session', async () => {
    const user = await aUser(world);
    const second = (await refresh(user.refresh)).json.refresh_token;
    const third = (await refresh(second)).json.refresh_token;
    expect((await refresh(user.refresh)).json.refresh_token).toBe(third);
    expect(statusAndCode(await after(11_000, () => refresh(user.refresh)))).toEqual([
      400,
      'refresh_token_already_used',
    ]);
    expect(statusAndCode(await refresh(third))).toEqual([400, 'refresh_token_not_found']);
    expect((await world.call('GET', '/user', { bearer: user.access })).json.error_code).toBe(
      'session_not_found',
    );
  });

  test('foreign and malformed tokens are refused', async () => {
    const user = await aUser(world);
    const { session_id: session } = decodeClaims(user.access);
    expect(statusAndCode(await refresh('x'))).toEqual([400, 'validation_failed']);
    // Applications look for these words to sign out.
    expect((await refresh('expired-refresh-token')).json.msg).toMatch(/^Invalid Refresh Token/);
    expect(statusAndCode(await refresh('ABCDEFGHIJKL'))).toEqual([400, 'validation_failed']);
    expect(statusAndCode(await refresh('abcdefghijkl'))).toEqual([400, 'refresh_token_not_found']);
    expect(statusAndCode(await refresh('-'.repeat(60)))).toEqual([400, 'validation_failed']);
    const stranger = Buffer.alloc(32, 1);
    const unknown = makeRefreshToken('11111111-1111-4111-8111-111111111111', 0, stranger);
    expect(statusAndCode(await refresh(unknown))).toEqual([400, 'refresh_token_not_found']);
    expect(statusAndCode(await refresh(makeRefreshToken(session, 1, stranger)))).toEqual([
      400,
      'refresh_token_not_found',
    ]);
    expect((await refresh(user.refresh)).status).toBe(200);
  });

  test('after too long without a refresh the session has expired', async () => {
    const user = await aUser(world);
    const day = 86_400_000;
    const { json } = await after(6 * day, () => refresh(user.refresh));
    expect(json.refresh_token).toBeDefined();
    expect((await after(6 * day, () => refresh(json.refresh_token))).status).toBe(200);
    expect(statusAndCode(await after(8 * day, () => refresh(json.refresh_token)))).toEqual([
      400,
      'session_expired',
    ]);
  });

  test('bans and sign-outs count; claims are fresh', async () => {
    const user = await aUser(world);
    await admin().updateUserById(user.id, { ban_duration: '1h' });
    expect(statusAndCode(await refresh(user.refresh))).toEqual([400, 'user_banned']);
    await admin().updateUserById(user.id, { ban_duration: 'none', app_metadata: { plan: 'pro' } });
    const { json } = await refresh(user.refresh);
    expect(decodeClaims(json.access_token).app_metadata).toMatchObject({ plan: 'pro', provider: 'email' });
    await world.call('POST', '/logout', { bearer: json.access_token });
    expect(statusAndCode(await refresh(json.refresh_token))).toEqual([400, 'refresh_token_not_found']);
  });

  test('without the database it is a 503, never a sign-out', async () => {
    const lonely = await startAuth({ join: world });
    const user = await aUser(world);
    await lonely.owner.close();
    const reply = await lonely.call('POST', '/token?grant_type=refresh_token', {
      body: { refresh_token: user.refresh },
    });
    expect(reply.status).toBe(503);
    await lonely.close().catch(() => {});
  });

  test('another instance refreshes what this one issued', async () => {
    const neighbour = await startAuth({ join: world });
    neighbour.ahead = world.ahead;
    const user = await aUser(world);
    const body = { refresh_token: user.refresh };
    const [a, b] = await Promise.all(
      [world, neighbour].map((instance) =>
        instance.call('POST', '/token?grant_type=refresh_token', { body }),
      ),
    );
    expect(a?.json.refresh_token).toBe(b?.json.refresh_token);
    expect((await neighbour.call('GET', '/user', { bearer: a?.json.access_token })).status).toBe(200);
    await neighbour.close();
  });
});

describe('the own record', () => {
  test('the token determines the caller', async () => {
    const user = await aUser(world);
    const get = (bearer?: string) => world.call('GET', '/user', { bearer });
    expect((await get(user.access)).json).toMatchObject({ id: user.id, email: user.email });
    expect(statusAndCode(await get(world.keys.publishable))).toEqual([403, 'bad_jwt']);
    const none = await get();
    expect(statusAndCode(none)).toEqual([401, 'no_authorization']);
    expect(none.json.msg).toContain('Bearer token');
    const garbage = await get('abc');
    expect(statusAndCode(garbage)).toEqual([403, 'bad_jwt']);
    expect(garbage.json.msg).toMatch(/^invalid JWT/);
    const payload = decodeClaims(user.access);
    const [header] = user.access.split('.');
    const { kid } = JSON.parse(Buffer.from(header ?? '', 'base64url').toString());
    const unsigned = `${Buffer.from('{"alg":"none","typ":"JWT"}').toString('base64url')}.${user.access.split('.')[1]}.`;
    expect(statusAndCode(await get(unsigned))).toEqual([403, 'bad_jwt']);
    const publicKey = await importJWK(world.signingKeys.publicKeys[0]!, 'ES256', { extractable: true });
    const pem = Buffer.from(await exportSPKI(publicKey as Parameters<typeof exportSPKI>[0]));
    const confused = await new SignJWT(payload).setProtectedHeader({ alg: 'HS256', kid }).sign(pem);
    expect(statusAndCode(await get(confused))).toEqual([403, 'bad_jwt']);
    world.ahead += 16 * 60_000;
    expect(statusAndCode(await get(user.access))).toEqual([403, 'bad_jwt']);
  });

  test('sessions, users and bans are looked up', async () => {
    const [a, b, c] = [await aUser(world), await aUser(world), await aUser(world)];
    await world.query(sql`delete from auth.sessions where user_id = ${a.id}`);
    await admin().deleteUser(b.id);
    await admin().updateUserById(c.id, { ban_duration: '1h' });
    const get = async (bearer: string) => statusAndCode(await world.call('GET', '/user', { bearer }));
    expect(await get(a.access)).toEqual([403, 'session_not_found']);
    expect(await get(b.access)).toEqual([403, 'user_not_found']);
    expect(await get(c.access)).toEqual([403, 'user_banned']);
  });

  test('changes metadata', async () => {
    const user = await aUser(world, { data: { a: 1, b: 2 } });
    const put = (body: unknown) => world.call('PUT', '/user', { bearer: user.access, body });
    const changed = await put({ data: { a: null, c: 3 }, current_password: 'ignored' });
    expect(changed.json.user_metadata).toMatchObject({ b: 2, c: 3 });
    expect(changed.json.user_metadata).not.toHaveProperty('a');
    expect(statusAndCode(await put({ app_metadata: { admin: true } }))).toEqual([403, 'not_admin']);
    expect(statusAndCode(await put({ phone: '+4912345' }))).toEqual([400, 'phone_provider_disabled']);
    expect((await put({ data: { big: 'x'.repeat(70_000) } })).status).toBe(400);
    expect(decodeClaims(user.access).user_metadata).toMatchObject({ a: 1 });
    expect(decodeClaims((await refresh(user.refresh)).json.access_token).user_metadata).toMatchObject({
      c: 3,
    });
  });

  test('refuses weak and unchanged passwords and registered addresses', async () => {
    const user = await aUser(world);
    const other = (await signIn(user)).json;
    const put = (body: unknown) => world.call('PUT', '/user', { bearer: user.access, body });
    expect(statusAndCode(await put({ password: user.password }))).toEqual([422, 'same_password']);
    expect(statusAndCode(await put({ password: '' }))).toEqual([422, 'weak_password']);
    expect(statusAndCode(await put({ password: 'short' }))).toEqual([422, 'weak_password']);
    expect((await put({ password: 'another horse' })).status).toBe(200);
    expect(statusAndCode(await refresh(other.refresh_token))).toEqual([400, 'refresh_token_not_found']);
    expect((await refresh(user.refresh)).status).toBe(200);
    const taken = await aUser(world);
    expect(statusAndCode(await put({ email: taken.email }))).toEqual([422, 'email_exists']);
  });

  test('an address changes when both mailboxes agreed', async () => {
    const user = await aUser(world);
    const email = `new-${user.email}`;
    const put = await world.call('PUT', '/user', { bearer: user.access, body: { email } });
    expect(put.json).toMatchObject({
      email: user.email,
      new_email: email,
      email_change_sent_at: expect.any(String),
    });
    const current = mailSecrets((await world.mails(user.email))[0]!);
    const next = mailSecrets((await world.mails(email))[0]!);
    expect(current.code).not.toBe(next.code);
    const verify = (address: string, token: string) =>
      world.call('POST', '/verify', { body: { type: 'email_change', email: address, token } });
    const half = await verify(user.email, current.code);
    expect(half.json).toMatchObject({ code: '200', msg: expect.any(String) });
    expect(statusAndCode(await verify(user.email, current.code))).toEqual([403, 'otp_expired']);
    const whole = await verify(email, next.code);
    expect(whole.json.user).toMatchObject({ id: user.id, email });
    expect(whole.json.user).not.toHaveProperty('new_email');
    expect(whole.json.user.identities[0].identity_data).toMatchObject({ email, email_verified: true });
    expect((await refresh(user.refresh)).status).toBe(200);
  });
});

describe('sign-out', () => {
  test('ends this session, all, or the others', async () => {
    const user = await aUser(world);
    const out = (bearer: string, scope: string) => world.call('POST', `/logout${scope}`, { bearer });
    const session = async () => (await signIn(user)).json;
    const [a, b, c] = [await session(), await session(), await session()];
    expect((await out(a.access_token, '?scope=local')).status).toBe(204);
    expect((await refresh(a.refresh_token)).status).toBe(400);
    expect((await refresh(b.refresh_token)).status).toBe(200);
    expect((await out(b.access_token, '?scope=others')).status).toBe(204);
    expect((await refresh(c.refresh_token)).status).toBe(400);
    expect((await refresh(b.refresh_token)).status).toBe(200);
    const d = await session();
    expect((await out(d.access_token, '')).status).toBe(204);
    expect((await refresh(b.refresh_token)).status).toBe(400);
    expect(statusAndCode(await world.call('GET', '/user', { bearer: d.access_token }))).toEqual([
      403,
      'session_not_found',
    ]);
  });

  test('unknown scopes are refused, and an admin can sign out a user', async () => {
    const user = await aUser(world);
    const json = { 'content-type': 'application/json;charset=UTF-8' };
    expect((await world.call('POST', '/logout?scope=x', { bearer: user.access })).status).toBe(400);
    expect((await world.call('POST', '/logout', { bearer: user.access, headers: json })).status).toBe(204);
    const again = (await signIn(user)).json;
    expect((await admin().signOut(again.access_token, 'global')).error).toBeNull();
    expect((await refresh(again.refresh_token)).status).toBe(400);
  });
});

type Enrolled = { id: string; secret: string };

test('a user has at most a hundred sessions: the oldest ends', async () => {
  const user = await aUser(world);
  await world.query(sql`
    insert into auth.sessions (user_id, created_at)
    select ${user.id}, now() - make_interval(hours => n) from generate_series(1, 99) n`);
  await signIn(user);
  const [left] = await world.query(sql`
    select count(*)::int as sessions, min(created_at) > now() - interval '99 hours' as is_oldest_gone
    from auth.sessions where user_id = ${user.id}`);
  expect(left).toEqual({ sessions: 100, is_oldest_gone: true });
});

describe('second factors', () => {
  const code = (secret: string): string =>
    new TOTP({ secret: Secret.fromBase32(secret) }).generate({ timestamp: world.now().getTime() });
  const post = (path: string, bearer: string, body: unknown = {}) =>
    world.call('POST', path, { bearer, body });

  async function enrol(bearer: string, friendly_name = 'phone'): Promise<Enrolled> {
    const { json } = await post('/factors', bearer, { factor_type: 'totp', friendly_name });
    return { id: json.id, secret: json.totp.secret };
  }

  async function verify(
    bearer: string,
    factor: Enrolled,
    typed: string = code(factor.secret),
  ): Promise<Reply> {
    const challenge = await post(`/factors/${factor.id}/challenge`, bearer);
    return await post(`/factors/${factor.id}/verify`, bearer, {
      challenge_id: challenge.json.id,
      code: typed,
    });
  }

  test('enrols a factor', async () => {
    const user = await aUser(world);
    const { json } = await post('/factors', user.access, { factor_type: 'totp', issuer: undefined });
    expect(json).toMatchObject({ type: 'totp', totp: { secret: expect.stringMatching(/^[A-Z2-7]{32}$/) } });
    expect(json.totp.uri).toMatch(
      new RegExp(
        '^otpauth://totp/Test:user\\d+%40example\\.com\\?algorithm=SHA1&digits=6' +
          '&issuer=Test&period=30&secret=[A-Z2-7]{32}$',
      ),
    );
    expect(json.totp.qr_code).toMatch(/^<svg /);
    expect(json.totp.qr_code).not.toMatch(/[#%\n]/);
    expect(statusAndCode(await post('/factors', user.access, { factor_type: 'totp' }))).toEqual([
      422,
      'mfa_factor_name_conflict',
    ]);
    expect(statusAndCode(await post('/factors', user.access, { factor_type: 'x' }))).toEqual([
      400,
      'validation_failed',
    ]);
    expect(
      statusAndCode(await post('/factors', user.access, { factor_type: 'phone', phone: '+491' })),
    ).toEqual([422, 'mfa_phone_enroll_not_enabled']);
    const challenge = await world.call('POST', `/factors/${json.id}/challenge`, { bearer: user.access });
    expect(challenge.json).toMatchObject({ type: 'totp', id: expect.any(String) });
    expect(challenge.json.expires_at - world.now().getTime() / 1000).toBeCloseTo(300, -1);
  });

  test('verifying raises the session and ends the rest', async () => {
    const user = await aUser(world);
    const other = (await signIn(user)).json;
    const [factor, spare] = [await enrol(user.access), await enrol(user.access, 'spare')];
    const raised = await verify(user.access, factor);
    expect(raised.status).toBe(200);
    const claims = decodeClaims(raised.json.access_token);
    expect(claims).toMatchObject({ aal: 'aal2', session_id: decodeClaims(user.access).session_id });
    expect(claims.amr.map((entry: { method: string }) => entry.method).sort()).toEqual(['password', 'totp']);
    expect(statusAndCode(await refresh(other.refresh_token))).toEqual([400, 'refresh_token_not_found']);
    expect(statusAndCode(await refresh(user.refresh))).toEqual([400, 'refresh_token_already_used']);
    const refreshed = await refresh(raised.json.refresh_token);
    expect(decodeClaims(refreshed.json.access_token).aal).toBe('aal2');
    const { factors } = (await world.call('GET', '/user', { bearer: raised.json.access_token })).json;
    expect(factors).toMatchObject([{ id: factor.id, status: 'verified', factor_type: 'totp' }]);
    expect(factors[0]).not.toHaveProperty('secret');
    expect(factors.some((factor: { id: string }) => factor.id === spare.id)).toBe(false);
  });

  test('wrong codes and challenges do not verify', async () => {
    const user = await aUser(world);
    const factor = await enrol(user.access);
    const wrong = await verify(user.access, factor, code(factor.secret) === '000000' ? '111111' : '000000');
    expect(statusAndCode(wrong)).toEqual([422, 'mfa_verification_failed']);
    expect(wrong.json.msg).toContain('Invalid TOTP code');
    const challenge = (await post(`/factors/${factor.id}/challenge`, user.access)).json.id;
    const answer = (challenge_id: string, typed: string) =>
      post(`/factors/${factor.id}/verify`, user.access, { challenge_id, code: typed });
    expect(statusAndCode(await answer('x', '123456'))).toEqual([400, 'bad_json']);
    expect(statusAndCode(await answer(challenge, ''))).toEqual([400, 'validation_failed']);
    const right = code(factor.secret);
    expect((await answer(challenge, right)).status).toBe(200);
    const second = await answer(challenge, right);
    expect(statusAndCode(second)).toEqual([422, 'mfa_ip_address_mismatch']);
    expect(second.json.msg).toBe('MFA challenge was answered already, create a new challenge.');
    expect(statusAndCode(await verify(user.access, factor, right))).toEqual([422, 'mfa_verification_failed']);
    const stranger = await aUser(world);
    expect(statusAndCode(await post(`/factors/${factor.id}/challenge`, stranger.access))).toEqual([
      404,
      'mfa_factor_not_found',
    ]);
    const late = (await post(`/factors/${factor.id}/challenge`, user.access)).json.id;
    world.ahead += 301_000;
    expect(statusAndCode(await answer(late, code(factor.secret)))).toEqual([422, 'mfa_challenge_expired']);
  });

  test('aal1 cannot add or remove factors or change the password', async () => {
    const user = await aUser(world);
    const factor = await enrol(user.access);
    const raised = (await verify(user.access, factor)).json;
    const low = (await signIn(user)).json.access_token;
    expect(
      statusAndCode(await post('/factors', low, { factor_type: 'totp', friendly_name: 'second' })),
    ).toEqual([403, 'insufficient_aal']);
    expect(statusAndCode(await world.call('DELETE', `/factors/${factor.id}`, { bearer: low }))).toEqual([
      422,
      'insufficient_aal',
    ]);
    expect(
      statusAndCode(await world.call('PUT', '/user', { bearer: low, body: { password: 'another horse' } })),
    ).toEqual([401, 'insufficient_aal']);
    expect(
      (await post('/factors', raised.access_token, { factor_type: 'totp', friendly_name: 'second' })).status,
    ).toBe(200);
    const gone = await world.call('DELETE', `/factors/${factor.id}`, { bearer: raised.access_token });
    expect(gone.json).toEqual({ id: factor.id });
    const { access_token: after } = (await refresh(raised.refresh_token)).json;
    expect(decodeClaims(after).aal).toBe('aal1');
    expect(decodeClaims(after).amr.map((entry: { method: string }) => entry.method)).toEqual(['password']);
  });

  test('the client library: enrol, challengeAndVerify, level, list, unenrol', async () => {
    for (const client of [world.client(), world.oldClient()]) {
      const user = await aUser(world);
      await client.auth.signInWithPassword(user);
      const enrolled = await client.auth.mfa.enroll({ factorType: 'totp', friendlyName: 'app' });
      expect(enrolled.data?.totp.qr_code).toMatch(/^data:image\/svg\+xml;utf-8,<svg/);
      const factorId = enrolled.data?.id ?? '';
      const done = await client.auth.mfa.challengeAndVerify({
        factorId,
        code: code(enrolled.data?.totp.secret ?? ''),
      });
      expect(done.error).toBeNull();
      const level = await client.auth.mfa.getAuthenticatorAssuranceLevel();
      expect(level.data).toMatchObject({ currentLevel: 'aal2', nextLevel: 'aal2' });
      expect((await client.auth.mfa.listFactors()).data?.totp).toHaveLength(1);
      expect((await client.auth.mfa.unenroll({ factorId })).error).toBeNull();
    }
  });
});
