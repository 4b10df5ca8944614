// The proxy files of deploy/, each with its program (a Debian package), in front of two instances. Without a program
// its tests are skipped; SVC_TEST_PROXIES=required fails instead.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient, REALTIME_SUBSCRIBE_STATES, type SupabaseClient } from '@supabase/supabase-js';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { freePort } from '../../src/lib/free-port.ts';
import { accepts } from '../support/accepts.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { startSvc, type SvcProcess } from '../support/svc-process.ts';
import { scaled } from '../support/run/scaled.ts';

const KEYS = {
  SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaa',
  SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
};
const YAML = `version: 1
server: { trusted_proxies: [loopback], timeouts: { drain_delay: 4s } }
tables:
  notes:
    fields:
      - { name: id, type: bigserial, primary_key: true }
      - { name: text, type: text }
    rls: [{ operations: [select, insert], check: 'true' }]
storage:
  files: { max_size: 100MB, rls: [{ operations: [select, insert], check: 'true' }] }
functions:
  pieces: { runtime: node, file: pieces.js, env: { GO: "\${SVC_ENV_GO}" } }
  whoami: { runtime: node, file: whoami.js }
`;
/** Sends the second piece when the file `go` exists. */
const PIECES = `import { existsSync } from 'node:fs';
export default (request, ctx) => ({
  headers: { 'content-type': 'text/event-stream' },
  body: (async function* () {
    yield 'data: one\\n\\n';
    while (!existsSync(ctx.env.GO)) await new Promise((resolve) => setTimeout(resolve, 20));
    yield 'data: two\\n\\n';
  })(),
});
`;
const WHOAMI = `export default (request, ctx) => ({ body: { address: ctx.clientAddress } });\n`;

type Instances = {
  readonly one: number;
  readonly two: number;
  readonly port: number;
  readonly folder: string;
};

/** How a file of deploy/ becomes one without TLS on ports of this run, and how its program is checked and run. */
type Proxy = {
  readonly name: string;
  readonly program: string;
  configure(text: string, instances: Instances): string;
  check(file: string): readonly string[];
  run(file: string): readonly string[];
};

const onPorts = (text: string, { one, two }: Instances): string =>
  text.replace('127.0.0.1:8080', `127.0.0.1:${one}`).replace('127.0.0.1:8081', `127.0.0.1:${two}`);

const PROXIES: readonly Proxy[] = [
  {
    name: 'Caddyfile',
    program: 'caddy',
    configure: (text, instances) =>
      `{\n\tadmin off\n\tstorage file_system ${instances.folder}\n}\n` +
      onPorts(text, instances).replace('api.example.com {', `http://127.0.0.1:${instances.port} {`),
    check: (file) => ['validate', '--config', file, '--adapter', 'caddyfile'],
    run: (file) => ['run', '--config', file, '--adapter', 'caddyfile'],
  },
  {
    name: 'nginx.conf',
    program: 'nginx',
    configure: (text, instances) =>
      `daemon off;\npid ${instances.folder}/nginx.pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n` +
      ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
        .map((kind) => `${kind}_temp_path ${instances.folder}/${kind};\n`)
        .join('') +
      onPorts(text, instances)
        .replace('listen 443 ssl', `listen 127.0.0.1:${instances.port}`)
        .replace(/^\s*ssl_certificate.*$/gm, '') +
      '\n}\n',
    check: (file) => ['-t', '-c', file],
    run: (file) => ['-c', file],
  },
  {
    name: 'haproxy.cfg',
    program: 'haproxy',
    configure: (text, instances) =>
      onPorts(text, instances).replace(/bind :443 .*/, `bind 127.0.0.1:${instances.port}`),
    check: (file) => ['-c', '-f', file],
    run: (file) => ['-f', file],
  },
];

const hasProgram = ({ program }: Proxy): boolean => {
  const found = ['version', '-v'].some((word) => spawnSync(program, [word]).status === 0);
  if (!found && process.env['SVC_TEST_PROXIES'] === 'required')
    throw new Error(`${program} is not installed`);
  return found;
};

describe.each(PROXIES)('deploy/$name', (proxy) => {
  describe.skipIf(!hasProgram(proxy))(`with ${proxy.program}`, () => {
    let folder: string;
    let database: TestDatabase;
    let ports: Instances;
    let instances: SvcProcess[];
    let program: ChildProcess;
    let app: SupabaseClient;
    let url: string;
    let said = '';

    const serve = (port: number): Promise<SvcProcess> =>
      startSvc({
        command: 'serve',
        config: join(folder, 'svc.yaml'),
        arguments: ['--migrate'],
        port,
        env: { ...KEYS, SVC_DATABASE_URL: database.url, SVC_ENV_GO: join(folder, 'go') },
      });

    beforeAll(async () => {
      folder = mkdtempSync(join(tmpdir(), 'svc-proxy-'));
      mkdirSync(join(folder, 'program'));
      writeFileSync(join(folder, 'svc.yaml'), YAML);
      writeFileSync(join(folder, 'pieces.js'), PIECES);
      writeFileSync(join(folder, 'whoami.js'), WHOAMI);
      database = await createDatabase();
      ports = {
        one: await freePort(),
        two: await freePort(),
        port: await freePort(),
        folder: join(folder, 'program'),
      };
      instances = [await serve(ports.one), await serve(ports.two)];
      const file = join(ports.folder, proxy.name);
      const text = readFileSync(join(import.meta.dirname, '../../deploy', proxy.name), 'utf8');
      writeFileSync(file, proxy.configure(text, ports));
      const checked = spawnSync(proxy.program, proxy.check(file), { encoding: 'utf8' });
      expect(checked.status, checked.stdout + checked.stderr).toBe(0);
      program = spawn(proxy.program, proxy.run(file), {
        stdio: ['ignore', 'pipe', 'pipe'],
        env: { ...process.env, HOME: ports.folder },
      });
      program.stdout?.on('data', (chunk: Buffer) => (said += chunk.toString()));
      program.stderr?.on('data', (chunk: Buffer) => (said += chunk.toString()));
      await vi.waitUntil(() => accepts(ports.port), { timeout: scaled(20_000) });
      url = `http://127.0.0.1:${ports.port}`;
      // Those with active checks begin without knowing anybody.
      await vi.waitUntil(async () => (await fetch(`${url}/ready`)).status === 200, {
        timeout: scaled(20_000),
      });
      app = createClient(url, KEYS.SVC_PUBLISHABLE_KEY, { auth: { persistSession: false } });
    });
    afterAll(async () => {
      if (program && program.exitCode === null) {
        const ended = once(program, 'exit');
        program.kill('SIGTERM');
        const killed = setTimeout(() => program.kill('SIGKILL'), 3000);
        await ended;
        clearTimeout(killed);
      }
      for (const instance of instances ?? []) await instance.stop('SIGKILL');
      await database?.drop();
      rmSync(folder, { recursive: true, force: true });
    });

    test('a large file is uploaded and downloaded unchanged', async () => {
      const bytes = randomBytes(60 * 1024 * 1024);
      const { error } = await app.storage.from('files').upload('large.bin', bytes);
      expect(error, said).toBeNull();
      const { data } = await app.storage.from('files').download('large.bin');
      const found = Buffer.from((await data?.arrayBuffer()) ?? new ArrayBuffer(0));
      expect(createHash('sha256').update(found).digest('hex')).toBe(
        createHash('sha256').update(bytes).digest('hex'),
      );
    });

    test('an answer in pieces arrives in pieces', async () => {
      const { body } = await fetch(`${url}/functions/v1/pieces`);
      const reader = body?.getReader();
      const read = async (): Promise<string> => new TextDecoder().decode((await reader?.read())?.value);
      expect(await read()).toBe('data: one\n\n');
      writeFileSync(join(folder, 'go'), '');
      expect(await read()).toBe('data: two\n\n');
    });

    test('a channel opens and receives messages', async () => {
      const heard = Promise.withResolvers<unknown>();
      const channel = app.channel('room', { config: { broadcast: { self: true } } });
      channel.on('broadcast', { event: 'said' }, ({ payload }) => heard.resolve(payload));
      channel.subscribe((status) => {
        if (status === REALTIME_SUBSCRIBE_STATES.SUBSCRIBED)
          void channel.send({ type: 'broadcast', event: 'said', payload: { n: 1 } });
      });
      expect(await heard.promise).toMatchObject({ n: 1 });
      await app.removeAllChannels();
      await app.realtime.disconnect();
    });

    test('a client that forges an address header is identified by its real address', async () => {
      const answer = await fetch(`${url}/functions/v1/whoami`, {
        headers: { 'x-forwarded-for': '203.0.113.9' },
      });
      expect(await answer.json()).toEqual({ address: '127.0.0.1' });
    });

    // nginx does not request /ready and loses a write in flight when a port closes. The page explains this.
    test.skipIf(proxy.program === 'nginx')(
      'instances are replaced under load without a failed request',
      async () => {
        const over = new AbortController();
        const failed: string[] = [];
        let served = 0;
        const use = async (index: number): Promise<void> => {
          while (!over.signal.aborted) {
            const { error } =
              index % 2 === 0
                ? await app.from('notes').insert({ text: 'during' })
                : await app.from('notes').select('id').limit(1);
            if (error) failed.push(`${error.code} ${error.message}`);
            else served += 1;
          }
        };
        const users = Array.from({ length: 8 }, (_, index) => use(index));
        for (const [index, port] of [ports.one, ports.two].entries()) {
          expect(await instances[index]?.stop()).toBe(0);
          instances[index] = await serve(port);
          // The balancer must detect it before the other instance stops.
          const takes = (): number => instances[index]?.output().split('/rest/v1/notes').length ?? 0;
          await expect.poll(takes).toBeGreaterThan(50);
        }
        over.abort();
        await Promise.all(users);
        expect(failed).toEqual([]);
        expect(served).toBeGreaterThan(200);
      },
    );
  });
});
