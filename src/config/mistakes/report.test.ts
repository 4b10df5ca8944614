import { stripVTControlCharacters } from 'node:util';
import { describe, expect, test } from 'vitest';
import { loadConfig } from '../load.ts';
import { renderMistakes } from './report.ts';
import { closest, editDistance } from '../../lib/text/closest-word.ts';

function report(text: string, color = false): string {
  const loaded = loadConfig({ name: 'svc.yaml', directory: undefined, text }, { variables: {} });
  return renderMistakes(loaded.ok ? loaded.warnings : loaded.mistakes, { file: 'svc.yaml', text, color });
}

describe('a report masks secrets that are written in the file', () => {
  const email = 'type: resnd, default_from_email: a@b.c';
  test.each([
    ['next to the mistake', `providers: { email: { api_key: re_hunter2, ${email} } }`],
    ['in quotes', `providers: { email: { "api_key": "re_hunter2, x", ${email} } }`],
    [
      'under a misspelt key',
      `providers: { email: { api_keyy: re_hunter2, type: ses, default_from_email: a@b.c } }`,
    ],
    ['as the mistake itself', `providers: { email: { api_key: [re_hunter2], ${email} } }`],
    ['in a URL', `providers: { email: { url: "smtp://me:hunter2@host", ${email} } }`],
    [
      'for S3',
      'providers: { storage: { type: s4, s3: { bucket: b, access_key_id: hunter2, secret_access_key: hunter2 } } }',
    ],
    ['for a code function', 'functions: { f: { runtime: node, file: f.js, env: { A: [hunter2] } } }'],
  ])('%s', (_what, line) => {
    const text = `version: 1\n${line}`;
    expect(report(text)).toMatch(/svc\.yaml:2:\d+ error/);
    expect(report(text)).not.toContain('hunter2');
  });

  test('the caret stays under the mistake, and other values stay readable', () => {
    const text =
      'version: 1\nproviders: { email: { api_key: re_hunter2, type: resnd, default_from_email: a@b.c } }';
    expect(report(text)).toContain(
      [
        '  2 | providers: { email: { api_key: ••••••••••, type: resnd, default_from_email: a@b.c } }',
        '    |                                                  ^^^^^',
      ].join('\n'),
    );
    expect(report('version: 1\nauth: { refresh_tokens: true, jwt_expiry: x }')).toContain(
      'refresh_tokens: true',
    );
    expect(report('version: 1\nproviders: { email: { api_key: "${KEY}", type: x } }')).toContain('"${KEY}"');
  });
});

test('only the section around the mistake is shown of a long line', () => {
  const text = `version: 1\nproject: { name: ${'x'.repeat(1000)}, nam: 1, description: ${'y'.repeat(1000)} }`;
  const [, line = '', caret = ''] = report(text).split('\n');
  expect(line.length).toBeLessThan(200);
  expect(line.slice(caret.indexOf('^'), caret.lastIndexOf('^') + 1)).toBe('nam');
});

test('colour is added on request and changes nothing else', () => {
  const text = 'version: 1\nserver: { prot: 1 }';
  const colored = report(text, true);
  expect(colored).toContain('\u001b[31m');
  expect(stripVTControlCharacters(colored)).toBe(report(text));
});

test('only the first hundred of very many mistakes are shown, quickly', () => {
  const keys = Array.from({ length: 30_000 }, (_, n) => `key${n}: 1`).join('\n');
  const before = process.cpuUsage();
  const blocks = report(`version: 1\n${keys}`).split('\n\n');
  const { user, system } = process.cpuUsage(before);
  expect((user + system) / 1_000).toBeLessThan(15_000);
  expect(blocks).toHaveLength(101);
  expect(blocks.at(-1)).toMatch(/only the first 100 mistakes/);
});

test('words are similar if they differ by a typing error', () => {
  expect(editDistance('kitten', 'sitting')).toBe(3);
  expect(editDistance('tabels', 'tables')).toBe(1);
  const known = ['tables', 'storage', 'rpc', 'id'];
  expect(
    ['tabels', 'Tables', 'strage', 'rcp', 'ids', 'x', 'functions', 'a'.repeat(1e6)].map((word) =>
      closest(word, known),
    ),
  ).toEqual(['tables', 'tables', 'storage', 'rpc', 'id', undefined, undefined, undefined]);
});
