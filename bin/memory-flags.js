// V8 flags that limit the memory for short-lived objects.

/**
 * Without this flag, V8 lets short-lived objects grow to 130 MB before it collects them. Node reads it only at its
 * start (docs/decisions/0095).
 */
export const YOUNG_HEAP_LIMIT = '--max-semi-space-size=8';

/**
 * Reading a file of a thousand tables leaves little behind that is needed longer. With a young heap that does not grow,
 * it takes two fifths less memory and hardly more time. A server ends this in free-startup-memory.ts.
 */
const STEADY_YOUNG_HEAP = '--semi-space-growth-factor=1';
const COMMANDS_THAT_READ_THE_FILE = new Set(['dev', 'serve', 'validate', 'migrate', 'types', 'doctor']);

/** Returns the flags that are set for a command while Node runs. V8 ignores them on its command line. */
export function runtimeFlags(command) {
  return COMMANDS_THAT_READ_THE_FILE.has(command) ? [STEADY_YOUNG_HEAP] : [];
}

/** Returns the flags that need a restart of Node. None if the user has set the size, or a debugger is attached. */
export function restartFlags({ env = process.env, execArgv = process.execArgv } = {}) {
  const given = [...execArgv, ...(env.NODE_OPTIONS ?? '').split(/\s+/)];
  const isChosen = given.some((flag) => /^--max[-_]semi[-_]space[-_]size\b/.test(flag));
  // A debugger would lose the process.
  const isDebugged = given.some((flag) => flag.startsWith('--inspect'));
  return isChosen || isDebugged ? [] : [YOUNG_HEAP_LIMIT];
}
