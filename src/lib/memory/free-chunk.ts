/**
 * Frees the memory of a chunk at once. Bytes outside the heap do not trigger the garbage collector, so a large
 * transfer would occupy tens of megabytes for long. The chunk is empty afterwards. A chunk with shared memory stays
 * unchanged.
 */
export function freeChunk(chunk: Buffer): void {
  const { buffer } = chunk;
  if (chunk.byteLength === 0 || chunk.byteLength !== buffer.byteLength) return;
  if (buffer instanceof ArrayBuffer) buffer.transfer(0);
}
