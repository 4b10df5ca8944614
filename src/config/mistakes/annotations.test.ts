import { expect, test } from 'vitest';
import { loadConfig } from '../load.ts';
import { annotations } from './annotations.ts';

test('a mistake is an annotation at its line and column', () => {
  const loaded = loadConfig(
    { name: 'svc.yaml', directory: undefined, text: 'version: 1\nproject: { name: x }\ntabels: {}\n' },
    { variables: {} },
  );
  expect(loaded.ok).toBe(false);
  const text = loaded.ok ? '' : annotations(loaded.mistakes, 'api/a,b:c.yaml');
  expect(text).toMatch(/^::error file=api\/a%2Cb%3Ac\.yaml,line=3,col=1,title=[^:]*::.*tabels/m);
});

test('text cannot begin another command', () => {
  const loaded = loadConfig(
    {
      name: 'svc.yaml',
      directory: undefined,
      text: 'version: 1\nproject: { name: x }\n"a\\n::error::100%": 1\n',
    },
    { variables: {} },
  );
  const text = loaded.ok ? '' : annotations(loaded.mistakes, 'svc.yaml');
  expect(text).not.toBe('');
  for (const line of text.split('\n')) expect(line).toMatch(/^::(error|warning) file=/);
});
