// Writes what `svc migrate pull` made: all files, or none where one of them would be lost.
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { codeOf, ifExists } from '../../lib/error-code.ts';
import { diffLines } from '../../lib/line-diff.ts';
import { EXIT, failure } from '../exit.ts';
import type { Terminal } from '../terminal.ts';

/** All, or none where one of them is there and says something else; which were written. */
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
  const inTheWay = changed.filter(({ before }) => before !== undefined);
  if (inTheWay.length > 0 && force !== true) {
    for (const { text, before = '' } of inTheWay)
      for (const { sign, text: line } of diffLines(before, text)) terminal.print(`${sign} ${line}`);
    throw failure(
      EXIT.problem,
      `${inTheWay.map(({ file }) => file).join(', ')} is there already and says something else: - is what it says, + what the database has. Nothing was written.`,
      '--force writes over it; --out names another file.',
    );
  }
  for (const { file, text } of changed) {
    await mkdir(dirname(file), { recursive: true }).catch(cannot('write', file));
    await writeFile(file, text).catch(cannot('write', file));
  }
  return changed.map(({ file }) => file);
}

/** The root includes all of `tables/`. */
export async function refuseStrangers(directory: string, files: ReadonlySet<string>): Promise<void> {
  const there = (await ifExists(readdir(directory)).catch(cannot('read', directory))) ?? [];
  const strange = there
    .map((name) => join(directory, name))
    .filter((path) => path.endsWith('.yaml') && !files.has(path));
  if (strange.length > 0)
    throw failure(
      EXIT.problem,
      `${strange.join(', ')}: there already, and of no table of this database; svc.yaml would include it. Nothing was written.`,
      'Move it away, or name another folder with --out.',
    );
}

function cannot(what: string, file: string): (error: unknown) => never {
  return (error) => {
    const code = codeOf(error);
    if (code === undefined) throw error;
    throw failure(EXIT.problem, `cannot ${what} ${file}: ${code}`);
  };
}
