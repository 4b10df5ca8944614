// Installs dependencies of functions: `npm ci` with a lockfile, `npm install` without one (development only). Install
// scripts do not run, so native add-ons must come prebuilt. `serve` installs nothing.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Log } from '../../log/log.ts';
import { Problem } from '../../problem/problem.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

export type InstallOptions = {
  /** Directory of svc.yaml. */
  readonly directory: string;
  readonly env: Environment;
  readonly log: Log;
};

export const LOCKFILE = 'package-lock.json';
/** Records the installed state, so that an unchanged start skips npm. */
const MARKER = join('node_modules', '.svc-installed');
const KEPT_OUTPUT = 64_000;
const SHOWN_OUTPUT = 4_000;

/** Syncs functions/node_modules with functions/package.json, for `svc dev`. */
export async function installDependencies({ directory, env, log }: InstallOptions): Promise<void> {
  const folder = join(directory, 'functions');
  if (!hasDependencies(folder)) return;
  const state = readState(folder);
  const marker = join(folder, MARKER);
  if (existsSync(marker) && readFileSync(marker, 'utf8') === state) return;
  const locked = existsSync(join(folder, LOCKFILE));
  const startedAt = performance.now();
  log.info({ locked }, 'installing the dependencies of functions with npm');
  await runNpm(folder, locked ? ['ci'] : ['install'], env);
  // Computed again, because `npm install` wrote the lockfile.
  writeFileSync(marker, readState(folder));
  const seconds = Math.round((performance.now() - startedAt) / 100) / 10;
  log.info({ locked, seconds }, 'installed the dependencies of functions');
  if (!locked) {
    log.info('commit functions/package-lock.json: `svc bundle` and `svc deploy` need it');
  }
}

/** Installs the locked dependencies without development dependencies, for bundles and deployments. */
export async function installLocked(folder: string, env: Environment): Promise<void> {
  if (!hasDependencies(folder)) return;
  await runNpm(folder, ['ci', '--omit=dev'], env);
}

export function requireLockfile(directory: string): void {
  if (existsSync(join(directory, 'functions', LOCKFILE))) return;
  throw new Problem('no_lockfile', 500, `There is no functions/${LOCKFILE}`, {
    hint: 'It pins what runs in production. Create it with `npm install --prefix functions` and commit it.',
  });
}

/** Differs when package.json or the lockfile of the functions has changed. */
export function dependencyState(directory: string): string {
  return readState(join(directory, 'functions'));
}

function hasDependencies(folder: string): boolean {
  const manifest = readManifest(join(folder, 'package.json'));
  if (!manifest) return false;
  return ['dependencies', 'optionalDependencies', 'devDependencies'].some((key) => {
    const section = manifest[key];
    return typeof section === 'object' && section !== null && Object.keys(section).length > 0;
  });
}

function readManifest(path: string): Readonly<Record<string, unknown>> | undefined {
  if (!existsSync(path)) return undefined;
  try {
    const manifest: unknown = JSON.parse(readFileSync(path, 'utf8'));
    return typeof manifest === 'object' && manifest !== null ? { ...manifest } : {};
  } catch (cause) {
    throw new Problem('bad_package_json', 500, 'functions/package.json is not valid JSON', {
      cause,
      details: cause instanceof Error ? cause.message : undefined,
    });
  }
}

function readState(folder: string): string {
  const hash = createHash('sha256');
  for (const name of ['package.json', LOCKFILE]) {
    const path = join(folder, name);
    hash
      .update(`${name}\n`)
      .update(existsSync(path) ? readFileSync(path) : '')
      .update('\n');
  }
  return `${hash.digest('hex')} ${process.platform}-${process.arch} node${process.versions.modules}\n`;
}

async function runNpm(folder: string, args: readonly string[], env: Environment): Promise<void> {
  const windows = process.platform === 'win32';
  const child = spawn(
    windows ? 'npm.cmd' : 'npm',
    [...args, '--ignore-scripts', '--no-audit', '--no-fund', '--no-progress', '--loglevel=error'],
    { cwd: folder, env: npmEnvironment(env), stdio: ['ignore', 'pipe', 'pipe'], shell: windows },
  );
  let output = '';
  const keep = (chunk: Buffer): void => {
    // Keep the beginning: npm prints the reason before its help text.
    output = (output + chunk.toString()).slice(0, KEPT_OUTPUT);
  };
  child.stdout.on('data', keep);
  child.stderr.on('data', keep);
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', (cause) =>
      reject(
        new Problem('no_npm', 500, 'The dependencies of functions cannot be installed: npm does not start', {
          cause,
          hint: 'npm comes with Node; it must be on PATH.',
        }),
      ),
    );
    child.once('close', resolve);
  });
  if (code === 0) return;
  throw new Problem('install_failed', 500, `npm ${args[0]} failed in functions/`, {
    details: reasonIn(output),
    hint: /in sync|lock file/i.test(output)
      ? 'package.json and package-lock.json disagree: run `npm install --prefix functions` and commit both.'
      : undefined,
  });
}

/** npm's error message without its usage text and the path of its log. */
export function reasonIn(output: string): string {
  const lines = output.split('\n').map((line) => line.replace(/^npm (error|ERR!) ?/, '').trimEnd());
  const end = lines.findIndex((line) =>
    /^(Clean install a project|Usage:|A complete log of this run)/.test(line),
  );
  return lines
    .slice(0, end < 0 ? undefined : end)
    .filter((line) => line !== '' && !line.startsWith('code '))
    .join('\n')
    .slice(0, SHOWN_OUTPUT);
}

/** npm needs PATH, HOME and its own settings, but none of our SVC_ secrets. */
function npmEnvironment(env: Environment): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith('SVC_')));
}
