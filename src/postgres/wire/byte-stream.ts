// The socket under a connection, and how it is read once `pg` has opened it.
import { Buffer } from 'node:buffer';
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';

/** The first `length` bytes have been read; with `isReused` the next read overwrites them. */
export type OnBytes = (bytes: Buffer, length: number, isReused: boolean) => void;

export type ByteStream = {
  readonly socket: Duplex;
  /** Hands everything that is read from now on to `take`. */
  read(take: OnBytes): void;
};

const READ_BYTES = 64 * 1024;

/**
 * A socket that reuses one read buffer: allocating one for each read costs more than a small answer. Until `read` is
 * called it emits ordinary 'data' events, with bytes that stay valid.
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

/** Any other stream: TLS, which has buffers of its own. */
export function plainStream(socket: Duplex): ByteStream {
  return {
    socket,
    read: (take) => socket.on('data', (bytes: Buffer) => take(bytes, bytes.length, false)),
  };
}
