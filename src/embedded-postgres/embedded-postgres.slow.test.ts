// The development PostgreSQL and its failures. Every test has its own folder and stops what it started.
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmod, chown, cp, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { constants, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import pg from 'pg';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createLog, silentLog } from '../log/log.ts';
import { accountNamed, canReach, isRoot } from './account.ts';
import { startEmbeddedPostgres, type EmbeddedPostgres } from './embedded-postgres.ts';
import {
  copyNative,
  findNativePackage,
  createMissingLinks,
  missingLinks,
  readNativePackage,
} from './native-package.ts';
import { isAlive, processesIn } from './process-table.ts';
import { pollUntil } from './postmaster.ts';
import { usableNative } from './usable-native.ts';
import { scaled } from '../../test/support/run/scaled.ts';

type Report =
  | { kind: 'started'; url: string; pid: number }
  | { kind: 'refused'; code: string; message: string; details?: string; hint?: string };

const STARTER = join(import.meta.dirname, '../../test/support/peers/embedded-starter.ts');
// A user other than root, `postgres` and `nobody` that exists on every Linux and macOS.
const STRANGER = (await accountNamed('daemon')) ?? { uid: 1, gid: 1 };
// A checkout below a private folder can be run only by its owner.
const reachableForAll = await canReach(STRANGER, dirname(STARTER));

let project: string;
let dir: string;
let servers: EmbeddedPostgres[];
let starters: ChildProcess[];

beforeEach(async () => {
  project = await mkdtemp(join(tmpdir(), "svc it's a tést "));
  dir = join(project, '.svc');
  servers = [];
  starters = [];
});

afterEach(async () => {
  await Promise.all(servers.map((server) => server.stop()));
  for (const starter of starters) starter.kill('SIGKILL');
  for (const pid of await processesIn(join(dir, 'postgres'))) process.kill(pid, 'SIGKILL');
  await gone(async () => (await processesIn(join(dir, 'postgres'))).length === 0);
  await rm(project, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
});

async function start(at = dir, more: { native?: Awaited<ReturnType<typeof findNativePackage>> } = {}) {
  const server = await startEmbeddedPostgres({ dir: at, log: silentLog, ...more });
  servers.push(server);
  return server;
}

/** Starts the server from another process; resolves with its report. */
async function startElsewhere(as?: {
  uid: number;
  gid: number;
}): Promise<{ starter: ChildProcess; report: Report }> {
  const starter = fork(STARTER, [dir], { execArgv: [], ...as });
  starters.push(starter);
  const report = await new Promise<Report>((resolve, reject) => {
    starter.once('message', (message: Report) => resolve(message));
    starter.once('exit', (code, signal) =>
      reject(new Error(`the starter ended (${signal ?? code}) silently`)),
    );
  });
  return { starter, report };
}

async function ended(starter: ChildProcess, signal?: NodeJS.Signals): Promise<void> {
  const exited = once(starter, 'exit');
  if (signal) starter.kill(signal);
  await exited;
}

const gone = (is: () => Promise<boolean>) =>
  pollUntil(scaled(10_000), async () => ((await is()) ? true : undefined));

/** Checks whether a SIGINT is pending for a stopped process. */
async function isAskedToStop(pid: number): Promise<boolean> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  const pending = /^ShdPnd:\s*([0-9a-f]+)$/m.exec(status)?.[1] ?? '0';
  return (BigInt(`0x${pending}`) & (1n << BigInt(constants.signals.SIGINT - 1))) !== 0n;
}

async function query(url: string, text: string): Promise<string[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query({ text, rowMode: 'array' })).rows.map(String);
  } finally {
    await client.end();
  }
}

const write = (url: string) => query(url, `create table note as select 'kept' as body`);
const read = (url: string) => query(url, 'select body from note');

describe('starting and stopping', () => {
  test('makes a UTF-8 database with safe settings, for this machine and this user only', async () => {
    const server = await start();
    const setting = async (name: string) => (await query(server.url, `show ${name}`))[0];
    expect(await setting('server_version')).toBe(server.version);
    expect(await setting('server_encoding')).toBe('UTF8');
    expect(await query(server.url, `select upper('straße é'), 'a' < 'B'`)).toEqual(['STRAßE É,false']);
    expect(await setting('fsync')).toBe('on');
    expect(await setting('full_page_writes')).toBe('on');
    expect(await setting('synchronous_commit')).toBe('on');
    expect(await setting('data_checksums')).toBe('on');
    expect(await setting('listen_addresses')).toBe('127.0.0.1');
    expect(await setting('unix_socket_directories')).toBe('');
    expect((await stat(join(dir, 'postgres.password'))).mode & 0o777).toBe(0o600);
    expect((await stat(join(dir, 'postgres.log'))).mode & 0o777).toBe(0o600);
    const wrong = new URL(server.url);
    wrong.password = 'guess';
    await expect(query(wrong.href, 'select 1')).rejects.toMatchObject({ code: '28P01' });
  });

  test('keeps the data across a restart, and leaves nothing running after stop', async () => {
    const first = await start();
    await write(first.url);
    await Promise.all([first.stop(), first.stop()]);
    expect(await isAlive(first.pid)).toBe(false);
    expect((await readdir(dir)).sort()).toEqual(['postgres', 'postgres.log', 'postgres.password']);
    const second = await start();
    expect(await read(second.url)).toEqual(['kept']);
  });

  test('stops with clients connected and a query running', async () => {
    const server = await start();
    const client = new pg.Client({ connectionString: server.url });
    client.on('error', () => undefined);
    await client.connect();
    const running = client.query('select pg_sleep(60)').catch((error: unknown) => error);
    await server.stop();
    expect(await isAlive(server.pid)).toBe(false);
    expect(await running).toBeInstanceOf(Error);
  });

  test('a svc that exits without stopping still ends the server', async () => {
    const { starter, report } = await startElsewhere();
    if (report.kind !== 'started') throw new Error(report.message);
    starter.send('exit');
    await ended(starter);
    expect(await gone(async () => !(await isAlive(report.pid)))).toBe(true);
  });

  test('a missing password file is reported, and no data is lost', async () => {
    const server = await start();
    await write(server.url);
    await server.stop();
    const file = join(dir, 'postgres.password');
    const password = await readFile(file);
    await rm(file);
    await expect(start()).rejects.toMatchObject({ code: 'postgres_password_lost' });
    await writeFile(file, 'another');
    await expect(start()).rejects.toMatchObject({ code: 'postgres_password_lost' });
    await writeFile(file, password);
    expect(await read((await start()).url)).toEqual(['kept']);
  });

  test('data of another PostgreSQL version or a foreign folder is left alone', async () => {
    const data = join(dir, 'postgres');
    await mkdir(data, { recursive: true });
    await writeFile(join(data, 'precious.txt'), 'mine');
    await expect(start()).rejects.toMatchObject({ code: expect.stringMatching(/occupied|not_ours/) });
    await writeFile(join(data, 'PG_VERSION'), '9.6\n');
    if (isRoot()) await chown(data, STRANGER.uid, STRANGER.gid);
    await expect(start()).rejects.toMatchObject({ code: 'postgres_wrong_version' });
    expect((await readdir(data)).sort()).toEqual(['PG_VERSION', 'precious.txt']);
  });
});

describe('after a kill -9', () => {
  test('of PostgreSQL, while a client keeps a server process busy: the data is there', async () => {
    const first = await start();
    await write(first.url);
    const client = new pg.Client({ connectionString: first.url });
    client.on('error', () => undefined);
    await client.connect();
    const busy = client.query('select pg_sleep(60)').catch((error: unknown) => error);
    process.kill(first.pid, 'SIGKILL');
    await gone(async () => !(await isAlive(first.pid)));
    await first.stop();
    const second = await start();
    expect(await read(second.url)).toEqual(['kept']);
    await busy;
  });

  test('of PostgreSQL under a running svc is logged with a hint', async () => {
    const lines: string[] = [];
    const log = createLog({ destination: { write: (line: string) => void lines.push(line) } });
    const server = await startEmbeddedPostgres({ dir, log });
    servers.push(server);
    process.kill(server.pid, 'SIGKILL');
    expect(await gone(async () => lines.some((line) => line.includes('exited unexpectedly')))).toBe(true);
    expect(lines.join('')).not.toContain(new URL(server.url).password);
  });

  test('of svc: the next one stops the server that still runs, and starts it again', async () => {
    const { starter, report } = await startElsewhere();
    if (report.kind !== 'started') throw new Error(report.message);
    await write(report.url);
    await ended(starter, 'SIGKILL');
    const server = await start();
    expect(await isAlive(report.pid)).toBe(false);
    expect(server.pid).not.toBe(report.pid);
    expect(await read(server.url)).toEqual(['kept']);
  });

  test('of svc, then two at once: one starts the server again, and the other names it', async () => {
    const { starter, report } = await startElsewhere();
    if (report.kind !== 'started') throw new Error(report.message);
    await write(report.url);
    await ended(starter, 'SIGKILL');
    const reports = (await Promise.all([startElsewhere(), startElsewhere()])).map((next) => next.report);
    expect(reports.map(({ kind }) => kind).sort()).toEqual(['refused', 'started']);
    expect(reports.find(({ kind }) => kind === 'refused')).toMatchObject({
      code: 'postgres_already_running',
    });
    expect(await isAlive(report.pid)).toBe(false);
    for (const next of reports) {
      if (next.kind === 'started') expect(await read(next.url)).toEqual(['kept']);
    }
  });

  test('of svc and PostgreSQL: the next one recovers', async () => {
    const { starter, report } = await startElsewhere();
    if (report.kind !== 'started') throw new Error(report.message);
    await write(report.url);
    process.kill(report.pid, 'SIGKILL');
    await ended(starter, 'SIGKILL');
    const server = await start();
    expect(await read(server.url)).toEqual(['kept']);
  });

  test.runIf(process.platform === 'linux')(
    'of PostgreSQL while the next svc stops it, with a server process that is busy: the data is there',
    async () => {
      const { starter, report } = await startElsewhere();
      if (report.kind !== 'started') throw new Error(report.message);
      await write(report.url);
      const client = new pg.Client({ connectionString: report.url });
      client.on('error', () => undefined);
      await client.connect();
      const busy = client.query('select count(*) from generate_series(1, 10000000000)').catch(String);
      process.kill(report.pid, 'SIGSTOP');
      await ended(starter, 'SIGKILL');
      const next = start();
      expect(await gone(() => isAskedToStop(report.pid))).toBe(true);
      process.kill(report.pid, 'SIGKILL');
      const server = await next;
      expect(await read(server.url)).toEqual(['kept']);
      await busy;
    },
  );

  test('during the very first start: the incomplete data directory is removed', async () => {
    const starter = fork(STARTER, [dir], { execArgv: [] });
    starters.push(starter);
    const halfMade = async () => {
      const names = await readdir(dir).catch(() => []);
      const work = names.find((name) => name.startsWith('postgres.new-'));
      return work !== undefined && (await readdir(join(dir, work, 'data')).catch(() => [])).length > 0;
    };
    expect(await gone(halfMade)).toBe(true);
    await ended(starter, 'SIGKILL');
    expect(await readdir(dir)).not.toContain('postgres');
    const server = await start();
    expect(await query(server.url, 'select 1')).toEqual(['1']);
    expect((await readdir(dir)).filter((name) => name.startsWith('postgres.new-'))).toEqual([]);
  });

  test('and a process id that another process has now: it starts anyway', async () => {
    const first = await start();
    await write(first.url);
    const file = join(dir, 'postgres', 'postmaster.pid');
    const text = await readFile(file, 'utf8');
    await first.stop();
    // Uses our own process id: PostgreSQL itself ignores that of its parent.
    await writeFile(file, text.replace(/^\d+/, String(process.ppid)));
    expect(await read((await start()).url)).toEqual(['kept']);
  });
});

describe('two at once', () => {
  test('of two starters racing for a fresh folder one wins, and the other names it', async () => {
    const [one, two] = await Promise.all([startElsewhere(), startElsewhere()]);
    const winner = one.report.kind === 'started' ? one : two;
    const loser = winner === one ? two : one;
    if (winner.report.kind !== 'started' || loser.report.kind !== 'refused')
      throw new Error('not one of each');
    expect(loser.report).toMatchObject({ code: 'postgres_already_running' });
    expect(loser.report.message).toContain(String(winner.starter.pid));
    expect(await query(winner.report.url, 'select 1')).toEqual(['1']);
    winner.starter.send('stop');
    await ended(winner.starter);
  });

  test('a project copied while it runs starts a separate server', async () => {
    const original = await start();
    await write(original.url);
    await query(original.url, 'checkpoint');
    const copy = join(project, 'copy', '.svc');
    await cp(dir, copy, { recursive: true });
    if (isRoot()) {
      const { uid, gid } = await stat(join(dir, 'postgres'));
      await chownAll(join(copy, 'postgres'), uid, gid);
    }
    // The copy contains the original's lock, held by a live process; remove it as a user would have to.
    for (const name of await readdir(copy)) if (name.startsWith('postgres.lock-')) await rm(join(copy, name));
    const second = await start(copy);
    expect(second.pid).not.toBe(original.pid);
    await query(second.url, `update note set body = 'changed'`);
    expect(await read(original.url)).toEqual(['kept']);
  });
});

describe('the npm package', () => {
  test('is completed if npm ran no install scripts', async () => {
    const installed = await findNativePackage();
    const folder = join(project, 'package');
    await chmod(project, 0o755);
    await cp(dirname(installed.root), folder, { recursive: true, verbatimSymlinks: true });
    const fresh = await readNativePackage(folder);
    for (const name of await readdir(join(fresh.root, 'lib'), { withFileTypes: true })) {
      if (name.isSymbolicLink()) await rm(join(fresh.root, 'lib', name.name));
    }
    expect(await missingLinks(fresh)).not.toEqual([]);
    await Promise.all([createMissingLinks(fresh), createMissingLinks(fresh)]);
    expect(await missingLinks(fresh)).toEqual([]);
    const server = await start(dir, { native: await usableNative(fresh, undefined, dir) });
    expect(await query(server.url, 'select 1')).toEqual(['1']);
  });

  test('reports if it is not installed or not available for this platform', async () => {
    const find = (platform: string) =>
      findNativePackage(platform, () => {
        throw new Error('Cannot find module');
      });
    await expect(find('linux-x64')).rejects.toMatchObject({
      code: 'postgres_package_missing',
      hint: expect.stringContaining('--omit=optional'),
    });
    await expect(find('sunos-sparc')).rejects.toMatchObject({ code: 'postgres_unsupported_platform' });
  });

  test('a library that is missing is named', async () => {
    const folder = join(project, 'native');
    await mkdir(folder);
    const native = await findNativePackage();
    await copyNative(native, folder);
    const library = (await readdir(join(folder, 'lib'))).find((name) =>
      /^libicuuc\.(so\.\d+|\d+\.dylib)$/.test(name),
    );
    await rm(join(folder, 'lib', library!));
    await chmod(project, 0o755);
    const broken = { ...native, root: folder };
    await expect(start(dir, { native: await usableWithoutLinks(broken) })).rejects.toMatchObject({
      code: 'postgres_library_missing',
      details: expect.stringContaining('libicuuc'),
    });
  });

  /** Tests without the list of links, which are then not restored. */
  async function usableWithoutLinks(native: Awaited<ReturnType<typeof findNativePackage>>) {
    await rm(join(native.root, 'pg-symlinks.json'), { force: true });
    return native;
  }
});

describe.runIf(isRoot())('as root', () => {
  test('a project below a folder that only root may enter runs as an ordinary user', async () => {
    // mkdtemp already does this; explicit because the test is about it.
    await chmod(project, 0o700);
    const first = await start();
    await write(first.url);
    const { uid } = await stat(join(dir, 'postgres'));
    expect(uid).not.toBe(0);
    expect(await readFile(`/proc/${first.pid}/status`, 'utf8')).toContain(
      `Uid:\t${uid}\t${uid}\t${uid}\t${uid}`,
    );
    expect(await canReach({ uid, gid: uid }, join(dir, 'postgres'))).toBe(false);
    // After a crash of one backend, the postmaster restarts all of them.
    await query(first.url, 'create database other');
    await first.stop();
    expect(await read((await start()).url)).toEqual(['kept']);
  });

  test('binaries that only root may reach are copied to where the database can execute them', async () => {
    const folder = join(project, 'node_modules');
    const cache = await mkdtemp(join(tmpdir(), 'svc-cache-'));
    await chmod(cache, 0o755);
    try {
      const native = await findNativePackage();
      await mkdir(folder);
      await copyNative(native, folder);
      const hidden = { ...native, root: folder };
      const account = { uid: 65534, gid: 65534 };
      const bases = [join(cache, 'binaries')];
      const [usable, same] = await Promise.all([
        usableNative(hidden, account, dir, bases),
        usableNative(hidden, account, dir, bases),
      ]);
      expect(usable.root.startsWith(cache)).toBe(true);
      expect(same).toEqual(usable);
      expect(await usableNative(hidden, account, dir, bases)).toEqual(usable);
      expect(await readdir(bases[0]!)).toHaveLength(1);
      const server = await start(dir, { native: usable });
      expect(await query(server.url, 'select 1')).toEqual(['1']);

      // A folder that others can write, or a link in its place, could contain another user's programs.
      await chmod(bases[0]!, 0o777);
      await expect(usableNative(hidden, account, dir, bases)).rejects.toMatchObject({
        code: 'postgres_unreachable_directory',
      });
      await chmod(bases[0]!, 0o755);
      await chown(bases[0]!, STRANGER.uid, STRANGER.gid);
      await expect(usableNative(hidden, account, dir, bases)).rejects.toMatchObject({
        code: 'postgres_unreachable_directory',
      });
    } finally {
      await Promise.all(servers.map((server) => server.stop()));
      await rm(cache, { recursive: true, force: true });
    }
  });

  describe.runIf(reachableForAll)('and as an ordinary user', () => {
    beforeEach(async () => {
      await chown(project, STRANGER.uid, STRANGER.gid);
    });

    test('the user runs it first; then root runs the same project without changing the owner', async () => {
      const { starter, report } = await startElsewhere(STRANGER);
      if (report.kind !== 'started') throw new Error(`${report.message} ${report.details}`);
      await write(report.url);
      starter.send('stop');
      await ended(starter);

      const server = await start();
      expect(await read(server.url)).toEqual(['kept']);
      expect(await readFile(`/proc/${server.pid}/status`, 'utf8')).toContain(`Uid:\t${STRANGER.uid}\t`);
      await server.stop();
      for (const name of await readdir(dir)) expect((await stat(join(dir, name))).uid).toBe(STRANGER.uid);

      const again = await startElsewhere(STRANGER);
      expect(again.report).toMatchObject({ kind: 'started' });
      again.starter.send('stop');
      await ended(again.starter);
    });

    test('root starts in a user’s project: everything belongs to the user', async () => {
      const server = await start();
      await write(server.url);
      await server.stop();
      expect((await stat(dir)).uid).toBe(STRANGER.uid);
      const { starter, report } = await startElsewhere(STRANGER);
      if (report.kind !== 'started') throw new Error(`${report.message} ${report.details}`);
      expect(await read(report.url)).toEqual(['kept']);
      starter.send('stop');
      await ended(starter);
    });

    test('files of another user are named, with the command that changes their owner', async () => {
      await (await start()).stop();
      await chownAll(join(dir, 'postgres'), 65534, 65534);
      const data = await startElsewhere(STRANGER);
      expect(data.report).toMatchObject({ kind: 'refused', code: 'postgres_not_ours' });
      expect(data.report).toMatchObject({ hint: expect.stringContaining(`chown -R ${STRANGER.uid} `) });
      await chown(dir, 0, 0);
      const folder = await startElsewhere(STRANGER);
      expect(folder.report).toMatchObject({ kind: 'refused', code: 'postgres_not_ours' });
    });
  });
});

async function chownAll(path: string, uid: number, gid: number): Promise<void> {
  await chown(path, uid, gid);
  for (const entry of await readdir(path, { withFileTypes: true, recursive: true })) {
    await chown(join(entry.parentPath, entry.name), uid, gid);
  }
}
