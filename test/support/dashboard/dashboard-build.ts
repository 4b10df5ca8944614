// Builds the dashboard of this checkout for the browser tests, unless it is built already.
import { execFile } from 'node:child_process';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

export default async function setup(): Promise<void> {
  if (isFresh()) return;
  // Runs in a separate process: here NODE_ENV is `test`, which would give a different build from the shipped
  // one.
  const vite = join(ROOT, 'node_modules/vite/bin/vite.js');
  const env = { ...process.env, NODE_ENV: 'production' };
  await promisify(execFile)(process.execPath, [vite, 'build', 'dashboard'], { cwd: ROOT, env });
}

function isFresh(): boolean {
  const builtAt = statSync(join(ROOT, 'dist/dashboard/index.html'), { throwIfNoEntry: false })?.mtimeMs ?? 0;
  return readdirSync(join(ROOT, 'dashboard'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.parentPath.includes('node_modules'))
    .every((entry) => statSync(join(entry.parentPath, entry.name)).mtimeMs <= builtAt);
}
