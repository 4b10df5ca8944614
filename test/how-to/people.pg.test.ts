// The how-to pages about users and their rights, with their blocks as printed.
import { Secret, TOTP } from 'otpauth';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { HowToPage, PASSWORD } from '../support/documentation/how-to-page.ts';

describe('docs/how-to/profiles.md', () => {
  let page: HowToPage;
  beforeAll(async () => {
    page = await HowToPage.open('docs/how-to/profiles.md');
  });
  afterAll(() => page?.close());

  test('each way to sign up creates a row, and a rejected row rejects the sign-up', async () => {
    const signUp = await page.module('export async function signUp');
    const profile = await page.module('export async function readProfile');
    const ann = page.anonymous();
    const id = await signUp<string>('signUp', ann, 'ann@example.com', PASSWORD, 'Ann');
    expect(await profile('readProfile', ann, id)).toMatchObject({ name: 'Ann', plan: 'free' });
    const guest = page.anonymous();
    const { data } = await guest.auth.signInAnonymously();
    expect(data.user).not.toBeNull();
    const { count } = await page.admin().from('profiles').select('*', { count: 'exact', head: true });
    expect(count).toBe(2);
    const long = 'x'.repeat(81);
    await expect(signUp('signUp', page.anonymous(), 'bob@example.com', PASSWORD, long)).rejects.toMatchObject(
      { status: 500 },
    );
  });

  test('users change their own user name and nothing else', async () => {
    const profile = await page.module('export async function readProfile');
    const [cem, dora] = [await page.signUp('cem'), await page.signUp('dora')];
    expect(await profile('rename', cem.client, cem.id, 'cem_1')).toBe('saved');
    expect(await profile('rename', dora.client, dora.id, 'cem_1')).toBe('taken');
    expect(await profile('rename', dora.client, dora.id, 'No!')).toBe('invalid');
    await profile('rename', dora.client, cem.id, 'stolen');
    expect(await profile('readProfile', dora.client, cem.id)).toMatchObject({ username: 'cem_1' });
    const { error } = await cem.client.from('profiles').update({ plan: 'paid' }).eq('id', cem.id);
    expect(error?.code).toBe('42501');
    expect((await page.anonymous().from('profiles').select()).error?.code).toBe('42501');
  });

  test('existing users get a row, and each block has run', async () => {
    await page.world.owner.query(sql`delete from profiles`);
    await page.sh('svc sql --write');
    expect(await page.sh("svc sql 'select count(*)")).toMatch(/\b0\b/);
    expect(page.unused()).toEqual([]);
  });
});

describe('docs/how-to/roles.md', () => {
  let page: HowToPage;
  beforeAll(async () => {
    page = await HowToPage.open('docs/how-to/roles.md');
  });
  afterAll(() => page?.close());

  test('the first admin is appointed by a command, and no user can raise their own role', async () => {
    const roles = await page.module('export async function myRole');
    const [ada, bob, cem] = [await page.signUp('ada'), await page.signUp('bob'), await page.signUp('cem')];
    await expect(roles('setRole', ada.client, bob.id, 'admin')).rejects.toThrow(/Only an admin/);
    await page.sh('svc sql --write');
    expect(await roles('myRole', ada.client)).toBe('admin');
    await roles('setRole', ada.client, bob.id, 'moderator');
    expect([await roles('myRole', bob.client), await roles('myRole', cem.client)]).toEqual([
      'moderator',
      'user',
    ]);
    await expect(roles('setRole', ada.client, ada.id, null)).rejects.toThrow(/another admin/);
    for (const { client, id } of [bob, cem]) {
      await expect(roles('setRole', client, id, 'admin')).rejects.toThrow(/Only an admin/);
      const table = client.from('user_roles');
      expect((await table.insert({ user_id: id, role: 'admin' })).error?.code).toBe('42501');
      expect((await table.update({ role: 'admin' }).eq('user_id', id)).error?.code).toBe('42501');
      expect((await table.delete().eq('user_id', ada.id)).error?.code).toBe('42501');
    }
    const post = await cem.client.from('posts').insert({ body: 'spam' }).select('id').single();
    expect(post.error).toBeNull();
    const eve = await page.signUp('eve');
    expect(await roles('hidePost', eve.client, post.data?.id)).toBe(false);
    expect(await roles('hidePost', bob.client, post.data?.id)).toBe(true);
    const visible = async (client = page.anonymous()): Promise<unknown> =>
      (await client.from('posts').select()).data;
    expect([await visible(), await visible(eve.client)]).toEqual([[], []]);
    expect(await visible(bob.client)).toHaveLength(1);
    await roles('setRole', ada.client, bob.id, null);
    expect(await visible(bob.client)).toEqual([]);
  });

  test('the check lists the roles, and each block has run', async () => {
    expect(await page.sh('svc sql "select u.email')).toMatch(/ada@example.com.*admin/);
    expect(page.unused()).toEqual([]);
  });
});

describe('docs/how-to/magic-link.md', () => {
  let page: HowToPage;
  beforeAll(async () => {
    page = await HowToPage.open('docs/how-to/magic-link.md', {
      dev: true,
      env: { SMTP_URL: 'smtp://127.0.0.1:1' },
    });
  });
  afterAll(() => page?.close());

  const lastMail = async (): Promise<{ to: string; text: string }> => {
    const answer = JSON.parse(await page.sh('curl -s -H')) as { mails?: [{ to: string; text: string }] };
    const [mail] = answer.mails ?? (answer as unknown as [{ to: string; text: string }]);
    return mail;
  };
  const lastCode = async (): Promise<string> => /\b\d{6}\b/.exec((await lastMail()).text)?.[0] ?? '';

  test('a code signs in once, and a link leads back to the page', async () => {
    const sign = await page.module('export async function sendCode');
    const client = page.anonymous();
    await sign('sendCode', client, 'ann@example.com');
    const mail = await lastMail();
    expect(mail.to).toBe('ann@example.com');
    const code = await lastCode();
    await expect(sign('enterCode', client, 'ann@example.com', '000000')).rejects.toMatchObject({
      code: 'otp_expired',
    });
    expect(await sign('enterCode', client, 'ann@example.com', code)).toMatchObject({
      email: 'ann@example.com',
    });
    await expect(sign('enterCode', page.anonymous(), 'ann@example.com', code)).rejects.toMatchObject({
      code: 'otp_expired',
    });
    const secondClient = page.anonymous();
    await sign('sendCode', secondClient, 'bob@example.com');
    const link = /http:\S+verify\S+/.exec((await lastMail()).text)?.[0] ?? '';
    expect(decodeURIComponent(link)).toContain('http://localhost:5173/welcome');
    await expect(sign('sendCode', secondClient, 'bob@example.com')).rejects.toMatchObject({
      code: 'over_email_send_rate_limit',
    });
  });

  test('a forgotten password is replaced, and each block has run', async () => {
    const reset = await page.module('export async function requestReset');
    const client = page.anonymous();
    await page.admin().auth.admin.createUser({ email: 'cem@example.com', email_confirm: true });
    await reset('requestReset', client, 'cem@example.com');
    await reset('enterResetCode', client, 'cem@example.com', await lastCode());
    await reset('setPassword', client, PASSWORD);
    const again = await page
      .anonymous()
      .auth.signInWithPassword({ email: 'cem@example.com', password: PASSWORD });
    expect(again.error).toBeNull();
    expect(page.unused()).toEqual([]);
  });
});

describe('docs/how-to/share-link.md', () => {
  let page: HowToPage;
  beforeAll(async () => {
    page = await HowToPage.open('docs/how-to/share-link.md');
  });
  afterAll(() => page?.close());

  test('a link shows one row until it is closed or has expired', async () => {
    const share = await page.module('export async function openLink');
    const ann = await page.signUp('ann');
    const made = await ann.client
      .from('albums')
      .insert({ title: 'summer', notes: 'private' })
      .select()
      .single();
    const id = String(made.data?.id);
    const read = async (link: string): Promise<unknown> => share('readByLink', page.anonymous(), link);
    const link = await share<string>('openLink', ann.client, id, 7);
    expect(await read(link)).toEqual({ id, title: 'summer' });
    expect(await read(crypto.randomUUID())).toBeNull();
    expect((await page.anonymous().from('albums').select()).data).toEqual([]);
    expect(await read(await share<string>('openLink', ann.client, id, -1))).toBeNull();
    const again = await share<string>('openLink', ann.client, id, 7);
    expect(await read(again)).not.toBeNull();
    await share('closeLink', ann.client, id);
    expect(await read(again)).toBeNull();
    await expect(read('x')).rejects.toMatchObject({ code: '22P02' });
  });

  test('the check counts no row, and each block has run', async () => {
    expect(await page.sh('svc sql --as anon')).toMatch(/\b0\b/);
    expect(page.unused()).toEqual([]);
  });
});

describe('docs/how-to/second-factor.md', () => {
  let page: HowToPage;
  beforeAll(async () => {
    page = await HowToPage.open('docs/how-to/second-factor.md');
  });
  afterAll(() => page?.close());

  test('a session needs a code for the protected operation, until an administrator removes the factor', async () => {
    const factors = await page.module('export async function addFactor');
    const recovery = await page.module('export async function removeFactors');
    const ann = await page.signUp('ann');
    const pay = async (client = ann.client): Promise<string | undefined> =>
      (await client.from('payouts').insert({ amount: 5 })).error?.code;
    expect(await pay()).toBe('42501');
    const { id, secret, qr } = await factors<Record<string, string>>('addFactor', ann.client);
    expect(qr).toMatch(/^data:image/);
    const code = (later = 0): string =>
      new TOTP({ secret: Secret.fromBase32(String(secret)) }).generate({ timestamp: Date.now() + later });
    await expect(factors('enterCode', ann.client, id, '000000')).rejects.toMatchObject({
      code: 'mfa_verification_failed',
    });
    await factors('enterCode', ann.client, id, code());
    expect(await pay()).toBeUndefined();

    const again = page.anonymous();
    await again.auth.signInWithPassword({ email: 'ann@example.com', password: PASSWORD });
    expect(await pay(again)).toBe('42501');
    expect(await factors('neededFactor', again)).toBe(id);
    await factors('enterCode', again, id, code(30_000));
    expect(await factors('neededFactor', again)).toBeUndefined();
    expect(await pay(again)).toBeUndefined();

    expect(await page.sh('svc sql')).toMatch(/ann@example.com.*\b1\b/);
    await recovery('removeFactors', page.admin(), ann.id);
    expect(await page.sh('svc sql')).toMatch(/ann@example.com.*\b0\b/);
    expect(page.unused()).toEqual([]);
  });
});

describe('docs/how-to/custom-claims.md', () => {
  let page: HowToPage;
  beforeAll(async () => {
    page = await HowToPage.open('docs/how-to/custom-claims.md');
  });
  afterAll(() => page?.close());

  test('a changed plan is in the next token, and policies use it', async () => {
    const claims = await page.module('export async function readPlan');
    const { client, id } = await page.signUp('eva');
    await page.world.owner.query(sql`insert into reports values (1, 'Costs')`);
    expect(await claims('readPlan', client)).toBe('basic');
    expect((await client.from('reports').select()).data).toEqual([]);
    await page.world.owner.query(sql`insert into memberships values (${id}, 'pro')`);
    expect(await claims('readPlan', client)).toBe('basic');
    await claims('applyNewPlan', client);
    expect(await claims('readPlan', client)).toBe('pro');
    expect((await client.from('reports').select('title')).data).toEqual([{ title: 'Costs' }]);
    expect((await client.rpc('add_claims', { event: {} })).status).toBe(404);
    expect((await client.from('memberships').select()).error?.code).toBe('42501');
    expect(await page.sh('svc sql "select u.email, m.plan')).toMatch(/eva.*pro/);
    expect(page.unused()).toEqual([]);
  });
});
