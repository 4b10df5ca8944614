// The socket of a connection, and its reader after `pg` has opened it.
import { Buffer } from 'node:buffer';
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';

/** The first `length` bytes are valid. With `isReused` the next read overwrites them. */
export type OnBytes = (bytes: Buffer, length: number, isReused: boolean) => void;

export type ByteStream = {
  readonly socket: Duplex;
  /** Passes all further bytes to `take`. */
  read(take: OnBytes): void;
};

const READ_BYTES = 64 * 1024;

/**
 * Creates a socket that reuses one read buffer: an allocation per read costs more than a small response. Until `read`
 * is called it emits ordinary 'data' events, with bytes that stay valid.
 */
export function reusingSocket(): ByteStream & { readonly socket: Socket } {
  let take: OnBytes | undefined;
  const socket: Socket = new Socket({
    onread: {
      buffer: Buffer.allocUnsafeSlow(READ_BYTES),
      callback: (length, bytes) => {
        if (take) take(bytes as Buffer, length, true);
        else socket.emit('data', Buffer.from(bytes.subarray(0, length)));
        return true;
      },
    },
  });
  return {
    socket,
    read: (taker) => {
      take = taker;
    },
  };
}

/** Wraps any other stream, such as TLS, which allocates its buffers itself. */
export function plainStream(socket: Duplex): ByteStream {
  return {
    socket,
    read: (take) => socket.on('data', (bytes: Buffer) => take(bytes, bytes.length, false)),
  };
}
