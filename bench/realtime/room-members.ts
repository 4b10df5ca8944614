// Opens sockets at several servers in a separate process. They join rooms in turn. Started by rooms.ts with
// addresses, a key, the number of sockets per server, and the number of rooms. Sends `{}` once all have joined.
// Answers `{ perSecond, seconds }` with the deliveries of broadcasts that one member of each room sent in that time.
import { once } from 'node:events';
import { WebSocket } from 'ws';
import { until } from '../backend.ts';

/** `ms`: median, 99th percentile and maximum from sending to receiving. `own`: messages received by their sender. */
export type Deliveries = {
  readonly sent: number;
  readonly wanted: number;
  readonly received: number;
  readonly duplicates: number;
  readonly misplaced: number;
  readonly own: number;
  readonly ms: readonly number[];
};

type Member = { readonly ws: WebSocket; last: number };

const AT_ONCE = 100;
const QUIET_MS = 1_000;
const HEARTBEAT_INTERVAL_MS = 20_000;
const TEXT = 'x'.repeat(230);

const [urls = '', key = '', count = '0', roomCount = '1'] = process.argv.slice(2);
const rooms: Member[][] = Array.from({ length: Number(roomCount) }, () => []);
const speakers = new Set<Member>();
let received = 0;
let duplicates = 0;
let misplaced = 0;
let own = 0;
let lastReceivedAt = 0;
let late: number[] = [];

const places = urls.split(',').flatMap((url, server) =>
  // Consecutive rooms start at different instances.
  Array.from({ length: Number(count) }, (_, n) => ({ url, room: (n + server) % rooms.length })),
);
while (places.length > 0) await Promise.all(places.splice(0, AT_ONCE).map(join));
rooms.forEach((members, n) => {
  const speaker = members[n % members.length];
  if (speaker) speakers.add(speaker);
});
setInterval(() => {
  for (const { ws } of rooms.flat()) ws.send('[null,"2","phoenix","heartbeat",{}]');
}, HEARTBEAT_INTERVAL_MS);
process.on('message', (asked: { perSecond: number; seconds: number }) => void talk(asked));
process.send?.({});

async function join({ url, room }: { url: string; room: number }): Promise<void> {
  const ws = new WebSocket(`${url.replace('http', 'ws')}/realtime/v1/websocket?apikey=${key}&vsn=2.0.0`, {
    perMessageDeflate: false,
  });
  await once(ws, 'open');
  ws.send(JSON.stringify(['1', '1', `realtime:room ${room}`, 'phx_join', { config: {} }]));
  await once(ws, 'message');
  const member: Member = { ws, last: 0 };
  ws.on('message', (data: Buffer) => {
    const found = /"n":(\d+),"at":([\d.]+)/.exec(data.toString());
    if (!found) return;
    const n = Number(found[1]);
    if (speakers.has(member)) own += 1;
    else received += 1;
    if (n === member.last) duplicates += 1;
    else if (n < member.last) misplaced += 1;
    member.last = n;
    lastReceivedAt = performance.now();
    late.push(lastReceivedAt - Number(found[2]));
  });
  rooms[room]?.push(member);
}

let number = 0;

async function talk({ perSecond, seconds }: { perSecond: number; seconds: number }): Promise<void> {
  received = duplicates = misplaced = own = 0;
  late = [];
  const startedAt = performance.now();
  const all = [...speakers];
  let sent = 0;
  let wanted = 0;
  while (sent < perSecond * seconds) {
    const due = startedAt + (sent * 1000) / perSecond;
    const early = due - performance.now();
    if (early > 1) await new Promise((resolve) => setTimeout(resolve, early));
    const at = sent % all.length;
    number += 1;
    const payload = {
      type: 'broadcast',
      event: 'x',
      payload: { n: number, at: performance.now(), text: TEXT },
    };
    all[at]?.ws.send(JSON.stringify(['1', null, `realtime:room ${at}`, 'broadcast', payload]));
    wanted += (rooms[at]?.length ?? 1) - 1;
    sent += 1;
  }
  lastReceivedAt = Math.max(lastReceivedAt, performance.now());
  // Wait until all messages have arrived, or no more arrive.
  await until(() => received >= wanted || performance.now() - lastReceivedAt > QUIET_MS);
  const sorted = late.toSorted((a, b) => a - b);
  const at = (share: number): number =>
    sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
  const deliveries: Deliveries = {
    sent,
    wanted,
    received,
    duplicates,
    misplaced,
    own,
    ms: [at(0.5), at(0.99), at(1)],
  };
  process.send?.(deliveries);
}
