import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/**
 * Returns the garbage of the start-up to the system: tens of megabytes that V8 would only collect under pressure, which
 * an idle server never has.
 */
export function freeStartupMemory(): void {
  setFlagsFromString('--expose-gc');
  const collect: unknown = runInNewContext('gc');
  // `last-resort` also shrinks the heap's spaces; an ordinary collection keeps them at the size they grew to.
  if (typeof collect === 'function') collect({ type: 'major', execution: 'sync', flavor: 'last-resort' });
}
