// `npm run release:directory`, after `npm run release`: svc and the Node that it runs on as one folder and an archive, for this
// machine's platform and servers without npm. PostgreSQL is not in it. Needs npm and tar here; the server needs tar.
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

/** Also through a link, such as /usr/local/bin/svc. */
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

/** The package with what it needs, but for the Node that it would bring where the one at hand is too old. */
function installLibrary(): void {
  mkdirSync(LIBRARY);
  const manifest = {
    private: true,
    dependencies: { svcyaml: tarball('svcyaml') },
    overrides: { '@svcyaml/node': tarball('svcyaml-node') },
  };
  writeFileSync(join(LIBRARY, 'package.json'), JSON.stringify(manifest));
  // By this Node, which the part for older ones does not want.
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
  // What only debuggers read is a sixth of it. A machine without the tool makes a larger folder.
  if (process.platform === 'linux') spawnSync('strip', ['-s', node]);
  const license = join(dirname(dirname(process.execPath)), 'LICENSE');
  if (!existsSync(license)) throw new Error(`the licence of Node is not at ${license}`);
  copyFileSync(license, join(FOLDER, 'LICENSE-node'));
}
