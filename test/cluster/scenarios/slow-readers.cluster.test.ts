import { readFileSync } from 'node:fs';
import { get, type ClientRequest } from 'node:http';
import { query } from '../database.ts';
import { PUBLISHABLE_KEY } from '../instance.ts';
import { ask, Notes, NOTES } from '../load.ts';
import type { Scenario } from '../scenario.ts';

const MB = 1024 * 1024;
const BUDGET = 64 * MB;
const CALLERS = 10;

export const scenario: Scenario = {
  name: 'slow-readers',
  about:
    'ten callers ask for 90 MB each and read nothing of it: memory stays within its limit, others are served',
  async run(stage) {
    const config = stage.config(NOTES, 'server: { response_budget: 64MB }\n');
    const instance = stage.start({ machine: 'app1', config, database: stage.url() });
    await instance.whenReady();
    const notes = new Notes(stage.folder);
    await ask(instance.url, notes.write());
    await query(
      stage.database,
      `insert into notes select gen_random_uuid(), repeat('x', 100000) from generate_series(1, 900)`,
    );
    // One small read first, which opens its connections.
    await ask(instance.url, notes.read());
    const before = readMemory(instance.child.pid!);

    const requests: ClientRequest[] = [];
    stage.afterwards(() => requests.forEach((request) => request.destroy()));
    let settled = 0;
    for (let caller = 0; caller < CALLERS; caller++) {
      // Each query is different, so that no caller shares the response of another.
      const path = `/rest/v1/notes?select=body&body=neq.${caller}`;
      const options = { headers: { apikey: PUBLISHABLE_KEY }, localAddress: `10.86.0.${101 + caller}` };
      const request = get(`${instance.url}${path}`, options, (response) => {
        settled += 1;
        response.pause();
        response.on('error', () => undefined);
      });
      request.on('error', () => (settled += 1));
      requests.push(request);
    }
    let most = 0;
    const small = stage.load({ urls: [instance.url], clients: 1, next: () => notes.read(), pause: 50 });
    const watch = setInterval(() => (most = Math.max(most, readMemory(instance.child.pid!))), 50);
    await small.answered(100);
    await small.stop();
    clearInterval(watch);
    stage.note(`answers begun or refused: ${settled} of ${CALLERS}`);
    const growth = most - before;
    stage.claim(
      'memory grows by no more than the budget and 100 MB',
      growth <= BUDGET + 100 * MB,
      `${Math.round(growth / MB)} MB from ${Math.round(before / MB)} MB`,
    );
    stage.claim('a small read of another client always succeeds', small.failed.length === 0, small.summary());
  },
};

/** Resident memory of a process, in bytes. */
const readMemory = (pid: number): number =>
  Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024;
