// Follows docs/tutorial.md like a new user: runs its commands and files unchanged, from the packages to a deployment,
// with one page for Ada, who creates a team, and one for Ben, who joins it. Only addresses are replaced.
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient, type SupabaseClient } from '@supabase/supabase-js';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { freePort } from '../../src/lib/free-port.ts';
import { hasChromium, openChromium, type Chromium } from '../support/browser/chromium.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { readBlocks, ROOT } from '../support/documentation/blocks.ts';
import { scaled } from '../support/run/scaled.ts';

const BLOCKS = readBlocks('docs/tutorial.md');
const PASSWORD = 'correct horse battery';
const PICTURE = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
);
const WHOLE_PAGE_MS = scaled(420_000);

const COMMANDS = BLOCKS.filter(({ language }) => language === 'sh').map(({ code }) => code);
const FILES = BLOCKS.flatMap(({ file, code }) => (file === undefined ? [] : [{ file, code }]));

/** Returns the block of commands that contains this text. */
function commands(part: string): string {
  const found = COMMANDS.filter((code) => code.includes(part));
  expect(found, part).toHaveLength(1);
  return found[0] ?? '';
}

let folder: string;
let app: string;
let database: TestDatabase;
let chromium: Chromium;
let api: number;
let deployed: number;
let preview: number;
const running: Running[] = [];

/** Commands that run until they are stopped, with their child processes. */
type Running = { readonly child: ChildProcess; said(): string };

describe.skipIf(!hasChromium())('the tutorial', () => {
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'svc-ten-minutes-'));
    app = join(folder, 'my-app');
    // Does the work of `npm run release` in a separate folder, because another test may create the release of this
    // clone.
    execFileSync(process.execPath, [join(ROOT, 'scripts/make-release.ts'), join(folder, 'svc/release')], {
      cwd: ROOT,
      stdio: 'pipe',
    });
    database = await createDatabase();
    [api, deployed, preview] = [await freePort(), await freePort(), await freePort()];
    chromium = await openChromium();
  }, WHOLE_PAGE_MS);

  afterAll(async () => {
    await chromium?.close();
    for (const command of running) stop(command);
    await vi.waitUntil(() => !running.some(isThere), { timeout: scaled(30_000) });
    await database?.drop();
    rmSync(folder, { recursive: true, force: true });
  }, WHOLE_PAGE_MS);

  test(
    'leads from an empty folder to a deployed app',
    async () => {
      // 1. A project
      const dev = start(commands('create-svcyaml'), folder);
      const address = await readAddress(dev);
      const ada = await signUp(address, 'ada');
      await addNote(ada, 'Buy milk');

      // 2. Rows of the user
      const shown = BLOCKS.filter(
        ({ language, file }) => /^(?:yaml|js)$/.test(language) && file === undefined,
      );
      expect(shown).toHaveLength(2);
      const [policy, request] = shown.map(({ code }) => code);
      expect(readFileSync(join(app, 'svc.yaml'), 'utf8')).toContain(policy);
      expect(readFileSync(join(app, 'src/Notes.jsx'), 'utf8')).toContain(request?.trim());
      expectPrints(commands('--as ada@example.com'));
      expectPrints(commands('--as anon'));

      // 3. A team, and pictures
      writeFile('svc.yaml');
      await expect
        .poll(() => run('npx svc sql "select code, name from teams"'), { timeout: scaled(60_000) })
        .toContain('(0 rows)');
      expect(run('npx svc migrate status')).toMatch(/pending +nothing/);
      await expect.poll(() => dev.said(), { timeout: 60_000 }).toContain('svc.yaml reloaded');

      // 4. The page
      writeFile('src/Team.jsx');
      writeFile('src/Notes.jsx');
      expect(FILES.map(({ file }) => file)).toEqual(['svc.yaml', 'src/Team.jsx', 'src/Notes.jsx']);
      // Vite may have served the page between two files.
      await ada.reload();
      await useTheTeam(address, ada);
      expectPrints(commands('--as ben@example.com'));
      await expectWalls();
      stop(dev);
      await expect.poll(() => isThere(dev)).toBe(false);

      // 5. On a server
      const receiver = start(commands('svc receive'), app);
      await expect.poll(() => receiver.said(), { timeout: scaled(60_000) }).toContain(String(deployed));
      run(commands('svc deploy'));
      expect(await (await fetch(`http://localhost:${deployed}/ready`)).json()).toMatchObject({
        status: 'ready',
      });
      const built = await readAddress(start(commands('npm run build'), app));
      const code = readdirSync(join(app, 'dist/assets'))
        .map((name) => readFileSync(join(app, 'dist/assets', name), 'utf8'))
        .join('\n');
      expect(code).toContain('svc_publishable_');
      expect(code).not.toContain('svc_secret_');
      await useTheTeam(built, await signUp(built, 'ada'));
      run(commands('svc deploy'));
    },
    WHOLE_PAGE_MS,
  );

  test('contains only blocks that are tried here', () => {
    const tried = [
      'create-svcyaml',
      '--as ada',
      '--as anon',
      '--as ben',
      'svc receive',
      'svc deploy',
      'npm run build',
    ];
    // Created above in a separate folder; the database is the one of these tests.
    const elsewhere = ['npm run release', 'docker run'];
    expect(COMMANDS.filter((code) => ![...tried, ...elsewhere].some((part) => code.includes(part)))).toEqual(
      [],
    );
  });
});

/** Ada creates a team and shares a note with a picture. Ben joins and sees only that note. */
async function useTheTeam(address: string, ada: Page): Promise<void> {
  await ada.getByLabel('Name of a new team').fill('Kitchen');
  await ada.getByRole('button', { name: 'Go' }).click();
  await ada.getByText('You are in Kitchen.').waitFor();
  const code = (await ada.locator('code').textContent()) ?? '';
  await ada
    .getByLabel('Picture')
    .setInputFiles({ name: 'bread.png', mimeType: 'image/png', buffer: PICTURE });
  await ada.getByLabel('For the team').click();
  await addNote(ada, 'Bread');
  await ada.getByAltText('Of Bread').waitFor();

  const ben = await signUp(address, 'ben');
  await ben.getByLabel('New note').waitFor();
  expect(await ben.getByRole('checkbox', { name: 'Bread' }).count()).toBe(0);
  await ben.getByLabel('Or the code of one').fill(code);
  await ben.getByRole('button', { name: 'Go' }).click();
  await ben.getByRole('checkbox', { name: 'Bread' }).waitFor();
  const picture = ben.getByAltText('Of Bread');
  await expect.poll(() => picture.evaluate((image) => 'naturalWidth' in image && image.naturalWidth)).toBe(1);
  expect(await ben.getByText('Buy milk').count()).toBe(0);
  await ben.getByRole('checkbox', { name: 'Bread' }).click();
  await expect.poll(() => ben.getByRole('checkbox', { name: 'Bread' }).isChecked()).toBe(true);
}

/** Requests that the page does not offer. */
async function expectWalls(): Promise<void> {
  const [ada, ben, eve] = [await client('ada'), await client('ben'), await client('eve')];
  const { data: bread } = await ada.from('notes').select().eq('text', 'Bread').single();
  const { data: own } = await ada.auth.getUser();
  const open = async (client: SupabaseClient): Promise<boolean> =>
    (await client.storage.from('pictures').download(bread.picture)).error === null;
  expect([await open(ada), await open(ben), await open(eve)]).toEqual([true, true, false]);
  // The simple attack that the text warns of, and attempts to join a team without its code.
  const refused = [
    eve.from('notes').insert({ text: 'mine', picture: bread.picture }),
    eve.from('notes').insert({ text: 'mine', team_id: bread.team_id }),
    eve.from('notes').insert({ text: 'mine', owner: own.user?.id }),
    eve.from('members').insert({ team_id: bread.team_id, user_id: own.user?.id }),
    ben.from('notes').update({ owner: own.user?.id }).eq('id', bread.id),
    ben.from('notes').update({ team_id: null }).eq('id', bread.id),
  ];
  for (const answer of await Promise.all(refused)) expect(answer.error?.code).toBe('42501');
  expect(
    (await eve.storage.from('pictures').upload(`${own.user?.id}/x`, PICTURE, { contentType: 'image/png' }))
      .error,
  ).not.toBeNull();
  expect((await eve.rpc('join_team', { code: crypto.randomUUID() })).error?.message).toBe(
    'No team has this code.',
  );
  expect((await eve.from('teams').select()).data).toEqual([]);
  // Deleting the note deletes its picture, even when another member deletes it.
  expect((await ben.from('notes').delete().eq('id', bread.id).select()).data).toHaveLength(1);
  await expect.poll(() => open(ada)).toBe(false);
  await ada.from('notes').insert({ text: 'Bread', team_id: bread.team_id });
}

/** Signs up a user without an account. */
async function client(name: string): Promise<SupabaseClient> {
  const key = /SVC_PUBLISHABLE_KEY=(\S+)/.exec(readFileSync(join(app, '.env'), 'utf8'))?.[1] ?? '';
  const made = createClient(`http://localhost:${api}`, key, { auth: { persistSession: false } });
  const credentials = { email: `${name}@example.com`, password: PASSWORD };
  const { error } = await made.auth.signInWithPassword(credentials);
  if (error) expect((await made.auth.signUp(credentials)).error).toBeNull();
  return made;
}

async function signUp(address: string, name: string): Promise<Page> {
  const context = await chromium.browser.newContext();
  const page = await context.newPage();
  // Vite compiles pages on request, while a server starts.
  page.setDefaultTimeout(scaled(120_000));
  await page.goto(address);
  await page.getByLabel('E-mail').fill(`${name}@example.com`);
  await page.getByLabel('Password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Sign up' }).click();
  return page;
}

async function addNote(page: Page, text: string): Promise<void> {
  await page.getByLabel('New note').fill(text);
  await page.getByRole('button', { name: 'Add' }).click();
  await page.getByRole('checkbox', { name: text }).waitFor();
}

function writeFile(name: string): void {
  writeFileSync(join(app, name), here(FILES.find(({ file }) => file === name)?.code ?? ''));
}

/** The block after these commands is their output. */
function expectPrints(code: string): void {
  const at = BLOCKS.findIndex((block) => block.code === code);
  expect(BLOCKS[at + 1]?.language).toBe('text');
  const lines = (text: string): string[] => text.split('\n').map((line) => line.trim());
  const printed = lines(run(code));
  for (const line of lines(BLOCKS[at + 1]?.code ?? ''))
    expect(
      printed.some((item) => item.includes(line)),
      printed.join('\n'),
    ).toBe(true);
}

/** Returns the commands of the page with the addresses of this run. */
function here(code: string): string {
  return code
    .replaceAll('8090', String(deployed))
    .replaceAll('4173', String(preview))
    .replaceAll('postgres://postgres:secret@localhost:5432/postgres', database.url);
}

/** Environment of a terminal on this machine: its Node, without the variables of the npm that runs these tests. */
function environment(): NodeJS.ProcessEnv {
  const own = Object.entries(process.env).filter(([name]) => !/^npm_|^SVC_|^NODE_ENV$|^VITEST/i.test(name));
  const path = (process.env['PATH'] ?? '').split(':').filter((item) => !item.endsWith('node_modules/.bin'));
  return {
    ...Object.fromEntries(own),
    PATH: path.join(':'),
    NO_COLOR: '1',
    VITE_SVC_URL: `http://localhost:${api}`,
  };
}

function run(code: string): string {
  return execFileSync('bash', ['-e', '-c', here(code)], { cwd: app, encoding: 'utf8', env: environment() });
}

function start(code: string, cwd: string): Running {
  const child = spawn('bash', ['-e', '-c', here(code)], {
    cwd,
    env: environment(),
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let text = '';
  child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (text += chunk.toString()));
  const started = { child, said: () => text };
  running.push(started);
  return started;
}

function stop({ child }: Running): void {
  try {
    process.kill(-(child.pid ?? 0), 'SIGTERM');
  } catch {
    // The process has already ended.
  }
}

/** Returns whether any process of the group is running. */
function isThere({ child }: Running): boolean {
  try {
    return process.kill(-(child.pid ?? 0), 0);
  } catch {
    return false;
  }
}

/** Returns the address of the page, which Vite prints when it is ready. */
async function readAddress(server: Running): Promise<string> {
  const found = (): string | undefined => /Local: +(http:\/\/localhost:\d+)/.exec(server.said())?.[1];
  await expect
    .poll(() => found() ?? `nothing yet:\n${server.said()}`, { timeout: scaled(240_000) })
    .toMatch(/^http:/);
  return found() ?? '';
}
