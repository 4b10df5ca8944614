// Opens many sockets in a separate process. They join the topic `bench` and count received messages. Started by
// fan-out.ts with the address of a server, a key and the number of sockets. Sends `{ received }` once all have joined.
// Commands: `begin` resets the count and is answered when no message is in flight, `received` returns the count, `end`
// resumes heartbeats.
import { once } from 'node:events';
import { WebSocket } from 'ws';

const AT_ONCE = 100;
/** Heartbeat interval. A server closes sockets without a message for a minute. No heartbeats during a measurement. */
const HEARTBEAT_INTERVAL_MS = 20_000;
const HEARTBEAT = JSON.stringify([null, '2', 'phoenix', 'heartbeat', {}]);

const [url = '', key = '', count = '0'] = process.argv.slice(2);
const sockets: WebSocket[] = [];
let received = 0;
let unanswered = 0;
let isMeasured = false;
let notifyIdle: (() => void) | undefined;

setInterval(() => {
  if (!isMeasured) beat();
}, HEARTBEAT_INTERVAL_MS);
while (sockets.length < Number(count)) {
  const batch = Math.min(AT_ONCE, Number(count) - sockets.length);
  sockets.push(...(await Promise.all(Array.from({ length: batch }, join))));
}
process.on('message', (asked) => void answer(asked));
process.send?.({ received });

async function answer(asked: unknown): Promise<void> {
  isMeasured = asked !== 'end';
  if (asked === 'begin') {
    const idle = new Promise<void>((resolve) => (notifyIdle = resolve));
    beat();
    await idle;
    received = 0;
  }
  process.send?.({ received });
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
    if (!data.includes('phx_reply')) received += 1;
    else if (--unanswered === 0) notifyIdle?.();
  });
  return socket;
}
