// What a page shows of svc.yaml is taken by svc. Whole files have no mistakes; parts of a file, which begin at its top
// level, have no keys that are unknown and no values of a wrong type. What they refer to may be elsewhere.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { loadConfig } from '../src/config/load.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const OF_A_PART = new Set(['unknown-key', 'wrong-type', 'not-a-map', 'duplicate', 'deprecated', 'yaml']);
// Of the page of the reference, the examples are loaded together by its own test.
const PAGES = readdirSync(join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.md') && !name.startsWith('decisions') && name !== 'configuration.md')
  .map((name) => `docs/${name}`);
const BLOCKS = ['README.md', ...PAGES].flatMap((page) => {
  const text = readFileSync(join(ROOT, page), 'utf8');
  return [...text.matchAll(/^```yaml\n(.*?)^```$/gms)].map(({ 1: yaml = '', index }) => ({
    at: `${page}:${text.slice(0, index).split('\n').length}`,
    yaml,
  }));
});
const TOP_LEVEL =
  /^(?:version|auth|tables|views|rpc|functions|providers|realtime|server|storage|extensions|types|seeds?):/m;

test.each(BLOCKS.filter(({ yaml }) => TOP_LEVEL.test(yaml)))('$at', ({ yaml }) => {
  const whole = /^version:/m.test(yaml);
  expect(mistakesOf(whole ? yaml : `version: 1\n${yaml}`, whole)).toEqual([]);
});

test('a key that svc does not know is found', () => {
  expect(mistakesOf('version: 1\ntabels: {}\n', false)).toEqual([
    expect.stringMatching(/^unknown-key: .*tabels/),
  ]);
});

function mistakesOf(text: string, whole: boolean): string[] {
  const names = [...text.matchAll(/\$\{(\w+)\}/g)].map(([, name]) => name ?? '');
  const loaded = loadConfig(
    { name: 'svc.yaml', directory: join(ROOT, 'examples/todo'), text },
    { variables: Object.fromEntries(names.map((name) => [name, `value-of-${name}`])) },
  );
  if (loaded.ok) return [];
  return loaded.mistakes
    .filter(({ code }) => whole || OF_A_PART.has(code))
    .map(({ code, message, path }) => `${code}: ${path.join('.')} ${message}`);
}
