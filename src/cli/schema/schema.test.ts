// Tests the JSON Schemas that `svc schema` prints.
import { expect, test } from 'vitest';
import { toCommonJsonSchema } from '../../config/schema/common-keys.ts';
import { toJsonSchema } from '../../config/schema/schema.ts';
import { schemaCommand } from './schema.ts';

async function schema(...args: readonly string[]): Promise<unknown> {
  const printed: string[] = [];
  const print = (text: string): void => void printed.push(text);
  const terminal = { color: false, print, printError: print, style: (_: unknown, text: string) => text };
  await schemaCommand(terminal, () => Promise.resolve([])).parseAsync([...args], { from: 'user' });
  return JSON.parse(printed.join('\n'));
}

test('prints the complete schema', async () => {
  expect(await schema()).toEqual(toJsonSchema());
});

test('--common prints the short schema', async () => {
  expect(await schema('--common')).toEqual(toCommonJsonSchema());
});

test('--part makes the version optional in both', async () => {
  for (const args of [['--part'], ['--part', '--common']]) {
    const part = await schema(...args);
    expect(part).not.toHaveProperty('required');
    expect(part).toHaveProperty('properties.version');
  }
});
