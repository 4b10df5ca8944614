// What is kept of a configuration: the same one again, and nothing as soon as anything about it is different.
import assert from 'node:assert/strict';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { EXAMPLES } from '../docs/reference-examples.ts';
import { loadConfig } from '../load.ts';
import type { Mode } from '../mode.ts';
import { LEAST_KEPT_BYTES, loadOrKept, type KeepOptions, type MaybeKept } from './kept-config.ts';

const SECRET = 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbb';
const PASSWORD = 'a-password-of-the-environment';
const PADDING = `# ${'-'.repeat(LEAST_KEPT_BYTES)}\n`;

const directories: string[] = [];
afterEach(() => {
  for (const directory of directories.splice(0)) rmSync(directory, { recursive: true });
});

const SVC_YAML = `${PADDING}version: 1
include: tables/*.yaml
sql: sql/*.sql
providers:
  email: { type: resend, default_from_email: 'Shop <shop@example.com>', api_key: '\${PASSWORD}' }
auth:
  email:
    templates:
      confirm: { subject: 'Welcome to \${NAME:-the shop}', body_file: confirm.html }
functions:
  hello: { runtime: node, file: functions/hello.js, auth_required: false }
seed:
  - name: shop
    rows: { notes: { file: notes.json } }
    objects: { pictures: pictures }
storage:
  pictures: { public: true }
rpc:
  now_text: { returns: { type: text }, body_file: now.sql, auth_required: true }
tables:
  notes:
    fields: [{ name: id, type: bigint, primary_key: true }, { name: price, type: 'numeric(12,2)', default: 1.10 }]
`;

const FILES: Readonly<Record<string, string>> = {
  'svc.yaml': SVC_YAML,
  'tables/rooms.yaml': `tables:\n  rooms:\n    fields: [{ name: id, type: bigint, primary_key: true }]\n    rls: false\n`,
  'tables/empty.yaml': '# nothing yet\n',
  'sql/app.sql': 'create view first as select 1 as n;',
  'confirm.html': '<p>{{ .Token }}</p>',
  'now.sql': 'select now()::text',
  'functions/hello.js': 'export default () => new Response("hello");',
  'notes.json': '[{ "id": 1 }]',
  'pictures/one.txt': 'one',
};

type Project = {
  readonly directory: string;
  readonly write: (path: string, text: string) => void;
  readonly load: (
    given?: Partial<KeepOptions> & { readonly name?: string; readonly mode?: Mode },
  ) => Promise<MaybeKept<string>>;
};

function project(files = FILES): Project {
  const directory = mkdtempSync(join(tmpdir(), 'svc-kept-'));
  directories.push(directory);
  const write = (path: string, text: string): void => {
    mkdirSync(dirname(join(directory, path)), { recursive: true });
    writeFileSync(join(directory, path), text);
  };
  for (const [path, text] of Object.entries(files)) write(path, text);
  return {
    directory,
    write,
    load: async ({ name = 'svc.yaml', mode, ...given } = {}) =>
      await loadOrKept<string>(
        { name, directory, mode, text: readFileSync(join(directory, 'svc.yaml'), 'utf8') },
        { variables: { PASSWORD }, secret: SECRET, ...given },
      ),
  };
}

async function keptOnce(): Promise<Project> {
  const made = project();
  const { loaded, keep } = await made.load();
  expect(loaded, JSON.stringify(loaded).slice(0, 1_000)).toMatchObject({ ok: true });
  keep?.('what follows');
  return made;
}

async function isKept({ load }: Project, given?: Parameters<Project['load']>[0]): Promise<boolean> {
  const { loaded, extra, keep } = await load(given);
  // What is kept is not written again, and a file with mistakes never.
  expect(keep !== undefined).toBe(loaded.ok && extra === undefined);
  return extra === 'what follows';
}

function keptFile(directory: string): string {
  const folder = join(directory, '.svc/kept');
  const [name = ''] = readdirSync(folder);
  return join(folder, name);
}

describe('as long as nothing has changed', () => {
  test('it is what reading the file says, warnings and included files as well', async () => {
    const { directory, load } = await keptOnce();
    const text = readFileSync(join(directory, 'svc.yaml'), 'utf8');
    const again = await load();
    expect(again.extra).toBe('what follows');
    const read = loadConfig({ name: 'svc.yaml', directory, text }, { variables: { PASSWORD } });
    assert(again.loaded.ok && read.ok);
    expect(read.warnings).not.toEqual([]);
    assert.deepStrictEqual(again.loaded, read);
    expect(again.loaded.config.source.text).toBe(read.config.source.text);
  });

  test('every key of the reference is the same', async () => {
    const text = `${PADDING}${Object.values(EXAMPLES).join('\n')}`
      .replace(/^(?:include|sql): .*$/gm, '')
      .replaceAll('body_file:', 'body:')
      .replace('run: steps/split-names.sql', 'sql: select 1')
      .replace('undo: { file: steps/join-names.sql }', 'undo: select 1')
      .replace('{ file: sql/sales_by_day.sql }', 'select 1 as n');
    const variables = Object.fromEntries(
      [...text.matchAll(/\$\{(\w+)\}/g)].map(([, name]) => [name, `of-${name}`]),
    );
    const { directory } = project({ 'svc.yaml': text });
    const source = { name: 'svc.yaml', directory, text };
    const named = loadConfig(source, { variables });
    for (const { message } of named.ok ? [] : named.mistakes) {
      const [, kind, path] = /there is no (file|folder) "?([^" ]+)"?/.exec(message) ?? [];
      if (path === undefined) continue;
      if (kind === 'folder') mkdirSync(join(directory, path), { recursive: true });
      else {
        mkdirSync(dirname(join(directory, path)), { recursive: true });
        writeFileSync(join(directory, path), '');
      }
    }
    const options = { variables, secret: SECRET };
    const first = await loadOrKept<string>(source, options);
    assert(first.loaded.ok, JSON.stringify(first.loaded).slice(0, 2_000));
    first.keep?.('what follows');
    const again = await loadOrKept<string>(source, options);
    expect(again.extra).toBe('what follows');
    assert.deepStrictEqual(again.loaded, first.loaded);
  });
});

describe('it counts for nothing', () => {
  test.each<readonly [what: string, change: (project: Project) => void]>([
    ['another text', ({ write }) => write('svc.yaml', SVC_YAML.replace('1.10', '1.20'))],
    ['an included file', ({ write }) => write('tables/rooms.yaml', `${FILES['tables/rooms.yaml']}# more\n`)],
    ['an included file that said nothing', ({ write }) => write('tables/empty.yaml', 'tables: {}\n')],
    ['one more file of a pattern', ({ write }) => write('tables/more.yaml', 'tables: {}\n')],
    ['a file of a pattern that is gone', ({ directory }) => unlinkSync(join(directory, 'tables/empty.yaml'))],
    ['a statement', ({ write }) => write('sql/app.sql', 'create view second as select 2 as n;')],
    ['one more file of statements', ({ write }) => write('sql/more.sql', '-- Nothing yet.')],
    ['the text of a mail', ({ write }) => write('confirm.html', '<p>{{ .Token }}!</p>')],
    ['the body of a function', ({ write }) => write('now.sql', 'select clock_timestamp()::text')],
    ['the source of a function', ({ write }) => write('functions/hello.js', 'ctx.serviceClient')],
    ['rows that are gone', ({ directory }) => unlinkSync(join(directory, 'notes.json'))],
    ['a folder that is gone', ({ directory }) => rmSync(join(directory, 'pictures'), { recursive: true })],
    [
      'a file that now leads elsewhere',
      ({ directory }) => {
        writeFileSync(join(directory, 'other.html'), FILES['confirm.html'] ?? '');
        unlinkSync(join(directory, 'confirm.html'));
        symlinkSync(join(directory, 'other.html'), join(directory, 'confirm.html'));
      },
    ],
    [
      'what was damaged',
      ({ directory }) => {
        const place = keptFile(directory);
        const bytes = readFileSync(place);
        bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) ^ 1;
        writeFileSync(place, bytes);
      },
    ],
    ['what was cut off', ({ directory }) => writeFileSync(keptFile(directory), 'svc')],
  ])('%s', async (_, change) => {
    const made = await keptOnce();
    expect(await isKept(made)).toBe(true);
    change(made);
    expect(await isKept(made)).toBe(false);
  });

  test('another value of a variable, or one where there was a default', async () => {
    const made = await keptOnce();
    expect(await isKept(made, { variables: { PASSWORD, OTHER: 'x' } })).toBe(true);
    expect(await isKept(made, { variables: { PASSWORD: 'another' } })).toBe(false);
    expect(await isKept(made, { variables: { PASSWORD, NAME: 'Shop' } })).toBe(false);
  });

  test('an overlay that comes, changes or goes; another mode', async () => {
    const made = project();
    const mode = 'production';
    const keep = async (): Promise<void> => (await made.load({ mode })).keep?.('what follows');
    await keep();
    expect(await isKept(made, { mode })).toBe(true);
    expect(await isKept(made, { mode: 'staging' })).toBe(false);
    for (const text of ['server: { port: 1 }', 'server: { port: 2 }']) {
      made.write('svc.production.yaml', text);
      expect(await isKept(made, { mode })).toBe(false);
      await keep();
      expect(await isKept(made, { mode })).toBe(true);
      const { loaded } = await made.load({ mode });
      expect(loaded.ok && loaded.config.source.text).toContain(text.slice(9, -1).trim());
    }
    unlinkSync(join(made.directory, 'svc.production.yaml'));
    expect(await isKept(made, { mode })).toBe(false);
  });

  test('other options, another name, another secret', async () => {
    const made = await keptOnce();
    expect(await isKept(made, { strict: false })).toBe(true);
    expect((await made.load({ strict: true })).loaded.ok).toBe(false);
    expect(await isKept(made, { name: './svc.yaml' })).toBe(false);
    expect(await isKept(made, { secret: `${SECRET}x` })).toBe(false);
  });

  test('moved to another directory', async () => {
    const made = await keptOnce();
    const other = project();
    mkdirSync(join(other.directory, '.svc/kept'), { recursive: true });
    const place = keptFile(made.directory);
    writeFileSync(place.replace(made.directory, other.directory), readFileSync(place));
    expect(await isKept(other)).toBe(false);
  });
});

describe('nothing is kept', () => {
  test('without a secret key, of a small file, of a draft, of a file with mistakes', async () => {
    const { directory, load, write } = project();
    const source = { name: 'svc.yaml', directory, text: SVC_YAML };
    expect((await load({ secret: undefined })).keep).toBeUndefined();
    const drafted = { ...source, drafts: new Map([['tables/rooms.yaml', 'tables: {}']]) };
    expect((await loadOrKept(drafted, { variables: { PASSWORD }, secret: SECRET })).keep).toBeUndefined();
    write('svc.yaml', SVC_YAML.replace(PADDING, ''));
    expect(await load()).toMatchObject({ loaded: { ok: true }, keep: undefined });
    write('svc.yaml', SVC_YAML.replace('version: 1', 'version: 2'));
    expect(await load()).toMatchObject({ loaded: { ok: false }, keep: undefined });
    expect(existsSync(join(directory, '.svc'))).toBe(false);
  });

  test('of files that have changed since they were read', async () => {
    const { directory, load, write } = project();
    const { keep } = await load();
    write('now.sql', 'select 2');
    keep?.('what follows');
    expect(existsSync(join(directory, '.svc'))).toBe(false);
  });

  test('where nothing may be written', async () => {
    const { directory, load } = project();
    writeFileSync(join(directory, '.svc'), 'no folder');
    const { keep: keepAgain } = await load();
    expect(() => keepAgain?.('what follows')).not.toThrow();
    expect((await load()).extra).toBeUndefined();
  });
});

test('nobody else can read it, and no value stands in it', async () => {
  const { directory } = await keptOnce();
  const place = keptFile(directory);
  const bytes = readFileSync(place);
  expect(bytes.includes(PASSWORD)).toBe(false);
  expect(bytes.includes('now_text')).toBe(false);
  if (process.platform !== 'win32') expect(statSync(place).mode & 0o077).toBe(0);
});
