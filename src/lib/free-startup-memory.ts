import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** V8's default. The launcher has set 1 for the start (bin/small-memory.js). */
const GROWING_NURSERY = '--semi-space-growth-factor=2';

/**
 * Returns the garbage of the start-up to the system: tens of megabytes that V8 would only collect under pressure, which
 * an idle server never has. From then on the nursery may grow with what requests leave behind.
 */
export function freeStartupMemory(): void {
  setFlagsFromString(GROWING_NURSERY);
  setFlagsFromString('--expose-gc');
  const collect: unknown = runInNewContext('gc');
  // `last-resort` also shrinks the heap's spaces; an ordinary collection keeps them at the size they grew to.
  if (typeof collect === 'function') collect({ type: 'major', execution: 'sync', flavor: 'last-resort' });
}
