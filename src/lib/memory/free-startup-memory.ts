import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** V8's default. The launcher has set 1 for the start (bin/memory-flags.js). */
const GROWING_YOUNG_HEAP = '--semi-space-growth-factor=2';

/**
 * Returns the garbage of the start-up to the system: tens of megabytes that V8 would collect only under pressure,
 * which an idle server never has. Afterwards the young heap can grow with the requests.
 */
export function freeStartupMemory(): void {
  setFlagsFromString(GROWING_YOUNG_HEAP);
  setFlagsFromString('--expose-gc');
  const collect: unknown = runInNewContext('gc');
  // `last-resort` also shrinks the heap's spaces; an ordinary collection keeps their size.
  if (typeof collect === 'function') collect({ type: 'major', execution: 'sync', flavor: 'last-resort' });
}
