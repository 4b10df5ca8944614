// A real S3-compatible store for a test file: OpenStack Swift with its S3 protocol, as Debian packages it, started
// as five processes in a temporary folder. SVC_TEST_S3_ENDPOINT names another store to use instead.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

export type S3Server = {
  readonly endpoint: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  /** A new, empty bucket. */
  createBucket(name: string): Promise<void>;
  stop(): Promise<void>;
};

const PROGRAMS = ['account', 'container', 'object', 'proxy'] as const;
const PACKAGES = 'swift swift-account swift-container swift-object swift-proxy memcached';

/** Without the packages the S3 half of the suite is skipped, unless SVC_TEST_S3 asks that it must run. */
export function s3ServerAvailable(): boolean {
  if (process.env['SVC_TEST_S3_ENDPOINT']) return true;
  const found = existsSync('/usr/bin/swift-proxy-server') && existsSync('/usr/bin/memcached');
  if (!found && process.env['SVC_TEST_S3'] === 'required') {
    throw new Error(`the S3 tests need a store: apt-get install --no-install-recommends ${PACKAGES}`);
  }
  return found;
}

export async function startS3Server(): Promise<S3Server> {
  const given = process.env['SVC_TEST_S3_ENDPOINT'];
  if (given) {
    return store(
      given,
      process.env['SVC_TEST_S3_ACCESS_KEY_ID'] ?? '',
      process.env['SVC_TEST_S3_SECRET_ACCESS_KEY'] ?? '',
      () => Promise.resolve(),
    );
  }
  const folder = await mkdtemp(join(tmpdir(), 'svc-swift-'));
  const children: ChildProcess[] = [];
  const stop = async (): Promise<void> => {
    await Promise.all(
      children.map(async (child) => {
        if (child.exitCode !== null || child.signalCode !== null) return;
        const ended = once(child, 'exit');
        child.kill('SIGKILL');
        await ended;
      }),
    );
    await rm(folder, { recursive: true, force: true });
  };
  try {
    const ports = await freePorts(5);
    const [account = 0, container = 0, object = 0, proxy = 0, cache = 0] = ports;
    await writeConfiguration(folder, { account, container, object, proxy, cache });
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
    const server = store(endpoint, 'test:tester', 'testing', stop);
    // The proxy answers before the servers behind it do.
    await until(async () => {
      await server.createBucket('ready');
      return true;
    });
    return server;
  } catch (error) {
    await stop();
    throw error;
  }
}

function store(
  endpoint: string,
  accessKeyId: string,
  secretAccessKey: string,
  stop: () => Promise<void>,
): S3Server {
  return {
    endpoint,
    accessKeyId,
    secretAccessKey,
    stop,
    async createBucket(name) {
      const { S3Client, CreateBucketCommand } = await import('@aws-sdk/client-s3');
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
    '[swift-hash]\nswift_hash_path_prefix = a\nswift_hash_path_suffix = b\n[storage-policy:0]\nname = default\ndefault = yes\n',
  );
  const common = (port: number): string =>
    `[DEFAULT]\nswift_dir = ${folder}\nbind_ip = 127.0.0.1\nbind_port = ${port}\nworkers = 0\n` +
    `user = ${userInfo().username}\nlog_level = ERROR\n`;
  for (const name of ['account', 'container', 'object'] as const) {
    const builder = join(folder, `${name}.builder`);
    await ring(builder, 'create', '1', '1', '0');
    await ring(builder, 'add', `r1z1-127.0.0.1:${ports[name]}/${device}`, '1');
    await ring(builder, 'rebalance');
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

async function ring(...args: string[]): Promise<void> {
  const child = spawn('/usr/bin/swift-ring-builder', args, { stdio: 'ignore' });
  const [code] = await once(child, 'exit');
  // 1 is a warning, for example that one device is no redundancy.
  if (code !== 0 && code !== 1) throw new Error(`swift-ring-builder ${args[1]} ended with ${String(code)}`);
  await readFile(args[0] ?? '');
}

async function freePorts(count: number): Promise<number[]> {
  const servers = await Promise.all(
    Array.from({ length: count }, async () => {
      const server = createServer().listen(0, '127.0.0.1');
      await once(server, 'listening');
      return server;
    }),
  );
  const ports = servers.map((server) => (server.address() as AddressInfo).port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}

async function until(condition: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + 120_000;
  for (;;) {
    if (await condition().catch(() => false)) return;
    if (Date.now() > deadline) throw new Error('the S3 store did not start');
    await delay(100);
  }
}
