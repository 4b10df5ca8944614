// An S3-compatible store: OpenStack Swift with its S3 protocol from Debian packages, started as five processes in a
// temporary folder once per test run. SVC_TEST_S3_ENDPOINT selects another store.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from '../../../src/lib/free-port.ts';

type Store = {
  readonly endpoint: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
};

export type S3Server = Store & {
  /** Creates a bucket. All test files share the store, so each uses its own names. */
  createBucket(name: string): Promise<void>;
};

export type RunningStore = { readonly store: Store; readonly stop: () => Promise<void> };

const PROGRAMS = ['account', 'container', 'object', 'proxy'] as const;
const ATTEMPTS = 3;
const PACKAGES = 'swift swift-account swift-container swift-object swift-proxy memcached';

/** Whether the S3 tests can run. They are skipped without the packages, unless SVC_TEST_S3 requires them. */
export function s3ServerAvailable(): boolean {
  if (process.env['SVC_TEST_S3_ENDPOINT']) return true;
  const found = existsSync('/usr/bin/swift-proxy-server') && existsSync('/usr/bin/memcached');
  if (!found && process.env['SVC_TEST_S3'] === 'required') {
    throw new Error(`the S3 tests need a store: apt-get install --no-install-recommends ${PACKAGES}`);
  }
  return found;
}

/** Returns the store of this run, and starts it on first use. */
export async function s3Server(): Promise<S3Server> {
  const { inject } = await import('vitest');
  const response = await fetch(inject('s3StoreUrl'));
  if (!response.ok) throw new Error(await response.text());
  return withBuckets((await response.json()) as Store);
}

/** Called once per run, by `test/support/peers/s3-store.ts`. */
export async function startStore(): Promise<RunningStore> {
  const given = process.env['SVC_TEST_S3_ENDPOINT'];
  if (given) {
    const store = {
      endpoint: given,
      accessKeyId: process.env['SVC_TEST_S3_ACCESS_KEY_ID'] ?? '',
      secretAccessKey: process.env['SVC_TEST_S3_SECRET_ACCESS_KEY'] ?? '',
    };
    return { store, stop: () => Promise.resolve() };
  }
  for (let attempt = 1; ; attempt++) {
    try {
      return await startSwift();
    } catch (error) {
      // Another program may have taken a port between its choice and its use.
      if (attempt === ATTEMPTS) throw error;
    }
  }
}

async function startSwift(): Promise<RunningStore> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-swift-'));
  const children: ChildProcess[] = [];
  const stop = async (): Promise<void> => {
    await Promise.all(
      children.map(async (child) => {
        if (hasEnded(child)) return;
        const ended = once(child, 'exit');
        child.kill('SIGKILL');
        await ended;
      }),
    );
    await rm(folder, { recursive: true, force: true });
  };
  const until = async (condition: () => Promise<boolean>): Promise<void> => {
    const deadline = Date.now() + scaled(120_000);
    while (!(await condition().catch(() => false))) {
      const ended = children.find(hasEnded);
      if (ended) throw new Error(`the S3 store did not start: ${ended.spawnargs.join(' ')} ended`);
      if (Date.now() > deadline) throw new Error('the S3 store did not start');
      await delay(100);
    }
  };
  try {
    const ports = new Set<number>();
    while (ports.size < 5) ports.add(await freePort());
    const [account = 0, container = 0, object = 0, proxy = 0, cache = 0] = ports;
    const named = { account, container, object, proxy, cache };
    await Promise.all([writeConfiguration(folder, named), buildRings(folder, named)]);
    const user = userInfo();
    const run = (program: string, args: readonly string[]): void => {
      children.push(spawn(program, args, { stdio: 'ignore' }));
    };
    const asRoot = user.uid === 0 ? ['-u', 'root'] : [];
    run('/usr/bin/memcached', [...asRoot, '-l', '127.0.0.1', '-p', String(cache), '-m', '16']);
    for (const name of PROGRAMS) {
      run('/usr/bin/python3', [`/usr/bin/swift-${name}-server`, join(folder, `${name}.conf`)]);
    }
    const endpoint = `http://127.0.0.1:${proxy}`;
    await until(async () => (await fetch(`${endpoint}/healthcheck`)).ok);
    const store = { endpoint, accessKeyId: 'test:tester', secretAccessKey: 'testing' };
    // The proxy answers before the servers behind it.
    await until(async () => {
      await withBuckets(store).createBucket('ready');
      return true;
    });
    return { store, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}

function withBuckets(store: Store): S3Server {
  return {
    ...store,
    async createBucket(name) {
      const { S3Client, CreateBucketCommand } = await import('@aws-sdk/client-s3');
      const { endpoint, accessKeyId, secretAccessKey } = store;
      const client = new S3Client({
        endpoint,
        region: 'us-east-1',
        forcePathStyle: true,
        credentials: { accessKeyId, secretAccessKey },
      });
      await client.send(new CreateBucketCommand({ Bucket: name }));
      client.destroy();
    },
  };
}

type Ports = Record<(typeof PROGRAMS)[number] | 'cache', number>;

async function writeConfiguration(folder: string, ports: Ports): Promise<void> {
  const device = 'd1';
  await mkdir(join(folder, 'devices', device), { recursive: true });
  await writeFile(
    join(folder, 'swift.conf'),
    '[swift-hash]\nswift_hash_path_prefix = a\nswift_hash_path_suffix = b\n[storage-policy:0]\n' +
      'name = default\ndefault = yes\n',
  );
  const common = (port: number): string =>
    `[DEFAULT]\nswift_dir = ${folder}\nbind_ip = 127.0.0.1\nbind_port = ${port}\nbind_timeout = 1\nworkers = 0\n` +
    `user = ${userInfo().username}\nlog_level = ERROR\n`;
  for (const name of ['account', 'container', 'object'] as const) {
    await writeFile(
      join(folder, `${name}.conf`),
      `${common(ports[name])}devices = ${join(folder, 'devices')}\nmount_check = false\n` +
        `recon_cache_path = ${folder}\ndisable_fallocate = true\n` +
        `[pipeline:main]\npipeline = ${name}-server\n[app:${name}-server]\nuse = egg:swift#${name}\n`,
    );
  }
  const filters = [
    'catch_errors',
    'gatekeeper',
    'healthcheck',
    'listing_formats',
    'bulk',
    'copy',
    'slo',
    'dlo',
  ];
  await writeFile(
    join(folder, 'proxy.conf'),
    `${common(ports.proxy)}[pipeline:main]
pipeline = catch_errors gatekeeper healthcheck cache listing_formats bulk s3api tempauth copy slo dlo proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
${filters.map((name) => `[filter:${name}]\nuse = egg:swift#${name}\n`).join('')}
[filter:cache]
use = egg:swift#memcache
memcache_servers = 127.0.0.1:${ports.cache}
[filter:s3api]
use = egg:swift#s3api
location = us-east-1
dns_compliant_bucket_names = false
[filter:tempauth]
use = egg:swift#tempauth
user_test_tester = testing .admin
`,
  );
}

/** Uses one process: the interpreter takes far longer to start than to build the rings. */
const BUILD_RINGS = `
import sys
from swift.common.ring import RingBuilder
for name, port in (pair.split('=') for pair in sys.argv[2:]):
    builder = RingBuilder(1, 1, 0)
    builder.add_dev({'id': 0, 'region': 1, 'zone': 1, 'ip': '127.0.0.1', 'port': int(port),
                     'replication_ip': '127.0.0.1', 'replication_port': int(port),
                     'device': 'd1', 'weight': 1.0, 'meta': ''})
    builder.rebalance()
    builder.get_ring().save(sys.argv[1] + '/' + name + '.ring.gz')
`;
import { scaled } from '../../support/run/scaled.ts';

async function buildRings(folder: string, ports: Ports): Promise<void> {
  const rings = (['account', 'container', 'object'] as const).map((name) => `${name}=${ports[name]}`);
  const child = spawn('/usr/bin/python3', ['-c', BUILD_RINGS, folder, ...rings], { stdio: 'ignore' });
  const [code] = await once(child, 'exit');
  if (code !== 0) throw new Error(`building the rings ended with ${String(code)}`);
}
