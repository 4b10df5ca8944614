// Where memory is scarce, Node gets the one flag for it that cannot be set once it runs: how much of what requests
// leave behind may lie about before it is collected.
import { totalmem } from 'node:os';

/** Node lets it grow to 130 MB before it looks. In exchange, this costs a little more of the processor. */
export const SMALL_NURSERY = '--max-semi-space-size=8';
const SCARCE_BYTES = 1024 ** 3;

/**
 * Reading a file of a thousand tables leaves little behind that is needed longer, so a nursery that does not grow takes
 * two fifths less memory and hardly more time. What serves ends this in free-startup-memory.ts.
 */
const STEADY_NURSERY = '--semi-space-growth-factor=1';
const READ_THE_FILE = new Set(['dev', 'serve', 'validate', 'migrate', 'types', 'doctor']);

/** What is set for a command once Node runs: on its command line V8 would not take this one. */
export function nurseryFlags(command) {
  return READ_THE_FILE.has(command) ? [STEADY_NURSERY] : [];
}

/** Flags to start with again; none where there is memory enough, and none to change what somebody has chosen. */
export function memoryFlags({
  env = process.env,
  execArgv = process.execArgv,
  // 0 or a number beyond all memory where nothing limits the process.
  limit = process.constrainedMemory?.() || Infinity,
  total = totalmem(),
} = {}) {
  const given = [...execArgv, ...(env.NODE_OPTIONS ?? '').split(/\s+/)];
  const isChosen = given.some((flag) => /^--max[-_]semi[-_]space[-_]size\b/.test(flag));
  // A debugger holds on to the process it has found.
  const isDebugged = given.some((flag) => flag.startsWith('--inspect'));
  if (isChosen || isDebugged || env.SVC_SMALL_MEMORY === '0') return [];
  const isScarce = env.SVC_SMALL_MEMORY === '1' || Math.min(limit, total) <= SCARCE_BYTES;
  return isScarce ? [SMALL_NURSERY] : [];
}
