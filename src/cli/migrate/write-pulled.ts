// Writes the files of `svc migrate pull`: all of them, or none if one would be overwritten.
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { errorCode, ifExists } from '../../lib/error-code.ts';
import { diffLines } from '../../lib/text/line-diff.ts';
import { EXIT, failure } from '../exit.ts';
import type { Terminal } from '../terminal.ts';

/** Writes all files, or none if one exists with other content. Returns the written files. */
export async function writeAll(
  files: ReadonlyArray<readonly [file: string, text: string]>,
  { force }: { readonly force?: true },
  terminal: Terminal,
): Promise<string[]> {
  const found = await Promise.all(
    files.map(async ([file, text]) => {
      const before = await ifExists(readFile(file, 'utf8')).catch(cannot('read', file));
      return { file, text, before };
    }),
  );
  const changed = found.filter(({ text, before }) => before !== text);
  const existing = changed.filter(({ before }) => before !== undefined);
  if (existing.length > 0 && force !== true) {
    for (const { text, before = '' } of existing)
      for (const { sign, text: line } of diffLines(before, text)) terminal.print(`${sign} ${line}`);
    throw failure(
      EXIT.problem,
      `${existing.map(({ file }) => file).join(', ')} already exists with other content: - is the file, ` +
        '+ is the database. No file was written.',
      'Use --force to overwrite it, or --out to write another file.',
    );
  }
  for (const { file, text } of changed) {
    await mkdir(dirname(file), { recursive: true }).catch(cannot('write', file));
    await writeFile(file, text).catch(cannot('write', file));
  }
  return changed.map(({ file }) => file);
}

/** Throws if the folder `tables/` has other files, because the root file includes the whole folder. */
export async function rejectUnknownFiles(directory: string, files: ReadonlySet<string>): Promise<void> {
  const there = (await ifExists(readdir(directory)).catch(cannot('read', directory))) ?? [];
  const unknown = there
    .map((name) => join(directory, name))
    .filter((path) => path.endsWith('.yaml') && !files.has(path));
  if (unknown.length > 0)
    throw failure(
      EXIT.problem,
      `${unknown.join(', ')} already exists and belongs to no table of this database; ` +
        'svc.yaml would include it. No file was written.',
      'Move it away, or choose another folder with --out.',
    );
}

function cannot(action: string, file: string): (error: unknown) => never {
  return (error) => {
    const code = errorCode(error);
    if (code === undefined) throw error;
    throw failure(EXIT.problem, `cannot ${action} ${file}: ${code}`);
  };
}
