// Node reports syntax errors in ES modules without a location; `node --check` on each file finds it.
import { execFile } from 'node:child_process';
import { localImports } from '../../lib/local-imports.ts';

const MAX_CHECKED = 50;

/** Adds file and line to the stack of such an error, if found. Other errors stay unchanged. */
export async function locateSyntaxError(error: unknown, root: string, file: string): Promise<void> {
  if (!(error instanceof SyntaxError) || isLocated(error, root)) return;
  const { files } = await localImports(root, [file]);
  const sources = files.filter((path) => /\.[mc]?js$/.test(path)).slice(0, MAX_CHECKED);
  // The handler itself is the most likely place.
  for (const path of sources.sort((a, b) => Number(b.endsWith(file)) - Number(a.endsWith(file)))) {
    const output = await check(path);
    // A different message comes from how the file was checked, not from the error at hand.
    if (!output.includes(error.message)) continue;
    const [place = '', ...excerpt] = output.split(/\n\s*\n/)[0]?.split('\n') ?? [];
    error.stack = `SyntaxError: ${error.message}\n    at ${place}\n${excerpt.join('\n')}`;
    return;
  }
}

function isLocated({ stack = '' }: SyntaxError, root: string): boolean {
  return stack.includes(root) || stack.startsWith('file:');
}

/** Node's report about a file that does not parse; otherwise empty. */
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
