// Node reports a syntax error in an ES module without its place. `node --check`, file by file, finds the place.
import { execFile } from 'node:child_process';
import { localImports } from '../../lib/local-imports.ts';

const MOST_CHECKED = 50;

/** Puts file and line into the stack of such an error, if they can be found. Other errors stay as they are. */
export async function locateSyntaxError(error: unknown, root: string, file: string): Promise<void> {
  if (!(error instanceof SyntaxError) || isLocated(error, root)) return;
  const { files } = await localImports(root, [file]);
  const sources = files.filter((path) => /\.[mc]?js$/.test(path)).slice(0, MOST_CHECKED);
  // The handler itself is the likeliest.
  for (const path of sources.sort((a, b) => Number(b.endsWith(file)) - Number(a.endsWith(file)))) {
    const said = await check(path);
    // Another error is about how the file was checked, not about the file.
    if (!said.includes(error.message)) continue;
    const [place = '', ...excerpt] = said.split(/\n\s*\n/)[0]?.split('\n') ?? [];
    error.stack = `SyntaxError: ${error.message}\n    at ${place}\n${excerpt.join('\n')}`;
    return;
  }
}

function isLocated({ stack = '' }: SyntaxError, root: string): boolean {
  return stack.includes(root) || stack.startsWith('file:');
}

/** What Node prints about a file that it cannot parse; nothing when it can. */
function check(path: string): Promise<string> {
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      ['--check', path],
      { env: {}, timeout: 5_000, windowsHide: true },
      (_failure, _stdout, stderr) => resolve(stderr),
    );
  });
}
