// Many sockets that join the topic `bench` and count what they hear, in a process of their own. Started by fan-out.ts with
// the address of a server, a key and how many. Says `{ heard }` once all have joined, and to each message: `begin` counts
// from 0 and is answered when nothing is under way any more, `heard` tells the count, `end` lets heartbeats go on.
import { once } from 'node:events';
import { WebSocket } from 'ws';

const AT_ONCE = 100;
/** A server closes what it has not heard for a minute. Not while it is measured. */
const BEAT_EVERY_MS = 20_000;
const HEARTBEAT = JSON.stringify([null, '2', 'phoenix', 'heartbeat', {}]);

const [url = '', key = '', count = '0'] = process.argv.slice(2);
const sockets: WebSocket[] = [];
let heard = 0;
let unanswered = 0;
let isMeasured = false;
let tellQuiet: (() => void) | undefined;

setInterval(() => {
  if (!isMeasured) beat();
}, BEAT_EVERY_MS);
while (sockets.length < Number(count)) {
  const some = Math.min(AT_ONCE, Number(count) - sockets.length);
  sockets.push(...(await Promise.all(Array.from({ length: some }, join))));
}
process.on('message', (asked) => void answer(asked));
process.send?.({ heard });

async function answer(asked: unknown): Promise<void> {
  isMeasured = asked !== 'end';
  if (asked === 'begin') {
    const quiet = new Promise<void>((resolve) => (tellQuiet = resolve));
    beat();
    await quiet;
    heard = 0;
  }
  process.send?.({ heard });
}

function beat(): void {
  unanswered += sockets.length;
  for (const socket of sockets) socket.send(HEARTBEAT);
}

async function join(): Promise<WebSocket> {
  const socket = new WebSocket(`${url.replace('http', 'ws')}/realtime/v1/websocket?apikey=${key}&vsn=2.0.0`, {
    perMessageDeflate: false,
  });
  await once(socket, 'open');
  socket.send(JSON.stringify(['1', '1', 'realtime:bench', 'phx_join', { config: {} }]));
  await once(socket, 'message');
  socket.on('message', (data: Buffer) => {
    if (!data.includes('phx_reply')) heard += 1;
    else if (--unanswered === 0) tellQuiet?.();
  });
  return socket;
}
