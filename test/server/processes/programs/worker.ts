// A worker without a database whose requests select its behaviour: `worker.ts <port> [option=value …]`.
import { readFileSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { ParentLink } from '../../../../src/supervisor/parent-link.ts';

const [, , portText, ...given] = process.argv;
const options = new Map(given.map((argument) => argument.split('=') as [string, string]));
const parent = await ParentLink.join();
if (!parent) throw new Error('this program has a parent');
const exitAtStart =
  options.get(`exit${parent.process}`) ?? options.get('exit') ?? readPlan(options.get('plan'));
if (exitAtStart !== undefined) process.exit(Number(exitAtStart));

/** Removes the first line of a file with one line per start, and returns it: an exit code, or undefined. */
function readPlan(path: string | undefined): string | undefined {
  if (path === undefined) return undefined;
  const [first, ...rest] = readFileSync(path, 'utf8').split('\n');
  writeFileSync(path, rest.join('\n'));
  return first === '' ? undefined : first;
}

// Blocks the event loop after the first report, as a start with much to load does.
const blockMs = Number(options.get(`block${parent.process}`) ?? 0);
if (blockMs > 0) await delay(1_500);
for (const until = performance.now() + blockMs; performance.now() < until;);

const file = options.get('file');
const read = (): string => (file === undefined ? '' : readFileSync(file, 'utf8'));
let text = read();
let isReady = true;
let isLeaving = false;

const server = createServer((request, response) => {
  void (async () => {
    const [, command = '', value = ''] = (request.url ?? '').split('/');
    if (command === 'exit') process.exit(1);
    if (command === 'hang') for (;;);
    if (command === 'unready') isReady = false;
    if (command === 'ready') isReady = true;
    if (command === 'wait') await delay(Number(value));
    if (command === 'reload') {
      process.stdout.write(`${JSON.stringify({ msg: 'asking', process: parent.process })}\n`);
      await parent.reloadOthers();
    }
    if (isLeaving) response.setHeader('connection', 'close');
    const { pid } = process;
    const figures = command === 'figures' ? await parent.figures() : undefined;
    response.end(
      JSON.stringify({
        figures,
        pid,
        process: parent.process,
        text,
        isLeaving,
        secret: process.env['SVC_SECRET_KEY'],
      }),
    );
  })();
});
server.listen(parent.port ?? Number(portText));
await once(server, 'listening');
const { port } = server.address() as AddressInfo;
parent.serve({
  port,
  served: () => ({ config: text, drainDelayMs: Number(options.get('delay') ?? 0) }),
  report: () =>
    Promise.resolve({ ready: isReady, probed: options.has('delay'), memoryBytes: 1, connections: 0 }),
  reload: () => {
    const next = read();
    if (next === 'bad') return Promise.reject(new Error('refused'));
    text = next;
    return Promise.resolve();
  },
  listen: async (open) => {
    if (!open) server.close();
    else await once(server.listen(port), 'listening');
  },
});
process.stdout.write(
  `${JSON.stringify({ msg: 'serving', process: parent.process, pid: process.pid, port })}\n`,
);
const { until } = await parent.left;
isLeaving = true;
await until;
server.closeIdleConnections();
await new Promise((resolve) => server.close(resolve));
parent.close();
