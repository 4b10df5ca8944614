/**
 * Gives the memory of a chunk back now instead of at some garbage collection: bytes outside the heap do not make
 * the collector hurry, and a large transfer would leave tens of megabytes of them behind. The chunk is empty
 * afterwards. One that shares its memory with others is left alone.
 */
export function releaseBytes(chunk: Buffer): void {
  const { buffer } = chunk;
  if (chunk.byteLength === 0 || chunk.byteLength !== buffer.byteLength) return;
  if (buffer instanceof ArrayBuffer) buffer.transfer(0);
}
