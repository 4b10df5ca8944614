// Users, their sign-in and their mail.
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { dashboardWorld, expectAccessible } from '../../support/browser/browser.ts';

const world = dashboardWorld();
const PASSWORD = 'correct horse battery';

async function auth(path: string, body: unknown): Promise<Response> {
  return await fetch(`${world.svc.url}/auth/v1/${path}`, {
    method: 'POST',
    headers: { apikey: world.svc.publishableKey, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
}

const signIn = (email: string): Promise<Response> =>
  auth('token?grant_type=password', { email, password: PASSWORD });

describe.skipIf(world.skipped)('users', () => {
  test('a user is created, and can sign in', async () => {
    const page = await world.open('/users');
    await page.getByRole('button', { name: 'New user' }).click();
    const dialog = page.getByRole('dialog', { name: 'New user' });
    await dialog.getByLabel('E-mail').fill('new@example.com');
    await dialog.getByRole('textbox', { name: 'Password' }).fill(PASSWORD);
    await expectAccessible(page);
    await dialog.getByRole('button', { name: 'Create user' }).click();
    await page.getByRole('heading', { name: /new@example.com/ }).waitFor();
    expect((await signIn('new@example.com')).status).toBe(200);
  });

  test('an error is shown in the form, and the input is kept', async () => {
    await world.addUser('taken@example.com');
    const page = await world.open('/users', { expected: [/422/] });
    await page.getByRole('button', { name: 'New user' }).click();
    const dialog = page.getByRole('dialog', { name: 'New user' });
    await dialog.getByLabel('E-mail').fill('taken@example.com');
    await dialog.getByRole('textbox', { name: 'Password' }).fill(PASSWORD);
    await dialog.getByRole('button', { name: 'Create user' }).click();
    await dialog.getByRole('alert').waitFor();
    expect(await dialog.getByRole('alert').innerText()).toMatch(/already been registered/i);
    expect(await dialog.getByLabel('E-mail').inputValue()).toBe('taken@example.com');
  });

  test('an invitation is sent', async () => {
    const page = await world.open('/users');
    await page.getByRole('button', { name: 'New user' }).click();
    const dialog = page.getByRole('dialog', { name: 'New user' });
    await dialog.getByText('By invitation').click();
    await dialog.getByLabel('E-mail').fill('guest@example.com');
    await dialog.getByRole('button', { name: 'Send invitation' }).click();
    await page.getByRole('heading', { name: /guest@example.com/ }).waitFor();
    await page.goto(`${world.svc.url}/dashboard/mail?to=guest@`);
    await page.getByRole('link', { name: /invited/i }).waitFor();
  });

  test('the search finds part of an address, and reports an empty result', async () => {
    await world.addUser('needle@example.com');
    await world.addUser('hay@example.com');
    const page = await world.open('/users');
    await page.getByRole('link', { name: 'hay@example.com' }).waitFor();
    await expectAccessible(page);
    await page.keyboard.press('/');
    await page.keyboard.type('NEEDL');
    await page.getByRole('link', { name: 'hay@example.com' }).waitFor({ state: 'detached' });
    await page.getByRole('link', { name: 'needle@example.com' }).waitFor();
    await page.getByLabel('Search address, phone or id').fill('no such user');
    await page.getByText('No user matches “no such user”').waitFor();
  });

  test('metadata is changed key by key, and removed keys are deleted', async () => {
    const id = await world.addUser('meta@example.com');
    await world.query(`update auth.users set raw_user_meta_data = '{"keep": 1, "drop": 2}' where id = $1`, [
      id,
    ]);
    const page = await world.open(`/users?user=${id}`);
    await page.getByRole('button', { name: 'Edit' }).click();
    const dialog = page.getByRole('dialog', { name: /Edit/ });
    const editor = dialog.getByLabel('User metadata', { exact: true });
    await editor.click();
    await page.keyboard.press('Control+a');
    await page.keyboard.press('Delete');
    await page.keyboard.insertText('{"keep": 1');
    await dialog.getByText('Not a JSON object').waitFor();
    expect(await dialog.getByRole('button', { name: 'Save' }).isDisabled()).toBe(true);
    await page.keyboard.insertText(', "more": true}');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await page.getByText('The user was changed').waitFor();
    const [row] = await world.query('select raw_user_meta_data as metadata from auth.users where id = $1', [
      id,
    ]);
    expect(row?.['metadata']).toEqual({ keep: 1, more: true });
  });

  test('a banned user cannot sign in until the ban is lifted', async () => {
    const id = await world.addUser('banned@example.com');
    const page = await world.open(`/users?user=${id}`);
    await page.getByRole('button', { name: 'Ban' }).click();
    await expectAccessible(page);
    await page.getByRole('dialog').getByRole('button', { name: 'Ban user' }).click();
    await page.getByRole('button', { name: 'Lift ban' }).waitFor();
    expect((await signIn('banned@example.com')).status).toBe(400);
    await page.getByRole('button', { name: 'Lift ban' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Lift ban' }).click();
    await page.getByRole('button', { name: 'Ban', exact: true }).waitFor();
    expect((await signIn('banned@example.com')).status).toBe(200);
  });

  test('one session is signed out, and another one stays valid', async () => {
    const id = await world.addUser('sessions@example.com');
    const tokens = await Promise.all(
      [1, 2].map(
        async () => (await (await signIn('sessions@example.com')).json()) as { refresh_token: string },
      ),
    );
    const page = await world.open(`/users?user=${id}`);
    const sessions = page.getByRole('region', { name: 'Sessions' });
    const buttons = sessions.getByRole('button', { name: 'Sign out', exact: true });
    await expect.poll(() => buttons.count()).toBe(2);
    await expectAccessible(page);
    await buttons.first().click();
    await expect.poll(() => buttons.count()).toBe(1);
    const refresh = async (token: string): Promise<number> =>
      (await auth('token?grant_type=refresh_token', { refresh_token: token })).status;
    const statuses = await Promise.all(tokens.map(({ refresh_token }) => refresh(refresh_token)));
    expect(statuses.toSorted((a, b) => a - b)).toEqual([200, 400]);
    await sessions.getByRole('button', { name: 'Sign out everywhere' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Sign out everywhere' }).click();
    await sessions.getByText('No active sessions').waitFor();
    expect(await world.query('select id from auth.sessions where user_id = $1', [id])).toEqual([]);
  });

  test('a second factor is deleted', async () => {
    const id = await world.addUser('factor@example.com');
    const { access_token } = (await (await signIn('factor@example.com')).json()) as { access_token: string };
    const enrolled = await fetch(`${world.svc.url}/auth/v1/factors`, {
      method: 'POST',
      headers: {
        apikey: world.svc.publishableKey,
        authorization: `Bearer ${access_token}`,
        'content-type': 'application/json',
      },
      body: JSON.stringify({ factor_type: 'totp', friendly_name: 'telephone' }),
    });
    expect(enrolled.status).toBe(200);
    const page = await world.open(`/users?user=${id}`);
    const factors = page.getByRole('region', { name: 'Second factors' });
    await factors.getByText('telephone').waitFor();
    await factors.getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete factor' }).click();
    await factors.getByText('None enrolled.').waitFor();
    expect(await world.query('select id from auth.mfa_factors where user_id = $1', [id])).toEqual([]);
  });

  test('a user is deleted only after their address has been typed', async () => {
    const id = await world.addUser('gone@example.com');
    const page = await world.open(`/users?user=${id}`);
    await page.getByRole('button', { name: 'Delete', exact: true }).click();
    const dialog = page.getByRole('dialog');
    const act = dialog.getByRole('button', { name: 'Delete user' });
    expect(await act.isDisabled()).toBe(true);
    await expectAccessible(page);
    await dialog.getByLabel('Type gone@example.com to continue').fill('gone@example.com');
    await act.click();
    await page.getByText('gone@example.com was deleted').waitFor();
    await page.getByRole('heading', { name: 'Users', exact: true }).waitFor();
    expect(await world.query('select id from auth.users where id = $1', [id])).toEqual([]);
  });
});

describe.skipIf(world.skipped)('mail', () => {
  test('the mail of a password reset is rendered with its link, and runs no script', async () => {
    const email = 'mail@example.com';
    await world.addUser(email);
    expect((await auth('recover', { email })).status).toBe(200);
    const page = await world.open(`/mail?to=${email}`);
    await page.getByRole('link', { name: /reset/i }).click();
    const mail = page.getByRole('region', { name: 'Mail', exact: true });
    const frame = mail.frameLocator('iframe');
    const button = frame.getByRole('link', { name: 'Reset password' });
    await button.waitFor();
    // The mail's styles apply, because the policy of the surrounding page does not affect it.
    expect(await button.evaluate((element) => getComputedStyle(element).color)).toBe('rgb(255, 255, 255)');
    expect(await mail.locator('iframe').getAttribute('sandbox')).not.toContain('allow-scripts');
    const link = mail.getByRole('link', { name: /\/auth\/v1\/verify\?token=/ });
    expect(await link.getAttribute('href')).toBe(await button.getAttribute('href'));
    await expectAccessible(page);
    await mail.getByText('Text', { exact: true }).click();
    await mail.getByRole('region', { name: 'Text of the mail' }).waitFor();
  });

  test('a template that carries a script is shown without running it', async () => {
    const page = await world.open('/auth?tab=templates', {
      // The browser reports that it blocked the script.
      expected: [/sandbox/i, /script/i],
    });
    const preview = page.getByRole('region', { name: 'Preview' });
    await preview.frameLocator('iframe').getByText('Confirm email address').waitFor();
    const editor = page.getByLabel('Body of the mail');
    await editor.click();
    await page.keyboard.press('Control+a');
    await page.keyboard.press('Delete');
    await page.keyboard.insertText(
      '<p id="who">Hello {{ .Email }}</p>' +
        '<script>document.getElementById("who").textContent = "it ran"</script><p>The end</p>',
    );
    await preview.frameLocator('iframe').getByText('The end').waitFor();
    expect(await preview.frameLocator('iframe').locator('#who').innerText()).toBe('Hello ada@example.com');
  });
});

describe.skipIf(world.skipped)('auth settings', () => {
  test('a template is changed in svc.yaml after a review of the change', async () => {
    const page = await world.open('/auth?tab=templates&mail=invite');
    await page.getByLabel('Subject').fill('Come in');
    await page.getByRole('region', { name: 'Preview' }).getByText('Come in').waitFor();
    await expectAccessible(page);
    await page.getByRole('button', { name: 'Review change' }).click();
    const dialog = page.getByRole('dialog', { name: 'Change of svc.yaml' });
    await dialog.getByText('subject: Come in').waitFor();
    expect(readFileSync(world.project.config, 'utf8')).not.toContain('Come in');
    await dialog.getByRole('button', { name: 'Write svc.yaml' }).click();
    await page.getByText('svc.yaml was changed').waitFor();
    const text = readFileSync(world.project.config, 'utf8');
    expect(text).toContain('subject: Come in');
    expect(text).toContain('# A todo app: lists that belong to a user');
    await expect
      .poll(async () => {
        await page.reload();
        return await page.getByText('from svc.yaml').count();
      })
      .toBe(1);
  });

  test('a template that does not parse shows the position', async () => {
    const page = await world.open('/auth?tab=templates');
    await page.getByLabel('Subject').fill('{{ if .Email }}');
    await page
      .getByRole('alert')
      .getByText(/subject, line 1/)
      .waitFor();
  });

  test('only the changed settings are edited in the file', async () => {
    const page = await world.open('/auth');
    await page.getByLabel('Access token lifetime').waitFor();
    await expectAccessible(page);
    await page.getByLabel('Access token lifetime').fill('soon');
    expect(await page.getByRole('button', { name: 'Review change' }).isDisabled()).toBe(true);
    await page.getByLabel('Access token lifetime').fill('20m');
    await page.getByLabel('Anonymous sign-in').uncheck({ force: true });
    await page.getByRole('button', { name: 'Review change' }).click();
    const dialog = page.getByRole('dialog', { name: 'Change of svc.yaml' });
    await dialog.getByRole('button', { name: 'Write svc.yaml' }).click();
    await page.getByText('svc.yaml was changed').waitFor();
    const text = readFileSync(world.project.config, 'utf8');
    expect(text).toMatch(/jwt_expiry: 20m/);
    expect(text).toMatch(/allow_anonymous: false/);
    expect(text).not.toMatch(/refresh_token_expiry|allow_signup/);
    await expect.poll(async () => (await auth('signup', {})).status).toBe(422);
  });
});
