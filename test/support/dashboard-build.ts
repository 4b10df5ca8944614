// The dashboard as it is in this checkout, built before the browser tests unless it is built already.
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'vite';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

export default async function setup(): Promise<void> {
  if (isFresh()) return;
  await build({ root: join(ROOT, 'dashboard'), logLevel: 'warn' });
}

function isFresh(): boolean {
  const builtAt = statSync(join(ROOT, 'dist/dashboard/index.html'), { throwIfNoEntry: false })?.mtimeMs ?? 0;
  return readdirSync(join(ROOT, 'dashboard'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.parentPath.includes('node_modules'))
    .every((entry) => statSync(join(entry.parentPath, entry.name)).mtimeMs <= builtAt);
}
