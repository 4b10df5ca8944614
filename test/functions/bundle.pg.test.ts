// Bundles end to end: `serve` runs exactly what `svc bundle` packed.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, afterEach, expect, test } from 'vitest';
import type { CodeFunction } from '../../src/config/config.ts';
import { buildBundle } from '../../src/functions/sources/bundle.ts';
import { openBundle, storeBundle } from '../../src/functions/sources/bundle-store.ts';
import { createFunction } from '../../src/functions/sources/starter.ts';
import { silentLog } from '../../src/log/log.ts';
import { s3Server, s3ServerAvailable } from '../storage/conformance/s3-server.ts';
import { startWorld, type World } from './world.ts';
import { scaled } from '../support/run/scaled.ts';

const folder = mkdtempSync(join(tmpdir(), 'svc-bundles-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let world: World | undefined;
afterEach(async () => {
  await world?.close();
  world = undefined;
});

const LOCK = '{"lockfileVersion":3,"requires":true,"packages":{"":{}}}';
const NO_STORE = { type: 'local', path: '.svc/storage' } as const;

function project(files: Readonly<Record<string, string>>): string {
  const root = mkdtempSync(join(folder, 'project-'));
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), content);
  }
  return root;
}

const declared = (name: string, file = `functions/${name}.js`): CodeFunction => ({
  name,
  runtime: 'node',
  file,
  http: true,
  authRequired: false,
  timeoutMs: 30_000,
  env: {},
  position: { line: 1, column: 1 },
});

const build = (directory: string, functions: CodeFunction[], verify = true) =>
  buildBundle({ directory, functions, env: process.env, log: silentLog, verify });

const HELLO = {
  'functions/package.json': '{"type":"module"}',
  'functions/package-lock.json': LOCK,
  'functions/hello.js':
    "import { word } from './lib/word.js'; export default async () => ({ body: { word } });",
  'functions/lib/word.js': "export const word = 'bundled';",
};

test('serve runs the bundle, not the sources in the project folder', async () => {
  const root = project(HELLO);
  const built = await build(root, [declared('hello')]);
  world = await startWorld({
    files: { 'functions/hello.js': "export default () => ({ body: { word: 'neighbour' } });" },
  });
  copyFileSync(built.archive, join(world.folder, 'hello.tgz'));
  await built.close();
  const pointer = (sha: string): string =>
    `  hello: { runtime: node, file: functions/hello.js }\nfunctions_bundle: "hello.tgz#${sha}"\n`;
  await world.reload(pointer(built.sha256));
  expect((await world.call('hello')).json).toEqual({ word: 'bundled' });

  const wrong = 'f'.repeat(64);
  await expect(world.reload(pointer(wrong))).rejects.toMatchObject({ code: 'bundle_hash_mismatch' });
  expect((await world.call('hello')).json).toEqual({ word: 'bundled' });

  await expect(
    world.reload(
      `  other: { runtime: node, file: functions/other.js }\nfunctions_bundle: "hello.tgz#${built.sha256}"\n`,
    ),
  ).rejects.toMatchObject({ code: 'function_file_missing' });
});

test('the same sources give the same bytes, independent of place and time', async () => {
  const hashes: string[] = [];
  for (let n = 0; n < 2; n++) {
    const built = await build(project(HELLO), [declared('hello')]);
    const bytes = readFileSync(built.archive);
    expect(createHash('sha256').update(bytes).digest('hex')).toBe(built.sha256);
    hashes.push(built.sha256);
    await built.close();
    expect(existsSync(built.archive)).toBe(false);
  }
  expect(hashes[0]).toBe(hashes[1]);
});

test('a bundle contains sources and TypeScript, no secrets, no links', async () => {
  const root = project({
    ...HELLO,
    'functions/typed.ts': 'const n: number = 1; export default async () => ({ body: { n } });',
    'functions/.env': 'SECRET=canary',
    'functions/.env.local': 'SECRET=canary',
    '.env': 'SECRET=canary',
    'lib/outside.js': `import '../elsewhere/far.js'; const secret = new URL('../.production.env', import.meta.url);
      export default async () => ({ body: {} });`,
    'lib/near.js': 'export {};',
    'elsewhere/far.js': 'export {};',
    'elsewhere/unused.js': 'export {};',
    '.production.env': 'SECRET=canary',
    'svc.yaml': 'version: 1',
  });
  symlinkSync('../.production.env', join(root, 'functions/settings.txt'));
  symlinkSync('../lib/near.js', join(root, 'functions/near.js'));
  const built = await build(root, [
    declared('hello'),
    declared('typed', 'functions/typed.ts'),
    declared('outside', 'lib/outside.js'),
  ]);
  const names = execFileSync('tar', ['tzf', built.archive], { encoding: 'utf8' }).trim().split('\n');
  expect(names).toEqual([
    'elsewhere/far.js',
    'functions/hello.js',
    'functions/lib/word.js',
    'functions/near.js',
    'functions/package-lock.json',
    'functions/package.json',
    'functions/typed.ts',
    'lib/near.js',
    'lib/outside.js',
    'svc-bundle.json',
  ]);
  await built.close();
  symlinkSync('/etc/hostname', join(root, 'functions/host.js'));
  await expect(build(root, [declared('hello')])).rejects.toMatchObject({ code: 'link_outside' });
});

test('a lockfile is required', async () => {
  const root = project(HELLO);
  rmSync(join(root, 'functions/package-lock.json'));
  await expect(build(root, [declared('hello')])).rejects.toMatchObject({ code: 'no_lockfile' });
});

test('a handler that does not load from the bundle is refused', async () => {
  const root = project({
    ...HELLO,
    'functions/hello.js': "import 'not-installed'; export default () => ({});",
  });
  await expect(build(root, [declared('hello')])).rejects.toMatchObject({ code: 'bundle_unloadable' });
  await (await build(root, [declared('hello')], false)).close();
});

test('dependencies come from the lockfile; a lockfile out of sync is refused', async () => {
  const root = project({
    ...HELLO,
    'functions/vendor/pack/package.json':
      '{"name":"pack","version":"1.0.0","type":"module","main":"index.js"}',
    'functions/vendor/pack/index.js': "export const packed = 'yes';",
    'functions/package.json': '{"type":"module","dependencies":{"pack":"file:vendor/pack"}}',
    'functions/package-lock.json': JSON.stringify({
      lockfileVersion: 3,
      requires: true,
      packages: {
        '': { dependencies: { pack: 'file:vendor/pack' } },
        'node_modules/pack': { resolved: 'vendor/pack', link: true },
        'vendor/pack': { name: 'pack', version: '1.0.0' },
      },
    }),
    'functions/hello.js': "import { packed } from 'pack'; export default () => ({ body: { packed } });",
  });
  const built = await build(root, [declared('hello')]);
  const opened = await openBundle(
    await storeBundle(built.archive, built.sha256, 'out/f.tgz', { directory: root, provider: NO_STORE }),
    {
      directory: root,
      provider: NO_STORE,
    },
  );
  expect(existsSync(join(opened.root, 'functions/node_modules/pack/index.js'))).toBe(true);
  await opened.close();
  expect(existsSync(opened.root)).toBe(false);
  await built.close();
  // The project's own node_modules is not touched.
  expect(existsSync(join(root, 'functions/node_modules'))).toBe(false);

  writeFileSync(
    join(root, 'functions/package.json'),
    '{"type":"module","dependencies":{"pack":"file:vendor/pack","more":"1.0.0"}}',
  );
  await expect(build(root, [declared('hello')])).rejects.toMatchObject({ code: 'install_failed' });
});

test('a bundle with add-ons of another platform is refused', async () => {
  const root = project({ ...HELLO, 'functions/addon.node': 'native' });
  const built = await build(root, [declared('hello')]);
  const text = execFileSync('tar', ['xzOf', built.archive, 'svc-bundle.json'], { encoding: 'utf8' });
  expect(JSON.parse(text).platform).toBe(`${process.platform}-${process.arch}`);
  await built.close();
});

test.skipIf(!s3ServerAvailable())(
  'a bundle can be loaded from an S3-compatible store',
  async () => {
    const server = await s3Server();
    await server.createBucket('releases');
    const root = project(HELLO);
    const place = {
      directory: root,
      provider: {
        type: 's3',
        bucket: 'other',
        region: undefined,
        endpoint: server.endpoint,
        accessKeyId: server.accessKeyId,
        secretAccessKey: server.secretAccessKey,
      },
    } as const;
    const built = await build(root, [declared('hello')]);
    const pointer = await storeBundle(built.archive, built.sha256, 's3://releases/todo/f.tgz', place);
    expect(pointer).toBe(`s3://releases/todo/f.tgz#${built.sha256}`);
    await built.close();
    const opened = await openBundle(pointer, place);
    expect(existsSync(join(opened.root, 'functions/hello.js'))).toBe(true);
    await opened.close();
    await expect(openBundle(pointer.replace('f.tgz', 'gone.tgz'), place)).rejects.toMatchObject({
      code: 'bundle_unreachable',
    });
    // The store starts several servers.
  },
  scaled(120_000),
);

test('a new function is declared, comments are kept, and it can be bundled at once', async () => {
  const root = project({ 'svc.yaml': '# mine\nversion: 1 # one\n' });
  const file = join(root, 'svc.yaml');
  expect(createFunction({ file, name: 'first' })).toEqual([
    'functions/first.js',
    'functions/package.json',
    'functions/package-lock.json',
  ]);
  expect(createFunction({ file, name: 'second', language: 'ts', authRequired: true })).toEqual([
    'functions/second.ts',
  ]);
  const text = readFileSync(file, 'utf8');
  expect(text).toBe(`# mine
version: 1 # one

functions:
  first:
    runtime: node
    file: functions/first.js
  second:
    runtime: node
    file: functions/second.ts
    auth_required: true
`);
  expect(() => createFunction({ file, name: 'first' })).toThrow(/exists already/);
  expect(() => createFunction({ file, name: '../x' })).toThrow(/not a function name/);
  const built = await build(root, [declared('first'), declared('second', 'functions/second.ts')]);
  await built.close();
});
