/**
 * Frees the memory of a chunk at once. Bytes outside the heap put no pressure on the garbage collector, so a large
 * transfer would leave tens of megabytes behind. The chunk is empty afterwards; one that shares its memory with others is
 * left alone.
 */
export function freeChunk(chunk: Buffer): void {
  const { buffer } = chunk;
  if (chunk.byteLength === 0 || chunk.byteLength !== buffer.byteLength) return;
  if (buffer instanceof ArrayBuffer) buffer.transfer(0);
}
