import { Command } from 'commander';
import { expect, test } from 'vitest';
import { suggestOptions } from './suggest-option.ts';

function parseError(command: Command, ...args: readonly string[]): string {
  let text = '';
  command.exitOverride().configureOutput({ writeErr: (more) => void (text += more) });
  suggestOptions(command);
  expect(() => command.parse(args, { from: 'user' })).toThrow();
  return text;
}

const backup = (): Command => new Command('backup').option('--to <place>').option('-c, --config <file>');

test.each([
  ['--out', '--to'],
  ['--output', '--to'],
  ['--target', '--to'],
  ['--file', '--config'],
])('%s of another program suggests %s', (unknown, known) => {
  expect(parseError(backup(), unknown, 'x')).toBe(
    `error: unknown option '${unknown}'\n(Did you mean ${known}?)\n`,
  );
});

test('a misspelled option gets one suggestion, and an unrelated one gets none', () => {
  expect(parseError(backup(), '--confg', 'x').match(/Did you mean/g)).toHaveLength(1);
  expect(parseError(backup(), '--unlike', 'x')).toBe(`error: unknown option '--unlike'\n`);
});
