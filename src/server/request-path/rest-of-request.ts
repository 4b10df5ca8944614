// What still arrives of a request after its answer: read and dropped for a moment, because closing at once would reset
// the connection before the client has read the answer.
import type { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import type { FastifyReply } from 'fastify';

/** Bounded in time and not in bytes: simple clients write the whole body before they read (docs/decisions/0092). */
const LINGER_MS = 1_000;

/** Connections on which an answer has overtaken its request. */
const answered = new WeakSet<Socket>();

/** Whether the request that arrives on this connection has its answer already: it must get no second one. */
export function isAnswered(socket: Socket): boolean {
  return answered.has(socket);
}

/** Once the answer is sent Node tells nobody that the body broke off: whoever reads it would wait for ever. */
export function endBodyWith({ raw, request }: FastifyReply): void {
  raw.once('close', () => request.raw.destroy());
}

/** Ends the request within a second, and with it the connection unless the request was complete by then. */
export function dropRest(request: IncomingMessage): void {
  const { socket } = request;
  // A request that the program makes of itself has no connection.
  if (!(socket instanceof Socket)) return;
  answered.add(socket);
  const stop = destroySoon(socket);
  request.once('close', () => {
    stop();
    // Of the next request on this connection nothing is answered yet.
    if (request.complete) answered.delete(socket);
  });
  request.resume();
}

/** For bytes that belong to no request. */
export function dropAll(socket: Socket): void {
  answered.add(socket);
  socket.once('close', destroySoon(socket)).resume();
}

function destroySoon(socket: Socket): () => void {
  const timer = setTimeout(() => socket.destroy(), LINGER_MS);
  timer.unref();
  return () => clearTimeout(timer);
}
