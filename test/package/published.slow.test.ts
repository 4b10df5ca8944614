// The published packages as a user gets them: tarballs installed in an empty folder, and used. They are not in the
// registry, so a project refers to their tarballs.
import { execFileSync, spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createClient } from '@supabase/supabase-js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { freePort } from '../../src/lib/free-port.ts';
import { hasChromium, openChromium } from '../support/browser/chromium.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { readLines } from '../support/documentation/blocks.ts';
import { OF_THE_MACHINE } from '../support/machine-environment.ts';
import { NODE, runSvc, startSvc, type SvcProcess } from '../support/svc-process.ts';
import { scaled } from '../support/run/scaled.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const RELEASE = join(ROOT, 'release');
const MEGABYTE = 1024 * 1024;
const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string };
const tarball = (name: string): string => `file:${join(RELEASE, `${name}-${version}.tgz`)}`;
const INSTALL_TIMEOUT_MS = scaled(300_000);

let folder: string;

beforeAll(() => {
  execFileSync(process.execPath, [join(ROOT, 'scripts/make-release.ts')], { cwd: ROOT, stdio: 'pipe' });
  folder = mkdtempSync(join(tmpdir(), 'svc-published-'));
}, INSTALL_TIMEOUT_MS);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test(
  'a second build has the same bytes and checksums',
  () => {
    const sums = readFileSync(join(RELEASE, 'SHA256SUMS'), 'utf8');
    expect(sums).toMatch(/^[0-9a-f]{64} {2}svcyaml-\d\S*\.tgz$/m);
    execFileSync('sha256sum', ['--check', '--strict', 'SHA256SUMS'], { cwd: RELEASE, stdio: 'pipe' });
    const again = join(folder, 'made-again');
    execFileSync(process.execPath, [join(ROOT, 'scripts/make-release.ts'), again], {
      cwd: ROOT,
      stdio: 'pipe',
    });
    expect(readFileSync(join(again, 'SHA256SUMS'), 'utf8')).toBe(sums);
  },
  INSTALL_TIMEOUT_MS,
);

/** Warnings of npm. */
function install(directory: string, ...options: readonly string[]): string {
  const args = ['install', '--no-audit', '--no-fund', '--loglevel=warn', ...options];
  const { status, stderr } = spawnSync('npm', args, {
    cwd: directory,
    encoding: 'utf8',
    env: OF_THE_MACHINE,
  });
  expect(status, stderr).toBe(0);
  return stderr;
}

/** Returns warnings about our packages. Libraries of pages may require a newer Node, but they run in browsers. */
const aboutUs = (warned: string): string[] =>
  warned.split('\n').filter((line) => /svcyaml|libpg-query|@node-rs/.test(line));

/** A project that has the package and nothing else. */
function makeHome(name: string): string {
  const home = join(folder, name);
  mkdirSync(home);
  const dependencies = { svcyaml: tarball('svcyaml') };
  const optionalDependencies = { '@svcyaml/node': tarball('svcyaml-node') };
  writeFileSync(
    join(home, 'package.json'),
    JSON.stringify({ private: true, type: 'module', dependencies, optionalDependencies }),
  );
  return home;
}

/** Returns the bundled Node for old machines, if there is one. */
const nodesIn = (home: string): string[] =>
  readdirSync(join(home, 'node_modules')).filter((name) => /^node(?:-bin)?-(?:linux|darwin|win)/.test(name));

const PIXEL = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
);
const IMAGE_APP = `version: 1
storage: { pictures: { public: true, rls: [{ operations: [select, insert], check: "true" }] } }
`;

function sizeOnDisk(path: string): number {
  const stats = lstatSync(path);
  if (!stats.isDirectory()) return stats.size;
  return readdirSync(path).reduce((sum, name) => sum + sizeOnDisk(join(path, name)), 0);
}

describe('the package', () => {
  let home: string;
  let launcher: string;
  let database: TestDatabase;
  let svc: SvcProcess | undefined;

  beforeAll(async () => {
    home = makeHome('home');
    expect(install(home)).toBe('');
    launcher = join(home, 'node_modules/svcyaml/bin/svc.js');
    database = await createDatabase();
  }, INSTALL_TIMEOUT_MS);
  afterAll(async () => {
    await svc?.stop();
    await database?.drop();
  });

  test('is small: below 40 MB and 16 packages, PostgreSQL and a Node for old machines left out', () => {
    const modules = join(home, 'node_modules');
    const nodes = nodesIn(home);
    const all = sizeOnDisk(modules) - nodes.reduce((sum, name) => sum + sizeOnDisk(join(modules, name)), 0);
    expect(all / MEGABYTE).toBeLessThan(40);
    const packages = Object.keys(
      (JSON.parse(readFileSync(join(modules, '.package-lock.json'), 'utf8')) as { packages: object })
        .packages,
    );
    expect(packages.filter((name) => existsSync(join(home, name))).length - nodes.length).toBeLessThanOrEqual(
      15,
    );
    expect(sizeOnDisk(join(modules, 'svcyaml')) / MEGABYTE).toBeLessThan(12);
    const machine = execFileSync('node', ['--version'], { encoding: 'utf8', env: OF_THE_MACHINE });
    expect(nodes.length > 0).toBe(Number.parseInt(machine.slice(1), 10) < 22);
  });

  test('a lock file of one Node version installs under another, and adds Node only if required', () => {
    const npm = realpathSync(
      execFileSync('which', ['npm'], { encoding: 'utf8', env: OF_THE_MACHINE }).trim(),
    );
    const again = join(folder, 'again');
    mkdirSync(again);
    for (const file of ['package.json', 'package-lock.json']) cpSync(join(home, file), join(again, file));
    const ci = (command: string, ...args: readonly string[]): void => {
      const { status, stderr } = spawnSync(command, [...args, 'ci', '--no-audit', '--no-fund'], {
        cwd: again,
        encoding: 'utf8',
        env: OF_THE_MACHINE,
      });
      expect([status, stderr]).toEqual([0, '']);
    };
    ci(NODE, npm);
    expect(nodesIn(again)).toEqual([]);
    ci('npm');
    expect(nodesIn(again)).toEqual(nodesIn(home));
  });

  test('without optional packages people sign up, and a transformation is refused with a code', async () => {
    const small = makeHome('small');
    expect(install(small, '--omit=optional')).toBe('');
    expect(sizeOnDisk(join(small, 'node_modules')) / MEGABYTE).toBeLessThan(20);
    writeFileSync(join(small, 'svc.yaml'), IMAGE_APP);
    const database = await createDatabase();
    const running = await startSvc({
      command: 'dev',
      config: join(small, 'svc.yaml'),
      cwd: small,
      launcher: join(small, 'node_modules/svcyaml/bin/svc.js'),
      env: { SVC_DATABASE_URL: database.url },
    });
    try {
      const client = createClient(running.url, running.publishableKey, { auth: { persistSession: false } });
      const credentials = { email: 'ann@example.com', password: 'correct horse battery' };
      expect((await client.auth.signUp(credentials)).error).toBeNull();
      expect((await client.auth.signInWithPassword(credentials)).error).toBeNull();
      const pictures = client.storage.from('pictures');
      expect((await pictures.upload('a.png', PIXEL, { contentType: 'image/png' })).error).toBeNull();
      const { data } = pictures.getPublicUrl('a.png', { transform: { width: 8 } });
      const refused = await fetch(data.publicUrl);
      expect([refused.status, await refused.json()]).toEqual([
        403,
        expect.objectContaining({ code: 'FeatureNotEnabled' }),
      ]);
    } finally {
      await running.stop();
      await database.drop();
    }
  });

  test('has its documentation, schema and licences inside, and nothing of the workshop', () => {
    const inside = readdirSync(join(home, 'node_modules/svcyaml'), { recursive: true, encoding: 'utf8' });
    for (const file of [
      'README.md',
      'LICENSE',
      'CHANGELOG.md',
      'THIRD-PARTY-LICENSES',
      'llms.txt',
      'llms-full.txt',
      'sbom.cdx.json',
      'docs/configuration.md',
      'schema/svc.schema.json',
      'dist/types/package/index.d.ts',
      'deploy/Containerfile',
      'deploy/compose.yaml',
      'deploy/svc.service',
    ])
      expect(inside).toContain(file);
    expect(inside.filter((file) => /\.map$|\.test\.|^src\/|^test\/|^docs\/decisions/.test(file))).toEqual([]);
    const read = (file: string): string => readFileSync(join(home, 'node_modules/svcyaml', file), 'utf8');
    const { components } = JSON.parse(read('sbom.cdx.json')) as { components: { name: string }[] };
    expect(components.map(({ name }) => name)).toEqual(
      expect.arrayContaining(['fastify', 'pg', 'zod', 'yaml']),
    );
    for (const { name } of components) expect(read('THIRD-PARTY-LICENSES')).toContain(`${name} `);
    const listed = [...read('llms.txt').matchAll(/\]\((.+)\): ./g)].map(([, page = '']) => page);
    const pages = inside.filter((file) => /^docs\/.*\.md$/.test(file) && file !== 'docs/index.md');
    expect(listed.toSorted()).toEqual(pages.toSorted());
    for (const page of pages) expect(read('llms-full.txt')).toContain(read(page).trim());
  });

  test(
    'in the project of a user it starts as documented, with its own database',
    async () => {
      const [server = '', postgres = '', init, dev] = readLines('docs/package.md', 'npm install svcyaml');
      // Other users than root run the database.
      chmodSync(folder, 0o755);
      const own = makeHome('own');
      const lines = [
        server.replace('svcyaml', tarball('svcyaml')),
        postgres.replace('@svcyaml/postgres', tarball('svcyaml-postgres')),
        init,
      ];
      execFileSync('bash', ['-e', '-c', lines.join('\n')], { cwd: own, env: OF_THE_MACHINE, stdio: 'pipe' });
      expect(dev).toBe('npx svc dev');
      const running = await startSvc({
        command: 'dev',
        config: join(own, 'svc.yaml'),
        cwd: own,
        launcher: join(own, 'node_modules/svcyaml/bin/svc.js'),
      });
      expect((await fetch(`${running.url}/ready`)).status).toBe(200);
      await running.stop();
    },
    INSTALL_TIMEOUT_MS,
  );

  test.each(['nodenext', 'bundler'])('gives handlers their types (%s)', (resolution) => {
    const directory = join(home, resolution);
    mkdirSync(directory);
    writeFileSync(
      join(directory, 'hello.ts'),
      `import { defineFunction, testFunction, type Context } from 'svcyaml';
export default defineFunction<'PLACE'>(async (req, ctx) => ({
  status: 200, body: { at: ctx.env.PLACE, who: ctx.claims?.sub ?? null, size: req.rawBody.length },
}));
export const answer: Response = await testFunction(defineFunction<'PLACE'>(() => ({})), { env: { PLACE: 'here' } });
// @ts-expect-error the handler has no such variable
void testFunction(defineFunction<'PLACE'>(() => ({})), { env: { NAME: 'Ann' } });
// @ts-expect-error a status is a number
export const wrong = defineFunction(() => ({ status: 'fine' }));
export const name = (ctx: Context): string => ctx.clientAddress;
`,
    );
    const module = resolution === 'bundler' ? 'esnext' : resolution;
    const options =
      '--noEmit --ignoreConfig --strict --exactOptionalPropertyTypes --target es2023 --module ' +
      `${module} --moduleResolution ${resolution} --typeRoots ${join(ROOT, 'node_modules/@types')} ` +
      '--types node';
    const tsc = join(ROOT, 'node_modules/typescript/bin/tsc');
    execFileSync(process.execPath, [tsc, ...options.split(' '), 'hello.ts'], { cwd: directory });
  });

  test('the command line prints its usage and missing parts', async () => {
    const at = { launcher, cwd: home };
    expect((await runSvc(['--version'], at)).output.trim()).toBe(version);
    const made = await runSvc(['init', 'first'], { ...at, env: { npm_command: 'exec' } });
    expect(made.output).toContain('npx svcyaml dev');
    const without = await runSvc(['dev', '--config', 'first/svc.yaml'], at);
    expect(without.output).toMatch(/npm install --save-dev @svcyaml\/postgres/);
    expect(without.code).not.toBe(0);
  });

  test('serves an app to the client library: sign-up, rows, files, SQL, code, page', async () => {
    // Not below the package, as where it is installed for the whole machine.
    const app = join(folder, 'app');
    mkdirSync(join(app, 'functions'), { recursive: true });
    writeFileSync(
      join(app, 'svc.yaml'),
      `version: 1
sql: app.sql
expose: { functions: [twice] }
tables:
  notes:
    fields:
      - { name: id, type: bigserial, primary_key: true }
      - { name: owner, type: uuid, default: { sql: auth.uid() } }
      - { name: text, type: text }
    rls: [{ operations: [select, insert], check: owner = auth.uid() }]
storage:
  pictures: { public: true, rls: [{ operations: [select, insert], check: "true" }] }
functions:
  hello: { runtime: node, file: functions/hello.js }
`,
    );
    writeFileSync(
      join(app, 'app.sql'),
      `create function twice(n int) returns int language sql as 'select n * 2';`,
    );
    writeFileSync(
      join(app, 'functions/hello.js'),
      "import { defineFunction } from 'svcyaml';\n" +
        'export default defineFunction(async (req) => ({ body: { hello: req.query.name } }));',
    );
    svc = await startSvc({
      command: 'dev',
      config: join(app, 'svc.yaml'),
      cwd: app,
      launcher,
      env: { SVC_DATABASE_URL: database.url },
    });
    const client = createClient(svc.url, svc.publishableKey, { auth: { persistSession: false } });
    expect(
      (await client.auth.signUp({ email: 'ann@example.com', password: 'correct horse battery' })).error,
    ).toBeNull();
    expect((await client.from('notes').insert({ text: 'first' }).select('text')).data).toEqual([
      { text: 'first' },
    ]);
    expect((await client.rpc('twice', { n: 21 })).data).toBe(42);
    expect(
      (await client.storage.from('pictures').upload('a.png', PIXEL, { contentType: 'image/png' })).error,
    ).toBeNull();
    const { data } = client.storage.from('pictures').getPublicUrl('a.png', { transform: { width: 8 } });
    expect((await fetch(data.publicUrl)).status).toBe(200);
    const hello = await fetch(`${svc.url}/functions/v1/hello?name=Ann`);
    expect([hello.status, await hello.json()]).toEqual([200, { hello: 'Ann' }]);
    const page = await fetch(`${svc.url}/dashboard/`);
    expect([page.status, /<script/.test(await page.text())]).toEqual([200, true]);
    expect(svc.output()).not.toMatch(/Cannot find (?:module|package)|ERR_MODULE/);
  });
});

test.skipIf(process.platform === 'win32')(
  'the folder for servers without npm: unpacked, it serves with the Node inside',
  async () => {
    execFileSync(process.execPath, [join(ROOT, 'scripts/make-directory.ts')], { cwd: ROOT, stdio: 'pipe' });
    const name = `svc-${version}-${process.platform}-${process.arch}`;
    const server = join(folder, 'server');
    const app = join(server, 'app');
    mkdirSync(join(app, 'functions'), { recursive: true });
    execFileSync('tar', ['-xzf', join(RELEASE, `${name}.tar.gz`), '-C', server]);
    // As an administrator links it, and with nothing else to run.
    const commands = join(server, 'bin');
    mkdirSync(commands);
    symlinkSync(join(server, name, 'bin/svc'), join(commands, 'svc'));
    symlinkSync(execFileSync('which', ['readlink'], { encoding: 'utf8' }).trim(), join(commands, 'readlink'));
    writeFileSync(
      join(app, 'svc.yaml'),
      'version: 1\ntables:\n' +
        '  notes: { rls: [], fields: [{ name: id, type: bigserial, primary_key: true }] }\n' +
        'functions:\n  where: { runtime: node, file: functions/where.js }\n',
    );
    writeFileSync(
      join(app, 'functions/where.js'),
      'export default async () => ({ body: { node: process.execPath } });\n',
    );
    const database = await createDatabase();
    const port = await freePort();
    const keys = {
      SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaaaaaa',
      SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbb',
    };
    const svc = spawn(join(commands, 'svc'), ['serve', '--migrate', '--port', String(port)], {
      cwd: app,
      env: { PATH: commands, SVC_DATABASE_URL: database.url, ...keys },
      stdio: 'pipe',
    });
    let said = '';
    for (const stream of [svc.stdout, svc.stderr])
      stream.on('data', (chunk: Buffer) => (said += chunk.toString()));
    try {
      const url = `http://127.0.0.1:${port}`;
      const headers = { apikey: keys.SVC_PUBLISHABLE_KEY, 'content-type': 'application/json' };
      await expect
        .poll(
          () =>
            fetch(`${url}/ready`).then(
              ({ status }) => status,
              () => said,
            ),
          { timeout: scaled(60_000), interval: 200 },
        )
        .toBe(200);
      const account = await fetch(`${url}/auth/v1/signup`, {
        method: 'POST',
        headers,
        body: JSON.stringify({ email: 'ann@example.com', password: 'correct horse battery' }),
      });
      expect(account.status).toBe(200);
      expect((await fetch(`${url}/rest/v1/notes`, { headers })).status).toBe(200);
      const answer = await fetch(`${url}/functions/v1/where`, { method: 'POST', headers });
      expect(await answer.json()).toEqual({ node: realpathSync(join(server, name, 'node')) });
      svc.kill('SIGTERM');
      expect(await once(svc, 'exit')).toEqual([0, null]);
    } finally {
      if (svc.exitCode === null) svc.kill('SIGKILL');
      await database.drop();
    }
  },
  INSTALL_TIMEOUT_MS,
);

describe('npm create', () => {
  let started: ChildProcess | undefined;
  afterAll(async () => {
    if (!started || started.exitCode !== null) return;
    started.kill('SIGTERM');
    await once(started, 'exit');
  });

  const create = (...args: readonly string[]): string =>
    execFileSync(NODE, [join(RELEASE, 'create-svcyaml/index.js'), ...args], {
      cwd: folder,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
    });

  test('refuses a folder that is not empty, and with --force keeps existing files', () => {
    mkdirSync(join(folder, 'mine'));
    writeFileSync(join(folder, 'mine/svc.yaml'), 'version: 1\n');
    expect(() => create('mine', '--yes', '--no-install')).toThrow(/is not empty/);
    expect(() => create('new', '--yes', '--template', 'nothing')).toThrow(/there is no template nothing/);
    expect(create('mine', '--yes', '--no-install', '--force', '--template', 'minimal')).toContain(
      'kept svc.yaml',
    );
    expect(readFileSync(join(folder, 'mine/svc.yaml'), 'utf8')).toBe('version: 1\n');
    expect(existsSync(join(folder, 'mine/.gitignore'))).toBe(true);
  });

  const readDependencies = (app: string): Readonly<Record<string, string>> =>
    (
      JSON.parse(readFileSync(join(app, 'package.json'), 'utf8')) as {
        dependencies: Readonly<Record<string, string>>;
      }
    ).dependencies;

  test('derives a valid npm name from the folder', () => {
    create('My App', '--yes', '--no-install');
    expect(readFileSync(join(folder, 'My App/package.json'), 'utf8')).toContain('"name": "my-app"');
  });

  test('names packages of the registry, or those of the release in the same folder', () => {
    const elsewhere = join(folder, 'from-the-registry/create-svcyaml');
    cpSync(join(RELEASE, 'create-svcyaml'), elsewhere, { recursive: true });
    for (const [made, expected] of [
      [RELEASE, tarball('svcyaml')],
      [join(folder, 'from-the-registry'), `^${version}`],
    ] as const) {
      const app = mkdtempSync(join(folder, 'made-'));
      execFileSync(NODE, [join(made, 'create-svcyaml/index.js'), app, '--yes', '--no-install']);
      expect(readDependencies(app)['svcyaml']).toBe(expected);
    }
  });

  test.each(['chat', 'documents', 'shop'])('%s is a complete project', (template) => {
    create(template, '--yes', '--no-install', '--template', template);
    const app = join(folder, template);
    const files = readdirSync(app);
    expect(files).toEqual(
      expect.arrayContaining(['.gitignore', 'dev.js', 'package.json', 'src', 'svc.yaml']),
    );
    expect(files.filter((name) => /^_|^node_modules$|^\.svc$|^\.env$/.test(name))).toEqual([]);
    const { name, scripts } = JSON.parse(readFileSync(join(app, 'package.json'), 'utf8')) as {
      readonly name: string;
      readonly scripts: Readonly<Record<string, string>>;
    };
    expect([name, scripts['dev']]).toEqual([template, 'node dev.js']);
    expect(readDependencies(app)).toMatchObject({ svcyaml: tarball('svcyaml'), react: expect.any(String) });
    expect(existsSync(join(RELEASE, 'svcyaml/docs', `${template}.md`))).toBe(true);
  });

  test(
    'what such a project names is there: its file is valid, its types hold, its page is built',
    () => {
      create('whole', '--yes', '--no-install', '--template', 'shop');
      const app = join(folder, 'whole');
      expect(aboutUs(install(app))).toEqual([]);
      for (const [command, ...args] of [['svc', 'validate'], ['tsc'], ['vite', 'build']] as const) {
        const path = `${join(app, 'node_modules/.bin')}:${OF_THE_MACHINE.PATH}`;
        const ran = spawnSync(command, args, {
          cwd: app,
          encoding: 'utf8',
          env: { ...OF_THE_MACHINE, PATH: path },
        });
        expect([ran.status, ran.status === 0 ? '' : ran.stdout + ran.stderr]).toEqual([0, '']);
      }
      expect(existsSync(join(app, 'dist/index.html'))).toBe(true);
    },
    INSTALL_TIMEOUT_MS,
  );

  test(
    'an API: installed without a warning, its tests and types hold, its functions answer, and it is bundled',
    async () => {
      const at = { cwd: folder, encoding: 'utf8', env: OF_THE_MACHINE } as const;
      const args = [join(RELEASE, 'create-svcyaml/index.js'), 'an-api', '--yes', '--template', 'api'];
      const made = spawnSync('node', args, at);
      expect([made.status, made.stderr]).toEqual([0, '']);
      expect(made.stdout).toContain('cd an-api');
      const app = join(folder, 'an-api');
      for (const script of ['test', 'check']) {
        const ran = spawnSync('npm', ['run', script], { ...at, cwd: app });
        expect([ran.status, ran.status === 0 ? '' : ran.stdout + ran.stderr]).toEqual([0, '']);
      }
      const database = await createDatabase();
      const launcher = join(app, 'node_modules/svcyaml/bin/svc.js');
      const env = { SVC_DATABASE_URL: database.url };
      const running = await startSvc({
        command: 'dev',
        config: join(app, 'svc.yaml'),
        cwd: app,
        launcher,
        env,
      });
      try {
        const client = createClient(running.url, running.publishableKey, { auth: { persistSession: false } });
        await client.auth.signUp({ email: 'ann@example.com', password: 'correct horse battery' });
        const ordered = await client.from('orders').insert([
          { item: 'Tea', price: 3 },
          { item: 'Milk', price: 4 },
        ]);
        expect(ordered.error).toBeNull();
        const { data } = await client.functions.invoke('total', { method: 'GET' });
        expect(data).toEqual({ orders: 2, total: 7 });
        expect((await client.from('orders').insert({ item: 'Tea', price: 3, paid: true })).error?.code).toBe(
          '42501',
        );
        const unsigned = await fetch(`${running.url}/functions/v1/payment`, { method: 'POST', body: '{}' });
        expect(unsigned.status).toBe(401);
      } finally {
        await running.stop();
        await database.drop();
      }
      const bundled = await runSvc(['bundle', '--no-write'], { cwd: app, launcher, env });
      expect(bundled).toMatchObject({ code: 0 });
    },
    INSTALL_TIMEOUT_MS,
  );

  test.skipIf(!hasChromium())(
    'a page that works at its first start',
    async () => {
      const [make = '', enter = '', start] = readLines('docs/package.md', 'npm create svcyaml my-app');
      create(...make.replace('npm create svcyaml ', '').split(' '), '--no-install');
      const app = join(folder, enter.replace('cd ', ''));
      expect(start).toBe('npm run dev');
      expect(readFileSync(join(app, 'package.json'), 'utf8')).toContain('"dev": "node dev.js"');
      expect(readDependencies(app)['svcyaml']).toBe(tarball('svcyaml'));
      expect(aboutUs(install(app))).toEqual([]);

      const [api, page] = [await freePort(), await freePort()];
      // As npm runs it, but without npm, which a signal would not pass.
      const path = `${join(app, 'node_modules/.bin')}:${OF_THE_MACHINE.PATH}`;
      const env = { ...OF_THE_MACHINE, PATH: path, VITE_SVC_URL: `http://localhost:${api}`, NO_COLOR: '1' };
      started = spawn('node', ['dev.js', '--port', String(page), '--strictPort'], {
        cwd: app,
        env,
        stdio: 'pipe',
      });
      let said = '';
      started.stdout?.on('data', (chunk: Buffer) => (said += chunk.toString()));
      started.stderr?.on('data', (chunk: Buffer) => (said += chunk.toString()));
      await expect.poll(() => said, { timeout: scaled(120_000) }).toContain(`localhost:${page}`);

      const chromium = await openChromium();
      try {
        const tab = await chromium.browser.newPage();
        await tab.goto(`http://localhost:${page}/`);
        await tab.getByLabel('E-mail').fill('ann@example.com');
        await tab.getByLabel('Password').fill('correct horse battery');
        await tab.getByRole('button', { name: 'Sign up' }).click();
        await tab.getByLabel('New note').fill('Buy milk');
        await tab.getByRole('button', { name: 'Add' }).click();
        const note = tab.getByRole('checkbox', { name: 'Buy milk' });
        await note.click();
        await expect.poll(() => note.isChecked()).toBe(true);
        await tab.reload();
        await expect.poll(() => note.isChecked()).toBe(true);
      } finally {
        await chromium.close();
      }
      started.kill('SIGTERM');
      // Both of its children end with it.
      for (const url of [`http://localhost:${api}/live`, `http://localhost:${page}/`])
        await expect
          .poll(() =>
            fetch(url).then(
              () => 'there',
              () => 'gone',
            ),
          )
          .toBe('gone');
    },
    INSTALL_TIMEOUT_MS,
  );
});
