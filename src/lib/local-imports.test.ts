import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { localImports } from './local-imports.ts';

let root = '';
afterEach(() => rmSync(root, { recursive: true, force: true }));

async function reached(files: Readonly<Record<string, string>>, ...start: string[]) {
  root = mkdtempSync(join(tmpdir(), 'svc-imports-'));
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  const found = await localImports(root, start);
  const shown = (paths: readonly string[]): string[] => paths.map((path) => relative(root, path));
  return { files: shown(found.files), missing: shown(found.missing) };
}

test.each([
  ["import { u } from '../lib/u.js';"],
  ['import {\n  u,\n} from "../lib/u.js";'],
  ["import '../lib/u.js';"],
  ["export * from '../lib/u.js';"],
  ["const { u } = await import('../lib/u.js');"],
  ['const { u } = await import(`../lib/u.js`);'],
  ["const { u } = require('../lib/u');"],
  ["import u from '../lib/u.js?raw';"],
  ["readFileSync(new URL('../lib/u.js', import.meta.url));"],
])('%s', async (line) => {
  const { files } = await reached({ 'src/h.js': line, 'lib/u.js': '' }, 'src/h.js');
  expect(files).toEqual(['lib/u.js', 'src/h.js']);
});

test('what is reached reaches further, in rings too, and once each', async () => {
  const { files } = await reached(
    {
      'a/h.ts': "import '../b/one.ts';",
      'b/one.ts': "import '../c/two.mjs'; import './one.ts';",
      'c/two.mjs': "import '../a/h.ts'; import data from '../d/data.json';",
      'd/data.json': '{"not": "./code.js"}',
      'd/code.js': '',
    },
    'a/h.ts',
  );
  expect(files).toEqual(['a/h.ts', 'b/one.ts', 'c/two.mjs', 'd/data.json']);
});

test('the package.json that sets the module type of a file belongs to it', async () => {
  const { files } = await reached(
    { 'package.json': '{}', 'lib/package.json': '{}', 'src/h.js': "import '../lib/u.js'", 'lib/u.js': '' },
    'src/h.js',
  );
  expect(files).toEqual(['lib/package.json', 'lib/u.js', 'package.json', 'src/h.js']);
});

test('nothing outside of the project, and no dependency', async () => {
  const { files, missing } = await reached(
    {
      'src/h.js':
        "import '../../elsewhere.js'; import '../node_modules/x/i.js'; import 'x'; import '/etc/passwd';",
      'node_modules/x/i.js': '',
    },
    'src/h.js',
  );
  expect([files, missing]).toEqual([['src/h.js'], []]);
});

test('missing files are listed separately', async () => {
  const { files, missing } = await reached({ 'src/h.js': "import '../lib/later.js'" }, 'src/h.js');
  expect([files, missing]).toEqual([['src/h.js'], ['lib/later.js']]);
});
