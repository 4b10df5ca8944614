// Prints the progress of a long command to standard error: once a second on a terminal, otherwise once a minute.
import { trackProgress, type Progress } from '../../lib/progress.ts';
import type { Terminal } from '../terminal.ts';

const TERMINAL_INTERVAL_MS = 1_000;
const LOG_INTERVAL_MS = 60_000;

/** `intervalMs`: pause between two lines. A command that ends sooner prints none. */
export async function printProgress<T>(
  terminal: Terminal,
  work: () => Promise<T>,
  intervalMs: number = process.stderr.isTTY ? TERMINAL_INTERVAL_MS : LOG_INTERVAL_MS,
): Promise<T> {
  const startedAt = performance.now();
  let latest: Progress | undefined;
  const timer = setInterval(() => {
    if (latest !== undefined) terminal.printError(progressLine(latest, performance.now() - startedAt));
  }, intervalMs);
  try {
    return await trackProgress((progress) => (latest = progress), work);
  } finally {
    clearInterval(timer);
  }
}

/** Returns a line such as `files: 1200 of 5000 (01:07)`. */
export function progressLine({ step, done, total }: Progress, elapsedMs: number): string {
  const count = done === undefined ? '' : `: ${done}${total === undefined ? '' : ` of ${total}`}`;
  const seconds = Math.floor(elapsedMs / 1000);
  const time = [Math.floor(seconds / 60), seconds % 60]
    .map((part) => String(part).padStart(2, '0'))
    .join(':');
  return `${step}${count} (${time})`;
}
