// Prints the work of our server per request, in figures that hardly depend on the load of the machine: calls of
// JavaScript functions, and bytes on the heap. test/rest/work-per-request.slow.test.ts bounds them.
//
//   node bench/rest/work.ts [--only W1,W3] [--calls] [--before folder] [--log info] [--functions 20]
//
// --calls      counts calls only, which takes a few seconds
// --before     another checkout, which is measured too
// --log        level of the request log; default: none
// --functions  prints the functions with the most calls
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { startEmbeddedPostgres } from '../../src/embedded-postgres/embedded-postgres.ts';
import { silentLog } from '../../src/log/log.ts';
import { print } from '../backend.ts';
import { startCountedServer } from './counted-server.ts';
import { WORKLOADS } from './dataset.ts';

const { values } = parseArgs({
  options: {
    only: { type: 'string' },
    calls: { type: 'boolean', default: false },
    before: { type: 'string' },
    log: { type: 'string' },
    functions: { type: 'string', default: '0' },
  },
});
const wanted = values.only?.split(',');
const checkouts = values.before === undefined ? [undefined] : [undefined, values.before];

for (const checkout of checkouts) {
  print(checkout === undefined ? 'svc' : 'before');
  await measure(checkout);
}

async function measure(checkout: string | undefined): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-bench-'));
  const postgres = await startEmbeddedPostgres({
    dir: join(folder, '.svc'),
    log: silentLog,
    durability: 'throwaway',
  });
  try {
    const server = await startCountedServer({
      databaseUrl: postgres.url,
      posts: 10_000,
      logLevel: values.log,
      program: checkout === undefined ? undefined : pathToFileURL(join(checkout, 'bench/rest/server.ts')),
    });
    for (const workload of WORKLOADS) {
      if (wanted && !wanted.includes(workload.id)) continue;
      const bytes = values.calls ? undefined : await server.countBytes(workload);
      const { total, byFunction } = await server.countCalls(workload);
      const figures = bytes && `, ${round(bytes.allocated)} B allocated, ${round(bytes.promoted)} B promoted`;
      print(`${workload.id} ${workload.title}: ${round(total)} calls${figures ?? ''}`);
      const functions = Object.entries(byFunction).toSorted(([, a], [, b]) => b - a);
      for (const [name, calls] of functions.slice(0, Number(values.functions)))
        print(`  ${calls.toFixed(1).padStart(6)} ${name}`);
    }
    await server.stop();
  } finally {
    await postgres.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

function round(figure: number): string {
  return figure.toFixed(0);
}
