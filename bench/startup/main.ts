// Measures start-up time and idle memory of `svc dev` with the todo example: first start (empty .svc), restart, and
// resident memory of the idle service process. Prints figures without a pass criterion.
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startSvc } from '../../test/support/svc-process.ts';

const EXAMPLE = fileURLToPath(new URL('../../examples/todo', import.meta.url));
const ROUNDS = 5;
const QUIET_MS = 3_000;

const first: number[] = [];
const again: number[] = [];
const memory: number[] = [];

for (let round = 0; round < ROUNDS; round++) {
  const folder = mkdtempSync(join(tmpdir(), 'svc-bench-'));
  try {
    cpSync(EXAMPLE, folder, { recursive: true, filter: (path) => !/\.svc|\.env$/.test(path) });
    const config = join(folder, 'svc.yaml');
    for (const times of [first, again]) {
      const svc = await startSvc({ command: 'dev', config });
      const sample = await fetch(`${svc.url}/rest/v1/tips?select=*`, {
        headers: { apikey: svc.publishableKey },
      });
      if (!sample.ok) throw new Error(`the todo API answered ${sample.status}`);
      times.push(svc.readyInMs);
      await new Promise((resolve) => setTimeout(resolve, QUIET_MS));
      if (svc.child.pid) memory.push(residentMegabytes(svc.child.pid));
      await svc.stop();
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

print('first start, empty .svc', first, 'ms');
print('restart', again, 'ms');
print('idle memory of the service', memory, 'MB');

function print(name: string, values: readonly number[], unit: string): void {
  const sorted = [...values].sort((a, b) => a - b);
  const median = sorted[Math.floor(sorted.length / 2)] ?? 0;
  console.log(
    `${name.padEnd(28)} min ${sorted[0]?.toFixed(0)}  median ${median.toFixed(0)}  ` +
      `max ${sorted.at(-1)?.toFixed(0)} ${unit}`,
  );
}

function residentMegabytes(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1] ?? 0) / 1024;
}
