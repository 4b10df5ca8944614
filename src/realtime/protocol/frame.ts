// Encodes WebSocket frames as a server sends them: final, not masked, not compressed. A frame for many sockets is
// encoded once.

const FINAL = 0x80;
const OPCODE = { text: 0x1, binary: 0x2 } as const;
/** Larger payloads have their length in the next 2 or 8 bytes. */
const MAX_SHORT_LENGTH = 125;
const MAX_MEDIUM_LENGTH = 0xffff;

export function toFrame(data: string | Uint8Array): Buffer {
  const length = typeof data === 'string' ? Buffer.byteLength(data) : data.length;
  const head = length <= MAX_SHORT_LENGTH ? 2 : length <= MAX_MEDIUM_LENGTH ? 4 : 10;
  const frame = Buffer.allocUnsafe(head + length);
  frame[0] = FINAL | (typeof data === 'string' ? OPCODE.text : OPCODE.binary);
  if (head === 2) frame[1] = length;
  else if (head === 4) {
    frame[1] = 126;
    frame.writeUInt16BE(length, 2);
  } else {
    frame[1] = 127;
    frame.writeBigUInt64BE(BigInt(length), 2);
  }
  if (typeof data === 'string') frame.write(data, head, 'utf8');
  else frame.set(data, head);
  return frame;
}
