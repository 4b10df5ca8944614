// A real HAProxy (a Debian package) that passes bytes on to the tests' PostgreSQL; without it the tests are skipped.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../../../src/lib/free-port.ts';
import { accepts } from '../accepts.ts';

export type Haproxy = {
  /** The address with its host and port replaced by the proxy's. */
  through(url: string): string;
  /** Like a machine that hangs: connections stay, new ones are not answered, nothing is passed on until `thaw`. */
  freeze(): void;
  thaw(): void;
  stop(): Promise<void>;
};

const PROGRAM = ['/usr/sbin/haproxy', '/opt/homebrew/bin/haproxy'].find(
  (path) => spawnSync(path, ['-v']).status === 0,
);

/** Why it is not available. */
export const withoutHaproxy: string | undefined =
  PROGRAM === undefined ? 'HAProxy is not installed (apt-get install haproxy)' : undefined;

export async function startHaproxy(url: string): Promise<Haproxy> {
  if (PROGRAM === undefined) throw new Error(withoutHaproxy);
  const { hostname, port: serverPort } = new URL(url);
  const port = await freePort();
  const folder = mkdtempSync(join(tmpdir(), 'svc-haproxy-'));
  writeFileSync(
    join(folder, 'haproxy.cfg'),
    `defaults
  mode tcp
  timeout connect 5s
  timeout client 60s
  timeout server 60s
listen postgres
  bind 127.0.0.1:${port}
  server one ${hostname}:${serverPort || '5432'}
`,
  );
  const child = spawn(PROGRAM, ['-q', '-f', join(folder, 'haproxy.cfg')], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let output = '';
  child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()));
  while (!(await accepts(port))) {
    if (child.exitCode !== null) throw new Error(`HAProxy ended:\n${output}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  return {
    through(text) {
      const address = new URL(text);
      address.host = `127.0.0.1:${port}`;
      return address.href;
    },
    freeze: () => void child.kill('SIGSTOP'),
    thaw: () => void child.kill('SIGCONT'),
    async stop() {
      const ended = once(child, 'exit');
      child.kill('SIGKILL');
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
