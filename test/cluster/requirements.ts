// Checks the requirements of the rig and lists the missing ones.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';

const PROGRAMS: Readonly<Record<string, string>> = {
  ip: 'iproute2',
  setpriv: 'util-linux',
  patroni: 'patroni',
  etcd: 'etcd-server',
  haproxy: 'haproxy',
  pgbouncer: 'pgbouncer',
};
const POSTGRES = '/usr/lib/postgresql/15/bin/postgres';
const PROBE = 'svct-probe';

/** Returns one line, or undefined if nothing is missing. */
export function missing(): string | undefined {
  if (process.platform !== 'linux') return 'network namespaces exist on Linux only';
  if (process.getuid?.() !== 0) return 'network namespaces need root';
  const packages = Object.entries(PROGRAMS)
    .filter(([program]) => !isThere(program))
    .map(([, name]) => name);
  if (!existsSync(POSTGRES)) packages.push('postgresql-15');
  if (packages.length > 0)
    return `not installed: ${packages.join(', ')} (apt-get install; test/cluster/README.md)`;
  return namespaces();
}

const isThere = (program: string): boolean =>
  spawnSync('sh', ['-c', 'command -v "$0"', program], { stdio: 'ignore' }).status === 0;

/** Containers are often root without the right to do this. */
function namespaces(): string | undefined {
  const made = spawnSync('ip', ['netns', 'add', PROBE], { encoding: 'utf8' });
  if (made.status !== 0) return `network namespaces cannot be made here: ${made.stderr.trim()}`;
  const bridge = spawnSync('ip', ['-n', PROBE, 'link', 'add', 'probe', 'type', 'bridge'], {
    encoding: 'utf8',
  });
  spawnSync('ip', ['netns', 'delete', PROBE]);
  return bridge.status === 0 ? undefined : `bridges cannot be made here: ${bridge.stderr.trim()}`;
}
