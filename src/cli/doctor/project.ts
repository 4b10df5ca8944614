// Checks of the project: the file, the environment, and the needs of functions.
import { execFileSync } from 'node:child_process';
import { appendFileSync, chmodSync, existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { MODES } from '../../config/mode.ts';
import { brokenLines } from '../../config/read/env-file.ts';
import type { SecretFile } from '../../config/read/secret-files.ts';
import type { Config } from '../../config/config.ts';
import { checkFunctions } from '../../functions/sources/check.ts';
import { type Environment, publicBaseUrl, requireKeys, trustedProxies } from '../environment.ts';
import type { ReadProject } from '../project/project.ts';
import { bad, type Check, ok, warning } from './check.ts';

export const file =
  ({ loaded, source }: ReadProject): Check =>
  () => {
    if (!loaded.ok) {
      const errors = loaded.mistakes.filter(({ severity }) => severity === 'error');
      const [first] = errors;
      return bad(
        `${source.name} has ${errors.length} ${errors.length === 1 ? 'mistake' : 'mistakes'}: ${first?.message ?? ''}`,
        'run svc validate to see them with their lines',
      );
    }
    const { length } = loaded.warnings;
    return length === 0
      ? ok(`${source.name} is valid`)
      : warning(`${source.name} is valid, with ${length} warnings`, 'run svc validate to see them');
  };

export const keys =
  (env: Environment, mode: 'development' | 'production'): Check =>
  () => {
    if (mode === 'development' && !env['SVC_PUBLISHABLE_KEY'] && !env['SVC_SECRET_KEY'])
      return ok('not set yet; svc dev creates them');
    requireKeys(env);
    trustedProxies(env, false);
    return ok('both API keys are set');
  };

const ENVIRONMENT_FILES = ['.env', ...MODES.map((mode) => `.${mode}.env`)];

/** Checks that files with secrets are readable only by their owner, and are not committed. */
export const secretFiles =
  (directory: string, mode: 'development' | 'production'): Check =>
  () => {
    const names = ENVIRONMENT_FILES.filter((name) => existsSync(join(directory, name)));
    const broken = brokenLines(directory, mode);
    if (broken.length > 0) return warning(`${broken[0]} sets nothing`, 'write lines as NAME=value');
    const open = names.filter(
      (name) => process.platform !== 'win32' && (statSync(join(directory, name)).mode & 0o077) !== 0,
    );
    if (open.length > 0)
      return {
        ...warning(`${open.join(', ')} can be read by others`, `chmod 600 ${open.join(' ')}`),
        fix: () => open.forEach((name) => chmodSync(join(directory, name), 0o600)),
      };
    const committed = names.filter((name) => isCommitted(directory, name));
    if (committed.length > 0)
      return bad(
        `${committed.join(', ')} is committed`,
        `git rm --cached ${committed.join(' ')}, and create new keys`,
      );
    return ok(
      names.length === 0 ? 'no environment files' : `${names.join(', ')}: readable by the owner only`,
    );
  };

/** Files with secrets, and folders that svc can create again. git must ignore them. */
const NOT_FOR_GIT = [...ENVIRONMENT_FILES, '.svc/'];

export const ignored =
  (directory: string): Check =>
  () => {
    if (!isInRepository(directory)) return ok('not in a git repository');
    const taken = NOT_FOR_GIT.filter(
      (name) => existsSync(join(directory, name)) && !isIgnored(directory, name),
    );
    if (taken.length === 0) return ok('git ignores secrets and the development database');
    return {
      ...warning(`git would commit ${taken.join(', ')}`, `add ${taken.join(', ')} to .gitignore`),
      fix: () => appendLines(join(directory, '.gitignore'), taken),
    };
  };

function appendLines(path: string, lines: readonly string[]): void {
  const before = existsSync(path) ? readFileSync(path, 'utf8') : '';
  const end = before === '' || before.endsWith('\n') ? '' : '\n';
  appendFileSync(path, `${end}${lines.join('\n')}\n`);
}

function isInRepository(directory: string): boolean {
  return succeeds(directory, 'rev-parse', '--is-inside-work-tree');
}

function isIgnored(directory: string, name: string): boolean {
  return succeeds(directory, 'check-ignore', '--quiet', name);
}

function succeeds(directory: string, ...args: readonly string[]): boolean {
  try {
    execFileSync('git', [...args], { cwd: directory, stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

/** Checks the files that variables of the environment refer to. */
export const mountedSecrets =
  (files: readonly SecretFile[]): Check =>
  () => {
    const open = files.filter(
      ({ path }) => process.platform !== 'win32' && (statSync(path).mode & 0o007) !== 0,
    );
    if (open.length === 0)
      return ok(`${files.map(({ variable }) => variable).join(', ')}: not readable by others`);
    const named = open.map(({ variable, path }) => `${path} (${variable})`).join(', ');
    return warning(`${named} can be read by others`, 'give the files mode 0400 and the user that runs svc');
  };

function isCommitted(directory: string, name: string): boolean {
  return succeeds(directory, 'ls-files', '--error-unmatch', name);
}

export const functions =
  (config: Config, directory: string): Check =>
  () => {
    if (config.functions.length === 0) return ok('no functions are declared');
    checkFunctions(config.functions, directory, process.execPath);
    const folder = join(directory, 'functions');
    const manifest = join(folder, 'package.json');
    if (existsSync(manifest) && /"dependencies"\s*:\s*\{\s*"/.test(readFileSync(manifest, 'utf8'))) {
      if (!existsSync(join(folder, 'package-lock.json')))
        return warning('functions/package.json has no lockfile', 'npm install --prefix functions');
      if (!existsSync(join(folder, 'node_modules')))
        return warning('the dependencies of functions are not installed', 'npm ci --prefix functions');
    }
    return ok(`${config.functions.length} functions are declared, and their files exist`);
  };

/** Checks whether the URL in mails leads to this service. */
export const baseUrl =
  (config: Config, env: Environment): Check =>
  async () => {
    const url = publicBaseUrl(env)(config);
    if (url === undefined)
      return warning(
        'SVC_BASE_URL is not set: mails and sign-in with a provider need it',
        'SVC_BASE_URL=https://api.example.com',
      );
    if (url.startsWith('http:') && !/^http:\/\/(localhost|127\.|\[::1\])/.test(url))
      return warning(
        `${url} is not encrypted`,
        'put a proxy with TLS in front, see docs/operations/from-nothing.md',
      );
    const answer = await fetch(`${url}/health`, { signal: AbortSignal.timeout(5_000) }).catch(
      () => undefined,
    );
    if (answer === undefined)
      return warning(
        `${url} does not respond from this machine`,
        'check DNS, the proxy, and whether svc is running',
      );
    return answer.ok
      ? ok(`${url} responds`)
      : warning(`${url}/health responds with ${answer.status}`, 'check whether the proxy forwards to svc');
  };
