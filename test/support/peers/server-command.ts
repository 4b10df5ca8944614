// Reads how a server of this machine was started.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

export type ServerCommand = {
  readonly program: string;
  /** Everything behind it. */
  readonly words: readonly string[];
  /** Only its `-c name=value` settings, which also fit another data directory. */
  readonly settings: readonly string[];
};

/** Reads `postmaster.opts`, which has each word in quotes after the program. */
export async function readCommand(dataDirectory: string): Promise<ServerCommand> {
  const opts = await readFile(join(dataDirectory, 'postmaster.opts'), 'utf8');
  const [program = ''] = opts.split(' "', 1);
  const words = Array.from(opts.matchAll(/"((?:[^"\\]|\\.)*)"/g), ([, word = '']) => word);
  const settings = words.flatMap((word, at) => (words[at - 1] === '-c' ? ['-c', word] : []));
  return { program, words, settings };
}
