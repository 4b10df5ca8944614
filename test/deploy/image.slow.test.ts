// deploy/Containerfile without a container engine: built and run by buildah in a chroot, on base images of
// this machine's
// Debian instead of the named ones. Needs root, buildah and mmdebstrap (Debian packages).
// SVC_TEST_CONTAINERS=required fails without them.
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createClient } from '@supabase/supabase-js';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { freePort } from '../../src/lib/free-port.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { NODE } from '../support/svc-process.ts';
import { scaled } from '../support/run/scaled.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const DEPLOY = join(ROOT, 'deploy');
const KEYS = {
  SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaa',
  SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
};
/** Id of the process in the image. */
const USER = 65_532;
const MINUTES = 60_000;

const canBuild =
  process.platform === 'linux' &&
  process.getuid?.() === 0 &&
  ['buildah', 'mmdebstrap'].every((program) => spawnSync(program, ['--version']).status === 0);
if (!canBuild && process.env['SVC_TEST_CONTAINERS'] === 'required')
  throw new Error('buildah or mmdebstrap is missing, or this is not root');

/** The image does not depend on the version of PostgreSQL, and its build takes a minute. */
const isOtherVersion = process.env['SVC_TEST_POSTGRES'] !== undefined;

describe.skipIf(!canBuild || isOtherVersion)('deploy/Containerfile', () => {
  let folder: string;
  let database: TestDatabase;
  let port: number;
  let container: string;
  let image: ImageFacts;

  const buildah = (...args: readonly string[]): string =>
    execFileSync('buildah', [...storage(), ...args], { encoding: 'utf8', stdio: 'pipe', env: ENV }).trim();
  const storage = (): readonly string[] => [
    '--root',
    join(folder, 'storage'),
    '--runroot',
    join(folder, 'run'),
  ];

  beforeAll(
    async () => {
      folder = mkdtempSync(join(tmpdir(), 'svc-image-'));
      [database, port] = await Promise.all([createDatabase(), freePort()]);
      baseImages(folder, buildah);
      const app = await makeApp(folder, port);
      const given = ['BUILD_IMAGE=localhost/build', 'BASE_IMAGE=localhost/base', 'BUILD=1700000000'];
      const options = ['--format', 'docker', '--pull-never', '--layers=false', '-t', 'app'];
      for (const one of given) options.push('--build-arg', one);
      buildah('bud', ...options, '-f', join(DEPLOY, 'Containerfile'), app);
      container = buildah('from', '--pull-never', 'app');
      image = (JSON.parse(buildah('inspect', '--type', 'image', 'app')) as { Docker: { config: ImageFacts } })
        .Docker.config;
    },
    scaled(10 * MINUTES),
  );

  afterAll(async () => {
    spawnSync('buildah', [...storage(), 'rm', '--all'], { env: ENV });
    rmSync(folder, { recursive: true, force: true });
    await database?.drop();
  });

  test('declares its user, its health check and its stop signal', () => {
    expect(image).toMatchObject({ User: `${USER}:${USER}`, StopSignal: 'SIGTERM', WorkingDir: '/app' });
    expect(image.ExposedPorts).toEqual({ '8080/tcp': {} });
    expect(image.Healthcheck?.Test.slice(0, 2)).toEqual(['CMD', '/nodejs/bin/node']);
  });

  test('has the app and its dependencies, no shell, no package manager and no secret', () => {
    const mounted = buildah('mount', container);
    const programs = ['bin', 'sbin', 'usr/bin', 'usr/sbin', 'usr/local/bin'].flatMap((directory) => {
      try {
        return readdirSync(join(mounted, directory));
      } catch {
        return [];
      }
    });
    for (const program of ['sh', 'bash', 'dash', 'apt', 'dpkg', 'npm', 'node'])
      expect(programs).not.toContain(program);
    expect(readdirSync(join(mounted, 'app')).toSorted()).toEqual(
      ['.svc', 'functions', 'node_modules', 'package-lock.json', 'package.json', 'svc.yaml']
        .concat(readdirSync(join(folder, 'app')).filter((name) => name.endsWith('.tgz')))
        .toSorted(),
    );
    expect(readdirSync(join(mounted, 'app/.svc'))).toEqual(['build.json']);
    expect(readdirSync(join(mounted, 'app/functions/node_modules'))).toContain('ms');
  });

  test('serves every API as an ordinary user, reports its health, and drains on SIGTERM', async () => {
    const env = { ...KEYS, SVC_DATABASE_URL: database.url, SVC_ENV_GREETING: 'hello' };
    const args = [...storage(), 'run', '--isolation', 'chroot', '--user', image.User];
    for (const [name, value] of Object.entries(env)) args.push('--env', `${name}=${value}`);
    const health = (): number | null => {
      const words = (image.Healthcheck?.Test ?? [])
        .slice(1)
        .map((word) => word.replace('8080', String(port)));
      return spawnSync('buildah', [...storage(), 'run', '--isolation', 'chroot', container, '--', ...words], {
        env: ENV,
      }).status;
    };
    expect(health()).toBe(1);
    const running = spawn('buildah', [...args, container, '--', ...image.Entrypoint, ...image.Cmd], {
      env: ENV,
    });
    const ended = once(running, 'exit');
    let output = '';
    for (const stream of [running.stdout, running.stderr])
      stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
    const url = `http://127.0.0.1:${port}`;
    await vi.waitUntil(
      async () => {
        if (running.exitCode !== null) throw new Error(output);
        return (await fetch(`${url}/ready`).catch(() => undefined))?.ok === true;
      },
      { timeout: scaled(2 * MINUTES), interval: 100 },
    );
    expect(health()).toBe(0);

    const client = createClient(url, KEYS.SVC_PUBLISHABLE_KEY, { auth: { persistSession: false } });
    const { error } = await client.auth.signUp({ email: 'ann@example.com', password: 'correct horse' });
    expect(error).toBeNull();
    expect((await client.from('notes').insert({ text: 'kept' }).select('text').single()).data).toEqual({
      text: 'kept',
    });
    expect((await client.functions.invoke('greet')).data).toEqual({ text: 'hello', minute: 60_000 });

    const pid = nodeBelow(running);
    expect(/^Uid:\t(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]).toBe(String(USER));
    const slow = client.functions.invoke('greet', { body: { wait: 1_000 } });
    await vi.waitUntil(async () => (await fetch(`${url}/live`)).ok);
    process.kill(pid, 'SIGTERM');
    expect((await slow).data).toEqual({ text: 'hello', minute: 60_000 });
    expect((await ended)[0]).toBe(0);
  });
});

test('deploy/compose.yaml and deploy/kubernetes.yaml refer to existing files and ports', () => {
  const read = (name: string): string => readFileSync(join(DEPLOY, name), 'utf8');
  const containerfile = read('Containerfile');
  const { services } = parse(read('compose.yaml')) as {
    services: Record<
      string,
      { build?: { dockerfile: string }; depends_on?: object; stop_grace_period?: string }
    >;
  };
  expect(services['svc']?.build?.dockerfile).toBe('Containerfile');
  for (const { depends_on: needed = {} } of Object.values(services))
    for (const name of Object.keys(needed)) expect(Object.keys(services)).toContain(name);
  const objects = parseAllDocuments(read('kubernetes.yaml')).map(
    (document) => document.toJS() as { kind: string; spec: KubernetesSpec },
  );
  expect(objects.map(({ kind }) => kind)).toEqual(['Secret', 'Deployment', 'Service', 'PodDisruptionBudget']);
  const pod = objects.find(({ kind }) => kind === 'Deployment')?.spec.template.spec;
  expect(containerfile).toContain(`USER ${pod?.securityContext.runAsUser}:`);
  expect(containerfile).toContain(`EXPOSE ${pod?.containers[0]?.ports[0]?.containerPort}`);
});

type KubernetesSpec = {
  readonly template: {
    readonly spec: {
      readonly securityContext: { readonly runAsUser: number };
      readonly containers: ReadonlyArray<{
        readonly ports: ReadonlyArray<{ readonly containerPort: number }>;
      }>;
    };
  };
};

type ImageFacts = {
  readonly User: string;
  readonly StopSignal: string;
  readonly WorkingDir: string;
  readonly ExposedPorts: object;
  readonly Entrypoint: readonly string[];
  readonly Cmd: readonly string[];
  readonly Healthcheck?: { readonly Test: readonly string[] };
};

/** No engine, no registry, and no rights beyond root here. */
const ENV = {
  ...process.env,
  BUILDAH_ISOLATION: 'chroot',
  STORAGE_DRIVER: 'vfs',
  // Keeps buildah's metadata out of the image.
  REGISTRY_AUTH_FILE: '/dev/null',
};

/** The relevant parts of the images in the file: one with only Node, and one with npm and a shell. */
function baseImages(folder: string, buildah: (...args: readonly string[]) => string): void {
  const libraries = ['libc6', 'libstdc++6', 'libgcc-s1', 'ca-certificates', 'tzdata'];
  const make = (name: string, packages: readonly string[], more: (container: string) => void): void => {
    const tar = join(folder, `${name}.tar`);
    execFileSync(
      'mmdebstrap',
      ['--quiet', '--variant=extract', `--include=${packages.join(',')}`, codename(), tar],
      { stdio: 'pipe' },
    );
    const container = buildah('from', 'scratch');
    buildah('add', container, tar, '/');
    more(container);
    buildah('commit', container, `localhost/${name}`);
    buildah('rm', container);
    rmSync(tar);
  };
  make('base', libraries, (container) => void buildah('copy', container, NODE, '/nodejs/bin/node'));
  make('build', [...libraries, 'dash'], (container) => {
    const cli = realpathSync(execFileSync('which', ['npm'], { encoding: 'utf8' }).trim());
    const npm = dirname(dirname(cli));
    const script = join(folder, 'npm');
    writeFileSync(script, '#!/bin/dash\nexec node /usr/local/lib/node_modules/npm/bin/npm-cli.js "$@"\n', {
      mode: 0o755,
    });
    buildah('copy', container, NODE, '/usr/local/bin/node');
    buildah('copy', container, npm, '/usr/local/lib/node_modules/npm');
    buildah('copy', '--chmod', '755', container, script, '/usr/local/bin/npm');
    // The certificates and the registry of this machine.
    const certificates = '/etc/ssl/certs/ca-certificates.crt';
    buildah('copy', container, certificates, certificates);
    const registry = execFileSync('npm', ['config', 'get', 'registry'], { encoding: 'utf8' }).trim();
    for (const variable of [
      'PATH=/usr/local/bin:/usr/bin:/bin',
      `npm_config_registry=${registry}`,
      `NODE_EXTRA_CA_CERTS=${certificates}`,
    ])
      buildah('config', '--env', variable, container);
    buildah('config', '--shell', '/bin/dash -c', container);
  });
}

const codename = (): string =>
  /^VERSION_CODENAME=(\w+)$/m.exec(readFileSync('/etc/os-release', 'utf8'))?.[1] ?? 'bookworm';

/** A project of a user, with the packages of this tree in place of the published ones. */
async function makeApp(folder: string, port: number): Promise<string> {
  const release = join(folder, 'release');
  execFileSync(process.execPath, [join(ROOT, 'scripts/make-release.ts'), release], { stdio: 'pipe' });
  const app = join(folder, 'app');
  mkdirSync(join(app, 'functions'), { recursive: true });
  for (const name of readdirSync(release))
    if (/^svcyaml-(node-)?\d.*\.tgz$/.test(name)) cpSync(join(release, name), join(app, name));
  const tarball = (prefix: RegExp): string =>
    `file:${readdirSync(app).find((name) => prefix.test(name)) ?? 'missing'}`;
  const json = (value: object): string => JSON.stringify(value);
  const files = {
    'package.json': json({
      private: true,
      type: 'module',
      dependencies: { svcyaml: tarball(/^svcyaml-\d/) },
      optionalDependencies: { '@svcyaml/node': tarball(/^svcyaml-node-/) },
    }),
    'functions/package.json': json({ private: true, type: 'module', dependencies: { ms: '2.1.3' } }),
    'functions/greet.js': `import ms from 'ms';
export default async (request, ctx) => {
  await new Promise((resolve) => setTimeout(resolve, request.body?.wait ?? 0));
  return { body: { text: ctx.env.GREETING, minute: ms('1m') } };
};
`,
    'svc.yaml': `version: 1
server: { port: ${port} }
tables:
  notes:
    fields: [{ name: id, type: bigserial, primary_key: true }, { name: text, type: text }]
    rls: [{ operations: [select, insert], check: 'true' }]
functions: { greet: { runtime: node, file: functions/greet.js, env: { GREETING: "\${SVC_ENV_GREETING}" } } }
`,
    '.env': 'SVC_SECRET_KEY=must-not-be-in-the-image\n',
    Containerfile: '',
    '.dockerignore': readFileSync(join(DEPLOY, 'container.dockerignore'), 'utf8'),
  };
  for (const [name, text] of Object.entries(files)) writeFileSync(join(app, name), text);
  const lock = ['install', '--package-lock-only', '--ignore-scripts', '--no-audit', '--no-fund'];
  for (const at of [app, join(app, 'functions')]) execFileSync('npm', lock, { cwd: at, stdio: 'pipe' });
  return app;
}

/** The process of svc in the container. */
function nodeBelow(parent: ChildProcess): number {
  const parents = new Map<number, number>();
  for (const name of readdirSync('/proc').filter((entry) => /^\d+$/.test(entry))) {
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8');
      parents.set(Number(name), Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]));
    } catch {
      // The container has ended in the meantime.
    }
  }
  const isBelow = (pid: number): boolean =>
    pid === parent.pid || (parents.has(pid) && isBelow(parents.get(pid)!));
  const nodes = [...parents.keys()].filter(
    (pid) =>
      isBelow(pid) &&
      /^\/nodejs\/bin\/node\0.*\/svc\.js\0/.test(readFileSync(`/proc/${pid}/cmdline`, 'utf8')),
  );
  if (nodes[0] === undefined) throw new Error('no process of Node in the container');
  return nodes[0];
}
