// Measures a delivery without svc: sockets of `ws`, and each POST writes one prepared frame to all of them. Started
// by fan-out.ts; prints its address.
// one frame that was made once. Started by fan-out.ts; prints where it listens.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { WebSocketServer } from 'ws';
import { toFrame } from '../../src/realtime/protocol/frame.ts';

const sockets: Duplex[] = [];
const webSockets = new WebSocketServer({ noServer: true, perMessageDeflate: false, clientTracking: false });

const server = createServer((request, response) => {
  let body = '';
  request.on('data', (part: Buffer) => (body += part.toString()));
  request.on('end', () => {
    const payload = `{"type":"broadcast","event":"x","payload":${body}}`;
    const frame = toFrame(`[null,null,"realtime:bench","broadcast",${payload}]`);
    for (const socket of sockets) socket.write(frame);
    response.writeHead(202).end();
  });
});
server.on('upgrade', (request, socket, head) => {
  webSockets.handleUpgrade(request, socket, head, (ws) => {
    ws.on('error', () => {});
    sockets.push(socket);
    // Respond to joins and heartbeats.
    ws.on('message', () => ws.send('["1","1","realtime:bench","phx_reply",{"status":"ok","response":{}}]'));
  });
});
server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`http://127.0.0.1:${(server.address() as AddressInfo).port}\n`);
});
