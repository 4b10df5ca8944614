// Runs at the end of `npm install` in a clone: builds if the build tools are installed. Without them (`--omit=dev`)
// svc runs from its sources, and only the dashboard is missing. Plain JavaScript, so that any Node can run it.
import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';

const { resolve } = createRequire(import.meta.url);
const isThere = (name) => {
  try {
    return resolve(`${name}/package.json`) !== '';
  } catch {
    return false;
  }
};

if (['typescript', 'vite'].every(isThere)) {
  const { status } = spawnSync('npm', ['run', 'build'], {
    stdio: 'inherit',
    shell: process.platform === 'win32',
  });
  process.exitCode = status ?? 1;
} else {
  process.stdout.write(
    'Not built, since the development dependencies are left out: svc runs from its sources, without the dashboard.\n',
  );
}
