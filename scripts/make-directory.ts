// `npm run release:directory`, after `npm run release`: packs svc and its Node into a folder and an archive for servers
// without npm, for the platform of this machine. PostgreSQL is not included. Needs npm and tar; the server needs tar.
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const RELEASE = resolve(process.argv[2] ?? join(ROOT, 'release'));
const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string };
const NAME = `svc-${version}-${process.platform}-${process.arch}`;
const FOLDER = join(RELEASE, NAME);
const LIBRARY = join(FOLDER, 'lib');

/** Supports a link to the launcher, such as /usr/local/bin/svc. */
const LAUNCHER = `#!/bin/sh
self=$(readlink -f "$0")
home=\${self%/bin/svc}
exec "$home/node" "$home/lib/node_modules/svcyaml/bin/svc.js" "$@"
`;

const tarball = (name: string): string => {
  const path = join(RELEASE, `${name}-${version}.tgz`);
  if (!existsSync(path)) throw new Error(`${path} is not there: npm run release`);
  return `file:${path}`;
};

if (process.platform === 'win32') throw new Error('for Linux and macOS only');
rmSync(FOLDER, { recursive: true, force: true });
mkdirSync(join(FOLDER, 'bin'), { recursive: true });
installLibrary();
copyNode();
writeFileSync(join(FOLDER, 'bin', 'svc'), LAUNCHER, { mode: 0o755 });
execFileSync('tar', ['-czf', `${FOLDER}.tar.gz`, '-C', RELEASE, NAME]);
process.stdout.write(`${FOLDER}\n`);

/** The package with its dependencies, except the fallback Node. */
function installLibrary(): void {
  mkdirSync(LIBRARY);
  const manifest = {
    private: true,
    dependencies: { svcyaml: tarball('svcyaml') },
    overrides: { '@svcyaml/node': tarball('svcyaml-node') },
  };
  writeFileSync(join(LIBRARY, 'package.json'), JSON.stringify(manifest));
  // Runs npm with this Node. The launcher for older versions of Node is not needed here.
  const env = { ...process.env, PATH: `${dirname(process.execPath)}:${process.env['PATH']}` };
  execFileSync('npm', ['install', '--omit=dev', '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd: LIBRARY,
    env,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
}

function copyNode(): void {
  const node = join(FOLDER, 'node');
  copyFileSync(process.execPath, node);
  chmodSync(node, 0o755);
  // Debug symbols are a sixth of the binary. Without `strip` the folder is larger.
  if (process.platform === 'linux') spawnSync('strip', ['-s', node]);
  const license = join(dirname(dirname(process.execPath)), 'LICENSE');
  if (!existsSync(license)) throw new Error(`the licence of Node is not at ${license}`);
  copyFileSync(license, join(FOLDER, 'LICENSE-node'));
}
