// `npm run check`: format, lint, types, architecture and English. They run at the same time, because each check keeps
// only one core busy.
import { spawn } from 'node:child_process';
import { once } from 'node:events';

const CHECKS = ['format:check', 'lint', 'types', 'architecture', 'english'];

const results = await Promise.all(CHECKS.map(check));
process.exitCode = results.every(Boolean) ? 0 : 1;

/** Prints the output of a check that has failed. Returns whether it passed. */
async function check(name: string): Promise<boolean> {
  const startedAt = performance.now();
  const child = spawn('npm', ['run', '--silent', name], {
    stdio: ['ignore', 'pipe', 'pipe'],
    shell: process.platform === 'win32',
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (output += text));
  const [code] = (await once(child, 'close')) as [number | null];
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
  process.stdout.write(code === 0 ? `✓ ${name} (${seconds} s)\n` : `${output}\n✗ ${name} (${seconds} s)\n`);
  return code === 0;
}
