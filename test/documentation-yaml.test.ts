// svc accepts the YAML of the docs. Whole files have no mistakes. Parts of a file, which start at the top level, have
// no unknown keys and no values of a wrong type. Their references may be declared elsewhere.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { loadConfig } from '../src/config/load.ts';
import { readBlocks } from './support/documentation/blocks.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const OF_A_PART = new Set(['unknown-key', 'wrong-type', 'not-a-map', 'duplicate', 'deprecated', 'yaml']);
// A separate test loads the examples of the reference page together.
const PAGES = readdirSync(join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.md') && !name.startsWith('decisions') && name !== 'configuration.md')
  .map((name) => `docs/${name}`);
const BLOCKS = ['README.md', ...PAGES].flatMap((page) => {
  const text = readFileSync(join(ROOT, page), 'utf8');
  return [...text.matchAll(/^```yaml\n(.*?)^```$/gms)].map(({ 1: yaml = '', index }) => ({
    at: `${page}:${text.slice(0, index).split('\n').length}`,
    yaml,
    /** Files whose content the page shows. */
    files: readBlocks(page, text).flatMap(({ file }) => file ?? []),
  }));
});
const TOP_LEVEL =
  /^(?:version|auth|tables|views|rpc|functions|providers|realtime|server|storage|extensions|types|seeds?):/m;

test.each(BLOCKS.filter(({ yaml }) => TOP_LEVEL.test(yaml)))('$at', ({ yaml, files }) => {
  const whole = /^version:/m.test(yaml);
  const mistakes = findMistakes(whole ? yaml : `version: 1\n${yaml}`, whole);
  const isShown = (mistake: string): boolean =>
    mistake.startsWith('missing-file: ') && files.some((file) => mistake.endsWith(` ${file}`));
  expect(mistakes.filter((mistake) => !isShown(mistake))).toEqual([]);
});

test('an unknown key is found', () => {
  expect(findMistakes('version: 1\ntabels: {}\n', false)).toEqual([
    expect.stringMatching(/^unknown-key: .*tabels/),
  ]);
});

function findMistakes(text: string, whole: boolean): string[] {
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
