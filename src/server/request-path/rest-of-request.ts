// Reads and drops the rest of a request after its response. Closing immediately would reset the connection before the
// client has read the response.
import type { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import type { FastifyReply, FastifyRequest } from 'fastify';

/**
 * Limited by time and not by bytes: simple clients write the whole body before they read
 * (docs/decisions/0092).
 */
const LINGER_MS = 1_000;

/** Connections with a response that was sent before its request was complete. */
const answered = new WeakSet<Socket>();

/** Returns whether the request on this connection has its response already. It must not get a second one. */
export function isAnswered(socket: Socket): boolean {
  return answered.has(socket);
}

/**
 * Destroys the request after the response: Node does not report a broken body then, and its reader would
 * wait forever.
 */
export function endBodyWith({ raw, request }: FastifyReply): void {
  raw.once('close', () => request.raw.destroy());
}

/** Ends the request within a second. Closes the connection unless the request is complete by then. */
export function dropRest(request: IncomingMessage): void {
  const { socket } = request;
  // An injected request has no connection.
  if (!(socket instanceof Socket)) return;
  answered.add(socket);
  const stop = destroySoon(socket);
  request.once('close', () => {
    stop();
    // The next request on this connection has no response yet.
    if (request.complete) answered.delete(socket);
  });
  request.resume();
}

/** Maximum size of a rest that is read to keep the connection open. */
const MAX_KEPT_BYTES = 65_536;

/**
 * Returns whether this response should close the connection, because much of the request may still arrive.
 */
export function endsWithAnswer({ raw, headers }: FastifyRequest, status: number): boolean {
  if (raw.complete || status < 400) return false;
  return status === 413 || Number(headers['content-length']) > MAX_KEPT_BYTES;
}

/**
 * Reads the rest of the request before the connection closes. Node closes immediately after `Connection:
 * close`, and unread
 * bytes would reset the connection before the client has read the response.
 */
export function closeAfterRest(request: IncomingMessage): void {
  const { socket } = request;
  if (!(socket instanceof Socket)) return;
  socket.destroySoon = () => {
    socket.end();
    if (request.closed) socket.destroy();
    else request.once('close', () => socket.destroy());
  };
}

/** Drops bytes that belong to no request. */
export function dropAll(socket: Socket): void {
  answered.add(socket);
  socket.once('close', destroySoon(socket)).resume();
}

function destroySoon(socket: Socket): () => void {
  const timer = setTimeout(() => socket.destroy(), LINGER_MS);
  timer.unref();
  return () => clearTimeout(timer);
}
