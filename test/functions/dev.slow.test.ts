// Functions under `svc dev` and `svc serve` as real processes: hot reload, installs, bundles, secrets.
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, afterEach, beforeEach, expect, test } from 'vitest';
import { generateApiKeys } from '../../src/identity/api-key.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { runSvc, startSvc, type SvcProcess } from '../support/svc-process.ts';
import { startWorld, until } from './world.ts';

const folder = mkdtempSync(join(tmpdir(), 'svc-fn-dev-'));
let database: TestDatabase;
let svc: SvcProcess | undefined;
beforeEach(async () => {
  database = await createDatabase();
});
afterEach(async () => {
  await svc?.stop();
  svc = undefined;
  await database.drop();
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function project(files: Readonly<Record<string, string>>): {
  root: string;
  config: string;
  write: typeof write;
} {
  const root = mkdtempSync(join(folder, 'p-'));
  function write(more: Readonly<Record<string, string>>): void {
    for (const [path, content] of Object.entries(more)) {
      mkdirSync(dirname(join(root, path)), { recursive: true });
      writeFileSync(join(root, path), content);
    }
  }
  write(files);
  return { root, config: join(root, 'svc.yaml'), write };
}

const call = async (name: string): Promise<{ status: number; text: string }> => {
  const response = await fetch(`${svc?.url}/functions/v1/${name}`);
  return { status: response.status, text: await response.text() };
};

const answers = (name: string, text: string): Promise<boolean> =>
  until(`${name} answers ${text}`, async () => (await call(name)).text === text);

test('dev: reloads changed code, TypeScript and declarations, and shows the location of errors', async () => {
  const { config, write } = project({
    'svc.yaml': 'version: 1\nfunctions:\n  a: { runtime: node, file: functions/a.ts }\n',
    'functions/a.ts':
      "import { word } from './word.ts';\nexport default async (): Promise<object> => ({ body: word });\n",
    'functions/word.ts': "export const word: string = 'one';\n",
  });
  svc = await startSvc({ command: 'dev', config, env: { SVC_DATABASE_URL: database.url } });
  expect((await call('a')).text).toBe('one');

  write({ 'functions/word.ts': "export const word: string = 'second';\n" });
  await answers('a', 'second');

  write({
    'functions/b.js': 'export default async (req, ctx) => ({ body: ctx.env.WHO });',
    'svc.yaml':
      'version: 1\nfunctions:\n  a: { runtime: node, file: functions/a.ts }\n' +
      '  b: { runtime: node, file: functions/b.js, env: { WHO: me } }\n',
  });
  await answers('b', 'me');

  write({ 'functions/a.ts': "\n\nexport default async () => { throw new Error('on purpose'); };\n" });
  await until('the error shows its place', async () => {
    const { status, text } = await call('a');
    return status === 500 && text.includes('on purpose') && /a\.ts:3:\d+/.test(text);
  });

  write({ 'functions/a.ts': 'export default async () => { not a program' });
  await until('the file does not load', async () => (await call('a')).text.includes('function_load_error'));
  // Other functions still work.
  expect((await call('b')).text).toBe('me');

  // A missing file is rejected; the previous version stays in service.
  write({ 'svc.yaml': 'version: 1\nfunctions:\n  b: { runtime: node, file: functions/gone.js }\n' });
  await until('the refusal is printed', () => svc?.output().includes('gone.js'));
  expect((await call('b')).text).toBe('me');
});

test('dev: a source change during a change of svc.yaml does not restore the previous svc.yaml', async () => {
  const a = '  a: { runtime: node, file: functions/a.js }\n';
  const word = (text: string): string => `export const word = '${text}';\n`;
  const { root, config, write } = project({
    'svc.yaml': `version: 1\nfunctions:\n${a}`,
    'functions/a.js': "import { word } from './word.js';\nexport default async () => ({ body: word });\n",
    'functions/word.js': word('one'),
    // Blocks loading until the test continues it, so that the other change comes in between.
    'functions/late.js': `
      import { existsSync, writeFileSync } from 'node:fs';
      const file = (name) => new URL('../' + name, import.meta.url);
      writeFileSync(file('loading'), '');
      while (!existsSync(file('go'))) await new Promise((resolve) => setTimeout(resolve, 10));
      export default async () => ({ body: 'late' });`,
  });
  const env = { SVC_DATABASE_URL: database.url, SVC_LOG_LEVEL: 'debug' };
  svc = await startSvc({ command: 'dev', config, env });
  const changes = (): number => (svc?.output() ?? '').split('the sources of functions changed').length - 1;
  // The watcher also reports once when it is ready.
  await until('the sources are watched', () => changes() > 0);
  write({ 'svc.yaml': `version: 1\nfunctions:\n${a}  late: { runtime: node, file: functions/late.js }\n` });
  await until('the new function is being loaded', () => existsSync(join(root, 'loading')));
  const before = changes();
  write({ 'functions/word.js': word('second') });
  await until('the change is noticed', () => changes() > before);
  write({ go: '' });
  await answers('late', 'late');
  // Queued behind all earlier changes.
  write({ 'functions/word.js': word('third') });
  await answers('a', 'third');
  expect((await call('late')).text).toBe('late');
});

test('dev: a file imported from another folder is watched', async () => {
  const word = (text: string): string => `export const word = '${text}';\n`;
  const { config, write } = project({
    'svc.yaml': 'version: 1\nfunctions:\n  a: { runtime: node, file: src/handlers/a.js }\n',
    'src/handlers/a.js':
      "import { word } from '../../lib/word.js';\nexport default async () => ({ body: word });\n",
    'lib/word.js': "export { word } from './deep/word.js';\n",
    'lib/deep/word.js': word('one'),
    'package.json': '{"type":"module"}',
  });
  svc = await startSvc({ command: 'dev', config, env: { SVC_DATABASE_URL: database.url } });
  await answers('a', 'one');
  write({ 'lib/deep/word.js': word('two') });
  await answers('a', 'two');
  // A new file, written before the file it imports.
  write({
    'src/handlers/a.js':
      "import { word } from '../../other/word.js';\nexport default async () => ({ body: word });\n",
  });
  await until('the error shows', async () => (await call('a')).status === 500);
  write({ 'other/word.js': word('three') });
  await answers('a', 'three');
});

test.each([
  ['in the handler', 'functions/a.js', 'export default async () => (;\n', 'functions/a.js:1'],
  ['further down', 'functions/a.js', '// one\n// two\nexport default async () => {\n', 'functions/a.js:4'],
  [
    'in an import',
    'functions/lib.js',
    'export const word = 1;\nexport const other = ;\n',
    'functions/lib.js:2',
  ],
  ['in TypeScript', 'functions/typed.ts', '\nexport const typed: = 1;\n', 'functions/typed.ts:2'],
  ['in CommonJS', 'functions/old.cjs', '\n\nmodule.exports = (;\n', 'functions/old.cjs:3'],
])('a syntax error %s is reported with file and line', async (_where, broken, text, place) => {
  const world = await startWorld({
    files: {
      'functions/a.js':
        "import './lib.js'; import './typed.ts'; import './old.cjs';\nexport default async () => ({ body: 'ok' });\n",
      'functions/lib.js': '',
      'functions/typed.ts': '',
      'functions/old.cjs': '',
      [broken]: text,
    },
    yaml: '  a: { runtime: node, file: functions/a.js }\n',
    size: 1,
    dev: true,
  });
  try {
    await until('it was loaded', () => world.functions.status().failures.has('a'));
    const said = world.functions.status().failures.get('a') ?? '';
    expect(said).toContain('SyntaxError');
    expect(said).toContain(join(world.folder, place));
    expect((await world.call('a')).json.message).toContain(place);
  } finally {
    await world.close();
  }
});

test('dev: a change of functions/package.json is reported', async () => {
  const { config, write } = project({
    'svc.yaml': 'version: 1\nfunctions:\n  a: { runtime: node, file: functions/a.js }\n',
    'functions/a.js': "export default async () => ({ body: 'ok' });\n",
    'functions/package.json': '{"type":"module"}',
  });
  svc = await startSvc({ command: 'dev', config, env: { SVC_DATABASE_URL: database.url } });
  await answers('a', 'ok');
  write({ 'functions/package.json': '{"type":"module","private":true}' });
  await until('the change is reported', () => svc?.output().includes('restart `svc dev` to install'));
});

test('dev: dependencies are installed from the lockfile, or from package.json without one', async () => {
  const { root, config } = project({
    'svc.yaml': 'version: 1\nfunctions:\n  a: { runtime: node, file: functions/a.js }\n',
    'functions/a.js': "import { packed } from 'pack'; export default async () => ({ body: packed });",
    'functions/package.json': '{"type":"module","dependencies":{"pack":"file:vendor/pack"}}',
    'functions/vendor/pack/package.json':
      '{"name":"pack","version":"1.0.0","type":"module","main":"index.js"}',
    'functions/vendor/pack/index.js': "export const packed = 'installed';",
  });
  svc = await startSvc({ command: 'dev', config, env: { SVC_DATABASE_URL: database.url } });
  expect((await call('a')).text).toBe('installed');
  expect(existsSync(join(root, 'functions/package-lock.json'))).toBe(true);
  await svc.stop();
  rmSync(join(root, 'functions/node_modules'), { recursive: true });
  svc = await startSvc({ command: 'dev', config, env: { SVC_DATABASE_URL: database.url } });
  expect((await call('a')).text).toBe('installed');
});

test('serve: runs a bundle with secrets from the environment, and refuses a wrong hash', async () => {
  const { root, config, write } = project({
    'svc.yaml':
      '# kept\nversion: 1\nfunctions:\n' +
      '  a: { runtime: node, file: functions/a.js, env: { TOKEN: "${SVC_ENV_TOKEN}" } }\n',
    'functions/a.js':
      "export default async (req, ctx) => { console.log('token', ctx.env.TOKEN); " +
      'return { body: { token: ctx.env.TOKEN, env: Object.keys(process.env) } }; };',
    'functions/package.json': '{"type":"module"}',
    'functions/package-lock.json': '{"lockfileVersion":3,"requires":true,"packages":{"":{}}}',
    '.production.env': 'SVC_ENV_TOKEN=from-the-file-000\n',
  });
  const made = await runSvc(['bundle', '--config', config, '--out', 'out/f.tgz']);
  expect(made.output).toContain('functions_bundle written');
  expect(made.code).toBe(0);
  const text = readFileSync(config, 'utf8');
  expect(text).toMatch(/^# kept\n[\s\S]*functions_bundle: "out\/f\.tgz#[0-9a-f]{64}"\n$/);

  // Only svc.yaml and the bundle are on the server.
  const server = mkdtempSync(join(folder, 'server-'));
  cpSync(config, join(server, 'svc.yaml'));
  cpSync(join(root, 'out'), join(server, 'out'), { recursive: true });
  cpSync(join(root, '.production.env'), join(server, '.production.env'));
  const keys = generateApiKeys();
  const env = {
    SVC_DATABASE_URL: database.url,
    SVC_PUBLISHABLE_KEY: keys.publishable,
    SVC_SECRET_KEY: keys.secret,
    SVC_ENV_OTHER: 'canary-other-value',
  };
  svc = await startSvc({ command: 'serve', config: join(server, 'svc.yaml'), arguments: ['--migrate'], env });
  const { text: body } = await call('a');
  expect(JSON.parse(body)).toEqual({ token: 'from-the-file-000', env: [] });
  await until('the line is logged', () => svc?.output().includes('token [redacted]'));
  await svc.stop();
  expect(svc.output()).not.toContain('from-the-file-000');
  expect(svc.output()).not.toContain('canary-other-value');
  svc = undefined;

  write({ 'svc.yaml': text.replace(/#[0-9a-f]{4}/, '#0000') });
  cpSync(config, join(server, 'svc.yaml'));
  const refused = await runSvc(['serve', '--config', join(server, 'svc.yaml'), '--port', '0'], { env });
  expect(refused.code).toBe(78);
  expect(refused.output).toContain('not the one that was built');
});

test('functions new writes a starter that dev serves', async () => {
  const { config, root } = project({ 'svc.yaml': 'version: 1 # kept\n' });
  const made = await runSvc(['functions', 'new', 'greet', '--config', config]);
  expect(made.code).toBe(0);
  expect(readFileSync(config, 'utf8')).toContain('# kept');
  expect(existsSync(join(root, 'functions/greet.js'))).toBe(true);
  svc = await startSvc({ command: 'dev', config, env: { SVC_DATABASE_URL: database.url } });
  expect(await call('greet')).toMatchObject({ status: 200, text: '{"message":"Hello"}' });
});
