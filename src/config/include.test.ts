// `include`: a configuration in several files equals the merged one, and mistakes refer to the original files.
import fc from 'fast-check';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { loadConfig, type Loaded } from './load.ts';
import { renderMistakes } from './mistakes/report.ts';
import { scaled } from '../../test/support/run/scaled.ts';

vi.setConfig({ testTimeout: scaled(60_000) });

const directories: string[] = [];
afterEach(() => {
  for (const directory of directories.splice(0)) rmSync(directory, { recursive: true });
});

function write(files: Readonly<Record<string, string>>): string {
  const directory = mkdtempSync(join(tmpdir(), 'svc-include-'));
  directories.push(directory);
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(directory, path)), { recursive: true });
    writeFileSync(join(directory, path), text);
  }
  return directory;
}

function load(files: Readonly<Record<string, string>>): Loaded {
  const text = files['svc.yaml'] ?? '';
  return loadConfig({ name: 'svc.yaml', directory: write(files), text }, { variables: { NAME: 'Shop' } });
}

/** Returns the report of the configuration, without colours. */
function report(files: Readonly<Record<string, string>>): string {
  const { included, ...loaded } = load(files);
  const mistakes = loaded.ok ? loaded.warnings : loaded.mistakes;
  return renderMistakes(mistakes, {
    file: 'svc.yaml',
    text: files['svc.yaml'] ?? '',
    included: included.texts,
  });
}

const table = (name: string): string =>
  `  ${name}:\n    fields: [{ name: id, type: bigint, primary_key: true }]\n` +
  `    rls: [{ operations: [select], using: 'true' }]\n`;

/** Returns the loaded configuration without positions. */
function toModel(loaded: Loaded): unknown {
  if (!loaded.ok) throw new Error(loaded.mistakes.map(({ message }) => message).join('\n'));
  const { source: _source, ...config } = loaded.config;
  return JSON.parse(
    JSON.stringify(config, (key, value: unknown) => {
      if (key === 'position') return undefined;
      return Array.isArray(value) && key === 'tables' ? value.toSorted(byName) : value;
    }),
  );
}

function byName(a: unknown, b: unknown): number {
  const name = (table: unknown): string => String(Reflect.get(Object(table), 'name'));
  return name(a) < name(b) ? -1 : 1;
}

describe('files are merged', () => {
  test('maps are merged by key, patterns in the order of paths, and included files can include others', () => {
    const loaded = load({
      'svc.yaml':
        `version: 1\ninclude: [tables/*.yaml, rest.yaml]\nproject: { name: "\${NAME}" }\n` +
        `migrations: { lock_timeout: 1s, steps: [{ name: a, sql: select 1 }] }\ntables:\n${table('a')}`,
      'tables/c.yaml': `tables:\n${table('c')}`,
      'tables/b.yaml': `tables:\n${table('b')}`,
      'rest.yaml': `include: deep/more.yaml\nextensions: [pg_trgm]`,
      'deep/more.yaml':
        `version: 1\nextensions: [citext]\n` +
        `migrations: { steps: [{ name: b, sql: select 2 }] }\ntables:\n${table('d')}`,
    });
    if (!loaded.ok) throw new Error(loaded.mistakes[0]?.message);
    expect(loaded.config.tables.map(({ name }) => name)).toEqual(['a', 'b', 'c', 'd']);
    expect(loaded.config.extensions.map(({ name }) => name)).toEqual(['pg_trgm', 'citext']);
    expect(loaded.config.migrations.steps.map(({ name }) => name)).toEqual(['a', 'b']);
    expect(loaded.config.project.name).toBe('Shop');
    expect(loaded.config.source.parts).toEqual([
      'tables/b.yaml',
      'tables/c.yaml',
      'rest.yaml',
      'deep/more.yaml',
    ]);
    expect(loaded.included.watched).toEqual([...(loaded.config.source.parts ?? []), 'tables']);
  });

  test('a pattern over all folders skips packages and hidden folders', () => {
    const loaded = load({
      'svc.yaml': `version: 1\ninclude: '**/*.yaml'`,
      'a/b/c.yaml': `tables:\n${table('c')}`,
      'node_modules/x/y.yaml': 'nonsense: 1',
      '.github/z.yaml': 'nonsense: 1',
    });
    expect(loaded.ok ? loaded.config.source.parts : loaded.mistakes).toEqual(['a/b/c.yaml']);
  });

  test('the merged text is equivalent, with expanded anchors and unsubstituted references', () => {
    const files = {
      'svc.yaml': `version: 1\ninclude: part.yaml # the rest\nproject: { name: "\${NAME}" }\ntables:\n${table('a')}`,
      'part.yaml':
        '# Of the shop\ntables:\n  b: &b\n    fields: [{ name: id, type: bigint, primary_key: true }]\n' +
        '    rls: []\n  c:\n    <<: *b\n',
    };
    const loaded = load(files);
    if (!loaded.ok) throw new Error(loaded.mistakes[0]?.message);
    const { text } = loaded.config.source;
    expect(text).toContain('${NAME}');
    expect(text).not.toMatch(/include|[&*]b/);
    expect(toModel(load({ 'svc.yaml': text }))).toEqual(toModel(loaded));
  });

  test('any split gives the same configuration, and mistakes name their file', () => {
    const names = ['a', 'b', 'c', 'd', 'e', 'f'];
    const whole = load({ 'svc.yaml': `version: 1\ntables:\n${names.map(table).join('')}` });
    fc.assert(
      fc.property(fc.array(fc.nat(4), { minLength: 6, maxLength: 6 }), (places) => {
        const part = (number: number): string =>
          names
            .filter((_name, index) => places[index] === number)
            .map(table)
            .join('');
        const files: Record<string, string> = {
          'svc.yaml': `version: 1\ninclude: ["p*.yaml"]\ntables:\n${part(0)}`,
        };
        for (const number of [1, 2, 3, 4]) files[`p${number}.yaml`] = `# ${number}\ntables:\n${part(number)}`;
        expect(toModel(load(files))).toEqual(toModel(whole));
        const wrong = { ...files };
        const victim = `p${places.find((place) => place > 0) ?? 1}.yaml`;
        wrong[victim] = `${files[victim]}\nviews:\n  v: { qeury: select 1 }\n`;
        const line = (wrong[victim] ?? '').split('\n').findIndex((text) => text.includes('qeury')) + 1;
        expect(report(wrong)).toContain(`${victim}:${line}:8 error views.v.qeury`);
      }),
      { numRuns: 40 },
    );
  });
});

describe('mistakes in included files have their place', () => {
  const cases: ReadonlyArray<readonly [string, Readonly<Record<string, string>>, RegExp]> = [
    [
      'a missing file',
      { 'svc.yaml': 'version: 1\ninclude: [tabels.yaml]' },
      /svc\.yaml:2:11 error include\n.*\n.*\^+\n {2}there is no file tabels\.yaml/,
    ],
    [
      'a pattern without files',
      { 'svc.yaml': 'version: 1\ninclude: t/*.yaml' },
      /svc\.yaml:2:10 warning include\n(.*\n)* {2}no file matches t\/\*\.yaml/,
    ],
    [
      'a path outside the directory',
      { 'svc.yaml': 'version: 1\ninclude: ../x.yaml' },
      /\.\.\/x\.yaml is outside the directory/,
    ],
    ['a URL', { 'svc.yaml': 'version: 1\ninclude: https://x.example/a.yaml' }, /is a URL/],
    [
      'a circle',
      {
        'svc.yaml': 'version: 1\ninclude: a.yaml',
        'a.yaml': 'include: b.yaml',
        'b.yaml': 'version: 1\ninclude: a.yaml',
      },
      /b\.yaml:2:10 error include\n(.*\n)* {2}a\.yaml includes itself: a\.yaml → b\.yaml → a\.yaml/,
    ],
    [
      'the same table twice',
      {
        'svc.yaml': `version: 1\ninclude: a.yaml\ntables:\n${table('x')}`,
        'a.yaml': `tables:\n${table('x')}`,
      },
      /a\.yaml:3:5 error tables\.x\.fields\n(.*\n)* {2}tables\.x\.fields is declared .*, first in svc\.yaml:5/,
    ],
    [
      'the same setting twice, even with the same value',
      { 'svc.yaml': 'version: 1\ninclude: a.yaml\nproject: { name: x }', 'a.yaml': 'project: { name: x }' },
      /a\.yaml:1:12 error project\.name/,
    ],
    [
      'invalid YAML',
      { 'svc.yaml': 'version: 1\ninclude: a.yaml', 'a.yaml': 'tables:\n  - [' },
      /^a\.yaml:2:\d+ error/,
    ],
    [
      'an unset variable',
      { 'svc.yaml': 'version: 1\ninclude: a.yaml', 'a.yaml': '\nproject: { name: "${NONE}" }' },
      /^a\.yaml:2:19 error project\.name/,
    ],
    [
      'a reference to an unknown table',
      {
        'svc.yaml': 'version: 1\ninclude: a.yaml',
        'a.yaml':
          'tables:\n  x:\n    rls: []\n    fields:\n      - { name: id, type: bigint, primary_key: true }\n' +
          '      - { name: y, foreign_key: { references: nowhere.id } }',
      },
      /^a\.yaml:6:\d+ error tables\.x\.fields\[1\]/,
    ],
  ];
  test.each(cases)('%s', (_what, files, expected) => {
    expect(report(files)).toMatch(expected);
  });

  test('a link to a file outside the directory', () => {
    const directory = write({ 'in/svc.yaml': '', 'out.yaml': 'project: { name: secret }' });
    symlinkSync('../out.yaml', join(directory, 'in/a.yaml'));
    const loaded = loadConfig(
      { name: 'svc.yaml', directory: join(directory, 'in'), text: 'version: 1\ninclude: a.yaml' },
      { variables: {} },
    );
    expect(loaded.ok ? [] : loaded.mistakes).toMatchObject([
      { message: 'a.yaml is a link to a file outside the directory of svc.yaml' },
    ]);
  });

  test('a link within the directory, such as those of a mounted ConfigMap, is followed', () => {
    const directory = write({ '..2026_01/a.yaml': 'project: { name: Shop }' });
    symlinkSync('..2026_01/a.yaml', join(directory, 'a.yaml'));
    const loaded = loadConfig(
      { name: 'svc.yaml', directory, text: 'version: 1\ninclude: a.yaml' },
      { variables: {} },
    );
    expect(loaded.ok && loaded.config.project.name).toBe('Shop');
  });

  test('a remote configuration cannot include files, and the hint suggests a merged file', () => {
    const loaded = loadConfig(
      { name: 's3://b/svc.yaml', directory: undefined, text: 'version: 1\ninclude: a.yaml' },
      { variables: {} },
    );
    expect(loaded.ok ? [] : loaded.mistakes).toMatchObject([
      { code: 'missing-file', hint: /svc config print/ },
    ]);
  });

  test('more than 200 files, and files deeper than five', () => {
    const many = Object.fromEntries(Array.from({ length: 201 }, (_, n) => [`p/${n}.yaml`, 'tables: {}']));
    const deep = Object.fromEntries(
      Array.from({ length: 7 }, (_, n) => [`${n}.yaml`, `include: ${n + 1}.yaml`]),
    );
    expect(report({ ...many, 'svc.yaml': 'version: 1\ninclude: p/*.yaml' })).toContain('more than 200 files');
    expect(report({ ...deep, 'svc.yaml': 'version: 1\ninclude: 0.yaml' })).toContain('more than 5 levels');
  });
});

test('an item without a colon is a mistake in an included file too', () => {
  const files = {
    'svc.yaml': 'version: 1\ninclude: [tables.yaml]\n',
    'tables.yaml': 'tables: { t: { rls: [{ operations: [select], using: true, a = b }] } }\n',
  };
  expect(report(files)).toContain('"a = b" has no colon');
});
