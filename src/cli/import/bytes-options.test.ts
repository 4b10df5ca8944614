import { Command } from 'commander';
import { expect, test } from 'vitest';
import { type BytesOptions, openBytesSource, withBytes } from './bytes-options.ts';

function read(...args: string[]): BytesOptions {
  return withBytes(new Command()).parse(args, { from: 'user' }).opts<BytesOptions>();
}

test.each([
  [[], 'the source of the files is missing'],
  [['--api', 'https://a.example', '--s3', 'https://b.example'], '--api and --s3 exclude each other'],
  [['--api', 'https://a.example', '--files', '.'], '--api and --files exclude each other'],
  [['--s3', 'https://a.example', '--files', '.'], '--s3 and a directory exclude each other'],
  [['--api', 'project.supabase.co'], '--api is not a URL: project.supabase.co'],
  [['--s3', 'https://key:hush@s3.example'], '--s3 contains a key'],
  [['--files', '/nowhere/at/all'], 'there is no directory /nowhere/at/all'],
  [['--files', 's3://'], 's3:// has no bucket name'],
  [['--api', 'https://a.example', '--key-env', 'OTHER'], 'OTHER is not set'],
])('%j is misuse', (args, message) => {
  expect(() => openBytesSource(read(...args), {})).toThrow(message);
  expect(() => openBytesSource(read(...args), {})).not.toThrow('hush');
});
