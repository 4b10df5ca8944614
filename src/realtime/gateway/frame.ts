// A WebSocket frame as a server sends it: whole, not masked, not compressed. One that goes to many sockets is made once
// and written to each as it is.

const FINAL = 0x80;
const OPCODE = { text: 0x1, binary: 0x2 } as const;
/** Larger payloads have their length in the next 2 bytes, or in the next 8. */
const LARGEST_SHORT = 125;
const LARGEST_MEDIUM = 0xffff;

export function toFrame(data: string | Uint8Array): Buffer {
  const length = typeof data === 'string' ? Buffer.byteLength(data) : data.length;
  const head = length <= LARGEST_SHORT ? 2 : length <= LARGEST_MEDIUM ? 4 : 10;
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
