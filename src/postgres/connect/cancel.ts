// Sends CancelRequest on a separate connection (protocol, "Canceling Requests in Progress"). It goes to the same
// server with the same TLS settings, because it contains the key of the connection to cancel.
import type { DatabaseAddress } from '../address/database-address.ts';
import type { Endpoint } from './endpoint.ts';
import { openStream } from './open-stream.ts';

export type BackendKey = { readonly processID: number; readonly secretKey: number | Buffer };

const CANCEL_REQUEST_CODE = 80_877_102;
const CANCEL_TIMEOUT_MS = 2_000;

/**
 * Resolves when the server has signalled the backend or was unreachable. An undelivered cancel is harmless:
 * `statement_timeout` still ends the statement.
 */
export async function sendCancel(
  { tls, keepAliveMs }: DatabaseAddress,
  { place, isEncrypted }: { readonly place: Endpoint; readonly isEncrypted: boolean },
  key: BackendKey,
): Promise<void> {
  const signal = AbortSignal.timeout(CANCEL_TIMEOUT_MS);
  try {
    const encryption = isEncrypted ? 'required' : 'none';
    const { socket } = await openStream(place, { tls, encryption, keepAliveMs, signal });
    const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
    signal.addEventListener('abort', () => socket.destroy());
    // The server closes the connection after it has signalled the backend.
    socket.resume().end(cancelRequest(key));
    await closed;
  } catch {
    // As above.
  }
}

function cancelRequest({ processID, secretKey }: BackendKey): Buffer {
  const key = typeof secretKey === 'number' ? Buffer.alloc(4) : secretKey;
  if (typeof secretKey === 'number') key.writeInt32BE(secretKey);
  const head = Buffer.alloc(12);
  head.writeInt32BE(head.length + key.length, 0);
  head.writeInt32BE(CANCEL_REQUEST_CODE, 4);
  head.writeInt32BE(processID, 8);
  return Buffer.concat([head, key]);
}
