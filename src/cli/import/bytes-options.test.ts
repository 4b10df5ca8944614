import { Command } from 'commander';
import { expect, test } from 'vitest';
import { type BytesOptions, bytesOf, withBytes } from './bytes-options.ts';

function read(...args: string[]): BytesOptions {
  return withBytes(new Command()).parse(args, { from: 'user' }).opts<BytesOptions>();
}

test.each([
  [[], 'Where are the files?'],
  [['--api', 'https://a.example', '--s3', 'https://b.example'], '--api and --s3 are two places'],
  [['--api', 'https://a.example', '--files', '.'], '--api and --files are two places'],
  [['--s3', 'https://a.example', '--files', '.'], '--s3 and a directory are two places'],
  [['--api', 'project.supabase.co'], '--api is no address: project.supabase.co'],
  [['--s3', 'https://key:hush@s3.example'], '--s3 holds a key'],
  [['--files', '/nowhere/at/all'], 'there is no directory /nowhere/at/all'],
  [['--files', 's3://'], 's3:// names no bucket'],
  [['--api', 'https://a.example', '--key-env', 'OTHER'], 'OTHER is not set'],
])('%j is misuse', (args, message) => {
  expect(() => bytesOf(read(...args), {})).toThrow(message);
  expect(() => bytesOf(read(...args), {})).not.toThrow('hush');
});
