// site/ as a contributor builds it: packages from the lockfile, pages from docs/, and read in a browser.
import { spawnSync, type SpawnSyncReturns } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { asObject, explainedCodes } from '../../src/cli/docs/documentation.ts';
import { hasChromium, openChromium } from '../support/browser/chromium.ts';
import { PAGES, ROOT } from '../support/documentation/blocks.ts';
import { NODE } from '../support/svc-process.ts';
import { scaled } from '../support/run/scaled.ts';

const INSTALL_TIMEOUT_MS = scaled(300_000);

let folder: string;
/** Skips the tests if the registry cannot be reached, because the build needs its packages. */
let isInstalled = false;

const searchPath = (): string => `${dirname(NODE)}:${process.env['PATH']}`;
const built = (page: string): string =>
  readFileSync(join(folder, 'site/.vitepress/dist', `${page}.html`), 'utf8');

function build(env: Readonly<Record<string, string>> = {}): SpawnSyncReturns<string> {
  return spawnSync('npm', ['run', 'build'], {
    cwd: join(folder, 'site'),
    encoding: 'utf8',
    env: { ...process.env, PATH: searchPath(), ...env },
  });
}

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'svc-site-'));
  const isOwn = (path: string): boolean => !/node_modules|cache$|dist$|\.temp$/.test(path);
  cpSync(join(ROOT, 'site'), join(folder, 'site'), { recursive: true, filter: isOwn });
  cpSync(join(ROOT, 'docs'), join(folder, 'docs'), { recursive: true });
  const { status, stderr } = spawnSync('npm', ['ci', '--no-audit', '--no-fund'], {
    cwd: join(folder, 'site'),
    encoding: 'utf8',
    env: { ...process.env, PATH: searchPath() },
  });
  isInstalled = status === 0;
  if (isInstalled) return;
  expect(stderr, 'npm could not install, for another reason than a registry that is away').toMatch(
    /ENOTFOUND|ECONNREFUSED|EAI_AGAIN|ETIMEDOUT|network/,
  );
}, INSTALL_TIMEOUT_MS);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('the site', () => {
  test(
    'has every page, and what they show as it is',
    ({ skip }) => {
      if (!isInstalled) skip('npm reaches no registry');
      const repository = 'https://forge.example.com/svc/blob/main';
      const { status, stderr } = build({ SITE_URL: 'https://docs.example.com', REPOSITORY_URL: repository });
      expect(status, stderr).toBe(0);
      const pages = PAGES.filter((page) => page.startsWith('docs/')).map((page) => page.slice(5, -3));
      expect(pages.filter((page) => !built(page).includes('</h1>'))).toEqual([]);
      expect(existsSync(join(folder, 'site/.vitepress/dist/decisions'))).toBe(false);

      // The index has the words of the front matter, which the pages do not show.
      const chunks = join(folder, 'site/.vitepress/dist/assets/chunks');
      const index = readdirSync(chunks).find((name) => name.startsWith('@localSearchIndex')) ?? '';
      expect(readFileSync(join(chunks, index), 'utf8')).toContain('"pgtap"');
      expect(built('how-to/test-policies')).not.toContain('pgTAP');

      expect(built('auth').includes('{{ .ConfirmationURL }}')).toBe(true);
      expect(built('auth').includes('callback/&lt;provider&gt;')).toBe(true);
      expect(pages.filter((page) => /&lt;!--|not run: /.test(built(page)))).toEqual([]);
      expect(built('chat')).toContain(`href="${repository}/examples/chat"`);
      const configuration = built('configuration');
      expect(configuration).toMatch(/<details[^>]*><summary>\d+ other keys<\/summary><table/);
      expect(configuration).not.toMatch(/&lt;\/?(details|summary)/);
      const map = readFileSync(join(folder, 'site/.vitepress/dist/sitemap.xml'), 'utf8');
      expect(map).toContain('https://docs.example.com/tutorial');
    },
    INSTALL_TIMEOUT_MS,
  );

  test('has a page for each error code, which the tables of codes lead to', ({ skip }) => {
    if (!isInstalled) skip('npm reaches no registry');
    const codes = explainedCodes().map(({ code }) => code);
    expect(codes.length).toBeGreaterThan(400);
    const withoutPage = codes.filter((code) => !built(`errors/${code.toLowerCase()}`).includes(code));
    expect(withoutPage).toEqual([]);
    const page = built('errors/pgrst205');
    expect(page).toContain('svc explain PGRST205');
    const { means, repair } = readExplanation('PGRST205');
    for (const text of [means, repair]) expect(plainText(page)).toContain(text);
    expect(built('errors')).toMatch(/href="\.\/errors\/pgrst205"/);
    expect(built('migrations')).toMatch(/href="\.\/errors\/mig-202"/);
    // Two that differ in capital letters only.
    expect(plainText(built('errors/aborted'))).toMatch(/Aborted, from .*aborted, from/s);
  });

  test.skipIf(!hasChromium())(
    'is read in the order of its index, and searched, with folded keys',
    async ({ skip }) => {
      if (!isInstalled) skip('npm reaches no registry');
      const server = await serve(join(folder, 'site/.vitepress/dist'));
      const chromium = await openChromium();
      try {
        const page = await chromium.browser.newPage({ viewport: { width: 1300, height: 800 } });
        const complaints: string[] = [];
        page.on('pageerror', (error) => complaints.push(String(error)));
        await page.goto(`http://localhost:${(server.address() as AddressInfo).port}/tutorial.html`);
        await page.getByRole('heading', { level: 1, name: /ten minutes/ }).waitFor();
        await page.getByRole('link', { name: /Next page/ }).click();
        await page.getByRole('heading', { level: 1, name: 'The package' }).waitFor();
        await page.getByRole('button', { name: 'Search' }).click();
        await page.getByRole('searchbox').fill('resumable');
        await page.getByRole('listbox').getByText('Storage', { exact: false }).first().waitFor();
        await page.getByRole('searchbox').fill('opclass_options');
        await page
          .getByRole('listbox')
          .getByText('tables.<name>.indexes[].columns[].opclass_options')
          .click();
        await page.locator('[id="tables.indexes.columns.opclass_options"]').waitFor({ state: 'visible' });
        // On the same page, the browser opens no fold by itself.
        await page.getByRole('button', { name: 'Search' }).click();
        await page.getByRole('searchbox').fill('idle_timeout');
        await page.getByRole('listbox').getByText('database.pool.idle_timeout').click();
        await page.locator('[id="database.pool.idle_timeout"]').waitFor({ state: 'visible' });
        expect(complaints).toEqual([]);
      } finally {
        await chromium.close();
        server.close();
      }
    },
    INSTALL_TIMEOUT_MS,
  );

  test(
    'a link without a target ends the build, and without a repository links to code are text',
    ({ skip }) => {
      if (!isInstalled) skip('npm reaches no registry');
      writeFileSync(join(folder, 'docs/astray.md'), '# Astray\n\n[nowhere](nowhere.md)\n');
      const { status, stdout, stderr } = build();
      expect(status).not.toBe(0);
      // A link to code that stayed a link would be reported as well.
      expect((stdout + stderr).match(/dead link .*/g)).toEqual([expect.stringContaining('nowhere')]);
    },
    INSTALL_TIMEOUT_MS,
  );
});

function readExplanation(code: string): Record<string, string> {
  const line = explainedCodes().find((entry) => entry.code === code);
  if (!line) throw new Error(`${code} is not explained`);
  return asObject(line);
}

function plainText(html: string): string {
  return html
    .replaceAll(/<[^>]+>/g, '')
    .replaceAll('&quot;', '"')
    .replaceAll('&#39;', "'");
}

/** Serves files as a web server does: `/rest` is `rest.html`. */
async function serve(directory: string): Promise<Server> {
  const types: Readonly<Record<string, string>> = {
    js: 'text/javascript',
    css: 'text/css',
    html: 'text/html',
  };
  const files = new Set(readdirSync(directory, { recursive: true, encoding: 'utf8' }));
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url ?? '/', 'http://localhost').pathname).slice(1);
    const file = [path, `${path}.html`].find((candidate) => files.has(candidate)) ?? 'index.html';
    response.setHeader('content-type', types[file.split('.').at(-1) ?? ''] ?? 'application/octet-stream');
    response.end(readFileSync(join(directory, file)));
  });
  await new Promise<void>((resolve) => server.listen(0, 'localhost', resolve));
  return server;
}
