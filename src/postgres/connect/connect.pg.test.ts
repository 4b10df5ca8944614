// Which host is taken, and with which encryption: against a primary, its standby, and TLS on and off.
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chown, copyFile, stat, writeFile, readFile } from 'node:fs/promises';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startFreshCluster, type FreshCluster } from '../../../test/support/peers/fresh-cluster.ts';
import { startStandby, type Standby } from '../../../test/support/peers/standby.ts';
import { parseAddress } from '../address/parse-address.ts';
import { openSession, openWire } from '../connection.ts';
import { NeverSent } from '../pg-error.ts';
import { NoHost } from './host-failure.ts';

let primary: FreshCluster;

beforeAll(async () => {
  primary = await startFreshCluster();
});
afterAll(() => primary.stop());

/** `parameters`: of the address. Runs one statement there. */
async function ask(url: string, parameters: string, text: string): Promise<string> {
  const address = parseAddress(`${url}?${parameters}`, { env: {} });
  const { client } = await openSession({ address, applicationName: 'test' });
  try {
    const { rows } = await client.query<{ answer: string }>(`select (${text})::text as answer`);
    return rows[0]?.answer ?? '';
  } finally {
    await client.end();
  }
}

describe('a primary and its standby', () => {
  let standby: Standby;
  beforeAll(async () => {
    standby = await startStandby(primary.url);
  });
  afterAll(() => standby.stop());

  /** An address of several hosts: by their ports on this machine. */
  const several = (...servers: readonly string[]): string => {
    const url = new URL(primary.url);
    const hosts = servers.map((server) => `127.0.0.1:${new URL(server).port}`);
    return `postgres://${url.username}:${url.password}@${hosts.join()}/postgres`;
  };
  const WHERE = 'pg_is_in_recovery()';

  test.each([
    ['read-write', 'false'],
    ['primary', 'false'],
    ['standby', 'true'],
    ['read-only', 'true'],
    ['prefer-standby', 'true'],
    ['any', 'true'],
  ])('%s, with the standby first', async (attrs, answer) => {
    const url = several(standby.url, primary.url);
    expect(await ask(url, `target_session_attrs=${attrs}`, WHERE)).toBe(answer);
  });

  test('no host has the requested role: the error lists all hosts and their roles', async () => {
    const url = several(standby.url, standby.url);
    const failure = await ask(url, 'target_session_attrs=read-write', WHERE).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(NoHost);
    const { port } = new URL(standby.url);
    expect((failure as NoHost).reasons).toEqual([
      `127.0.0.1:${port}: it is read-only, and read-write is asked for`,
      `127.0.0.1:${port}: it is read-only, and read-write is asked for`,
    ]);
    expect(await ask(several(standby.url), 'target_session_attrs=prefer-standby', WHERE)).toBe('true');
    expect(await ask(several(primary.url), 'target_session_attrs=prefer-standby', WHERE)).toBe('false');
  });
});

const withoutOpenssl =
  spawnSync('openssl', ['version']).status === 0 ? undefined : 'openssl is not installed';

describe.skipIf(withoutOpenssl !== undefined)('TLS', () => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-tls-'));
  const root = join(folder, 'root.crt');
  const stranger = join(folder, 'stranger.crt');
  let dataDirectory = '';
  let allLines = '';

  const superuser = async (...texts: readonly string[]): Promise<void> => {
    const client = new pg.Client({ connectionString: primary.url });
    await client.connect();
    for (const text of texts) await client.query(text);
    await client.end();
  };
  /** Reloads: connections are of this kind from then on. */
  const admit = async (kind: 'host' | 'hostssl' | 'hostnossl'): Promise<void> => {
    const client = new pg.Client({ connectionString: primary.url });
    await client.connect();
    // The one that the test administers with must get in.
    const lines =
      kind === 'host'
        ? allLines
        : `${kind} all tester 127.0.0.1/32 scram-sha-256\nhost all tester 127.0.0.1/32 reject\n${allLines}`;
    await writeFile(join(dataDirectory, 'pg_hba.conf'), lines);
    await client.query('select pg_reload_conf()');
    await expect
      .poll(
        async () =>
          (
            await client.query(
              `select 1 from pg_hba_file_rules where type = '${kind}' and 'tester' = any(user_name)`,
            )
          ).rowCount,
      )
      .toBe(kind === 'host' ? 0 : 1);
    await client.end();
  };

  beforeAll(async () => {
    const key = ['-newkey', 'rsa:2048', '-nodes', '-days', '2'];
    for (const name of ['root', 'stranger']) {
      execFileSync(
        'openssl',
        [
          'req',
          '-x509',
          ...key,
          '-subj',
          `/CN=${name}`,
          '-keyout',
          join(folder, `${name}.key`),
          '-out',
          join(folder, `${name}.crt`),
        ],
        { stdio: 'ignore' },
      );
    }
    execFileSync(
      'openssl',
      [
        'req',
        ...key.slice(0, 3),
        '-subj',
        '/CN=localhost',
        '-keyout',
        join(folder, 'server.key'),
        '-out',
        join(folder, 'server.csr'),
      ],
      { stdio: 'ignore' },
    );
    await writeFile(join(folder, 'names'), 'subjectAltName=DNS:localhost');
    execFileSync(
      'openssl',
      [
        'x509',
        '-req',
        '-days',
        '2',
        '-in',
        join(folder, 'server.csr'),
        '-CA',
        root,
        '-CAkey',
        join(folder, 'root.key'),
        '-CAcreateserial',
        '-extfile',
        join(folder, 'names'),
        '-out',
        join(folder, 'server.crt'),
      ],
      { stdio: 'ignore' },
    );
    const client = new pg.Client({ connectionString: primary.url });
    await client.connect();
    const { rows } = await client.query<{ data_directory: string }>('show data_directory');
    await client.end();
    dataDirectory = rows[0]?.data_directory ?? '';
    const { uid, gid } = await stat(dataDirectory);
    for (const name of ['server.key', 'server.crt']) {
      await copyFile(join(folder, name), join(dataDirectory, name));
      await chown(join(dataDirectory, name), uid, gid);
    }
    await superuser("create role tester login password 'tester'");
    allLines = await readFile(join(dataDirectory, 'pg_hba.conf'), 'utf8');
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const address = (host: string): string =>
    `postgres://tester:tester@${host}:${new URL(primary.url).port}/postgres`;
  const IS_ENCRYPTED = 'select ssl from pg_stat_ssl where pid = pg_backend_pid()';
  /** `tls`, `plain` or `refused`. */
  const outcome = async (parameters: string, host = '127.0.0.1'): Promise<string> =>
    await ask(address(host), parameters, IS_ENCRYPTED).then(
      (isEncrypted) => (isEncrypted === 'true' ? 'tls' : 'plain'),
      () => 'refused',
    );
  const MODES = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'];
  const outcomes = async (): Promise<string[]> => {
    const found: string[] = [];
    for (const mode of MODES) {
      found.push(await outcome(`sslmode=${mode}${mode.startsWith('verify') ? `&sslrootcert=${root}` : ''}`));
    }
    return found;
  };

  test("each sslmode with each kind of server, by libpq's table", async () => {
    expect(await outcomes()).toEqual(['plain', 'plain', 'plain', 'refused', 'refused', 'refused']);
    await superuser('alter system set ssl = on', 'select pg_reload_conf()');
    await expect.poll(() => outcome('sslmode=require')).toBe('tls');
    // The certificate is of localhost, and 127.0.0.1 is another name.
    expect(await outcomes()).toEqual(['plain', 'plain', 'tls', 'tls', 'tls', 'refused']);
    await admit('hostssl');
    expect(await outcomes()).toEqual(['refused', 'tls', 'tls', 'tls', 'tls', 'refused']);
    await admit('hostnossl');
    expect(await outcomes()).toEqual(['plain', 'plain', 'plain', 'refused', 'refused', 'refused']);
    await admit('host');
    expect(await outcome(`sslmode=verify-full&sslrootcert=${root}`, 'localhost')).toBe('tls');
    for (const mode of ['require', 'verify-ca', 'verify-full']) {
      expect(await outcome(`sslmode=${mode}&sslrootcert=${stranger}`, 'localhost')).toBe('refused');
    }
  });

  test.each([
    ['require', 'encrypted'],
    ['disable', 'plain'],
  ])('a cancel of a connection with sslmode=%s is %s', async (mode, kind) => {
    const proxy = await startWatchingProxy(Number(new URL(primary.url).port));
    try {
      const url = new URL(address('127.0.0.1'));
      url.port = String(proxy.port);
      const opened = await openWire({
        address: parseAddress(`${url.href}?sslmode=${mode}`, { env: {} }),
        applicationName: 'test',
      });
      const sleeping = opened.wire
        .run([{ text: 'select pg_sleep(30)', values: [] }])
        .catch((error: unknown) => error);
      // One that comes before the statement has no effect.
      const again = setInterval(() => opened.cancel(() => {}), 100);
      expect(await sleeping).toMatchObject({ code: '57014' });
      clearInterval(again);
      opened.wire.destroy();
      const [, ...cancels] = proxy.firstWords;
      expect(cancels.length).toBeGreaterThan(0);
      expect(new Set(cancels)).toEqual(new Set([kind === 'encrypted' ? SSL_REQUEST : CANCEL_REQUEST]));
    } finally {
      await proxy.close();
    }
  });
});

test('a session that the server ends right after the login is lost before anything is sent on it', async () => {
  const proxy = await startEndingProxy(Number(new URL(primary.url).port));
  try {
    const url = new URL(primary.url);
    url.port = String(proxy.port);
    const opened = await openWire({
      address: parseAddress(`${url.href}?sslmode=disable`, { env: {} }),
      applicationName: 'test',
    });
    expect(opened.wire.usable).toBe(false);
    await expect(opened.wire.run([{ text: 'select 1', values: [] }])).rejects.toBeInstanceOf(NeverSent);
  } finally {
    await proxy.close();
  }
});

const READY = Buffer.from([0x5a, 0, 0, 0, 5, 0x49]);
const ENDED = Buffer.from(
  'SFATAL\0VFATAL\0C57P01\0Mterminating connection\0RProcessInterrupts\0\0',
  'latin1',
);

/** Forwards a login, and closes the session with an error message. */
async function startEndingProxy(to: number): Promise<{ readonly port: number; close(): Promise<void> }> {
  const head = Buffer.from([0x45, 0, 0, 0, 4 + ENDED.length]);
  const server: Server = createServer((client) => {
    const upstream = connect(to, '127.0.0.1');
    client.on('error', () => {}).pipe(upstream);
    upstream
      .on('error', () => {})
      .on('data', (bytes: Buffer) => {
        if (!bytes.subarray(-READY.length).equals(READY)) client.write(bytes);
        else client.end(Buffer.concat([bytes, head, ENDED]), () => upstream.destroy());
      });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    async close() {
      server.close();
      await once(server, 'close');
    },
  };
}

const SSL_REQUEST = 80_877_103;
const CANCEL_REQUEST = 80_877_102;

type WatchingProxy = {
  readonly port: number;
  /** The code of the first packet of each connection. */
  readonly firstWords: number[];
  close(): Promise<void>;
};

async function startWatchingProxy(to: number): Promise<WatchingProxy> {
  const firstWords: number[] = [];
  const server: Server = createServer((client) => {
    const upstream = connect(to, '127.0.0.1');
    client.once('data', (bytes: Buffer) => firstWords.push(bytes.readInt32BE(4)));
    client.pipe(upstream).pipe(client);
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      socket.on('error', () => {});
      socket.on('close', () => other.destroy());
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    firstWords,
    async close() {
      server.close();
      await once(server, 'close');
    },
  };
}
