// Browser tests: one `svc dev` on a copy of examples/todo and one Chromium per test file. Every page has a fresh
// profile, and a test fails if its page logged an error, threw, or violated its content security policy.
//
//   const world = dashboardWorld();
//   describe.skipIf(world.skipped)('…', () => {
//     test('…', async () => {
//       const page = await world.open('/tables');
import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import type { BrowserContext, BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect } from 'vitest';
import { createDatabase, type TestDatabase } from '../database.ts';
import { startSvc, type SvcProcess } from '../svc-process.ts';
import { CHROMIUM, hasChromium, openChromium, type Chromium } from './chromium.ts';
import { copyTodoProject, type TodoProject } from '../todo-project.ts';

export type WorldOptions = {
  /** `dev` signs in automatically and may write; `serve` depends on its arguments. */
  readonly command?: 'dev' | 'serve';
  readonly arguments?: readonly string[];
  /** Changes files of the project before svc starts. */
  readonly prepare?: (project: TodoProject) => void | Promise<void>;
};

export type OpenOptions = BrowserContextOptions & {
  /** Console errors that the test expects; a refused request is one. */
  readonly expected?: readonly RegExp[];
};

export type DashboardWorld = {
  readonly skipped: boolean;
  readonly svc: SvcProcess;
  readonly project: TodoProject;
  /** A page of the dashboard in a new profile: `open('/tables?table=public.tips')`. */
  open(path?: string, options?: OpenOptions): Promise<Page>;
  /** Calls the REST API with the secret key; throws on an error. */
  rest(method: string, path: string, body?: unknown): Promise<unknown>;
  /** Creates a confirmed user and returns the id. */
  addUser(email: string): Promise<string>;
  /** Runs statements as the database's superuser. */
  query(sql: string, values?: readonly unknown[]): Promise<Array<Record<string, unknown>>>;
};

const KEYS = {
  SVC_PUBLISHABLE_KEY: 'svc_publishable_browser_tests_0123456789abcdef',
  SVC_SECRET_KEY: 'svc_secret_browser_tests_0123456789abcdef0123',
};

/** Registers the hooks of a test file. The result can be used from `beforeAll` on. */
export function dashboardWorld(options: WorldOptions = {}): DashboardWorld {
  const skipped = !hasChromium();
  let database: TestDatabase | undefined;
  let project: TodoProject | undefined;
  let svc: SvcProcess | undefined;
  let chromium: Chromium | undefined;
  let opened: Opened[] = [];

  beforeAll(async () => {
    if (skipped) {
      console.log(`no ${CHROMIUM}: the browser tests are skipped (Debian's package "chromium" has it)`);
      return;
    }
    database = await createDatabase();
    project = copyTodoProject();
    await options.prepare?.(project);
    svc = await startSvc({
      command: options.command ?? 'dev',
      config: project.config,
      arguments: options.arguments ?? [],
      env: {
        SVC_DATABASE_URL: database.url,
        // `svc dev` would generate its own; the harness needs to know them.
        ...(options.command === 'serve' ? KEYS : {}),
      },
    });
    chromium = await openChromium();
  });

  afterEach(async ({ task }) => {
    const pages = opened;
    opened = [];
    for (const [index, entry] of pages.entries()) {
      if (task.result?.state === 'fail') await keepScreenshot(entry.page, `${task.name} ${index}`);
      await entry.context.close();
    }
    const complaints = pages.flatMap((entry) =>
      entry.complaints.filter((text) => !entry.expected.some((pattern) => pattern.test(text))),
    );
    expect(complaints, 'errors in the console of the page').toEqual([]);
  });

  afterAll(async () => {
    await chromium?.close();
    await svc?.stop();
    project?.remove();
    await database?.drop();
  });

  const started = <T>(thing: T | undefined): T => {
    if (thing === undefined) throw new Error('the world of this file has not started yet');
    return thing;
  };

  return {
    skipped,
    get svc() {
      return started(svc);
    },
    get project() {
      return started(project);
    },
    async open(path = '/', { expected = [], ...contextOptions } = {}) {
      const context = await started(chromium).browser.newContext({
        viewport: { width: 1280, height: 800 },
        reducedMotion: 'reduce',
        ...contextOptions,
      });
      const page = await context.newPage();
      const entry: Opened = { context, page, expected, complaints: [] };
      opened.push(entry);
      page.on('console', (message) => {
        if (message.type() === 'error') entry.complaints.push(`${message.text()} ${message.location().url}`);
      });
      page.on('pageerror', (error) => entry.complaints.push(String(error)));
      // Enforced violations are console errors as well; this also catches report-only ones.
      await page.exposeFunction('svcReportViolation', (text: string) => entry.complaints.push(text));
      await page.addInitScript(() => {
        document.addEventListener('securitypolicyviolation', (event) => {
          Reflect.get(
            window,
            'svcReportViolation',
          )(`content security policy: ${event.violatedDirective} refused ${event.blockedURI}`);
        });
      });
      await page.goto(`${started(svc).url}/dashboard${path === '/' ? '/' : path}`);
      return page;
    },
    async rest(method, path, body) {
      const { url, secretKey } = started(svc);
      const response = await fetch(`${url}/rest/v1/${path}`, {
        method,
        headers: {
          apikey: secretKey,
          authorization: `Bearer ${secretKey}`,
          'content-type': 'application/json',
          prefer: 'return=representation',
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
      return text === '' ? undefined : (JSON.parse(text) as unknown);
    },
    async addUser(email) {
      const { url, secretKey } = started(svc);
      const response = await fetch(`${url}/auth/v1/admin/users`, {
        method: 'POST',
        headers: {
          apikey: secretKey,
          authorization: `Bearer ${secretKey}`,
          'content-type': 'application/json',
        },
        body: JSON.stringify({ email, password: 'correct horse battery', email_confirm: true }),
      });
      const user = (await response.json()) as { id?: string };
      if (user.id === undefined) throw new Error(`no user ${email}: ${JSON.stringify(user)}`);
      return user.id;
    },
    async query(sql, values = []) {
      const client = new pg.Client({ connectionString: started(database).url });
      await client.connect();
      try {
        return (await client.query<Record<string, unknown>>(sql, [...values])).rows;
      } finally {
        await client.end();
      }
    },
  };
}

type Opened = {
  readonly context: BrowserContext;
  readonly page: Page;
  readonly expected: readonly RegExp[];
  readonly complaints: string[];
};

export async function keepScreenshot(page: Page, name: string): Promise<void> {
  const folder = join(tmpdir(), 'svc-browser-failures');
  mkdirSync(folder, { recursive: true });
  const file = join(folder, `${name.replaceAll(/[^\w-]+/g, '-')}.png`);
  const alerts = await page
    .getByRole('alert')
    .allTextContents()
    .catch(() => []);
  if (alerts.length > 0) console.log(`alerts of the page: ${alerts.join(' | ')}`);
  await page.screenshot({ path: file }).then(
    () => console.log(`screenshot of the page: ${file} (${page.url()})`),
    (error: unknown) => console.log(`no screenshot of ${page.url()}: ${String(error)}`),
  );
}

let axe: string | undefined;

/** Fails on findings that axe rates serious or critical, naming the elements. */
export async function expectAccessible(page: Page): Promise<void> {
  axe ??= readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
  // Evaluated through the debugger, because the page's policy would refuse to load it.
  await page.evaluate(axe);
  const violations = await page.evaluate(async () => {
    const run = Reflect.get(window, 'axe') as {
      run(): Promise<{
        violations: Array<{ id: string; impact: string | null; nodes: Array<{ html: string }> }>;
      }>;
    };
    const { violations: found } = await run.run();
    return found
      .filter(
        ({ id, impact }) => impact === 'serious' || impact === 'critical' || id === 'empty-table-header',
      )
      .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 200)).join(' | ')}`);
  });
  expect(violations, `accessibility of ${page.url()}`).toEqual([]);
}
