// Bounds the work of the server per request: calls of JavaScript functions, and bytes on the heap. Both hardly depend
// on the load of the machine. `node bench/rest/work.ts --functions 40` shows where the calls are.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startCountedServer, type CountedServer } from '../../bench/rest/counted-server.ts';
import { WORKLOADS } from '../../bench/rest/dataset.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';

/** Figures of 2026-11-27. A tenth more fails. */
const WORK = {
  W1: { calls: 1_460, bytes: 33_500 },
  W3: { calls: 1_600, bytes: 43_000 },
  W4: { calls: 1_440, bytes: 35_000 },
  W8: { calls: 1_600, bytes: 39_500 },
};
const TOLERANCE = 1.1;

let database: TestDatabase;
let server: CountedServer;

beforeAll(async () => {
  database = await createDatabase();
  server = await startCountedServer({ databaseUrl: database.url, posts: 3_000, logLevel: 'info' });
});

afterAll(async () => {
  await server.stop();
  await database.drop();
});

test.each(Object.entries(WORK))('%s needs no more calls and bytes than before', async (id, before) => {
  const workload = WORKLOADS.find((candidate) => candidate.id === id);
  if (!workload) throw new Error(`there is no workload ${id}`);
  const { allocated } = await server.countBytes(workload);
  const { total } = await server.countCalls(workload);
  expect(total, 'function calls per request').toBeLessThan(before.calls * TOLERANCE);
  expect(allocated, 'bytes on the heap per request').toBeLessThan(before.bytes * TOLERANCE);
});
