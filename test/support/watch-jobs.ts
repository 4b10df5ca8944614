// A failed background job is only visible as a log line (with `job`). A world that uses this log fails at its end if a
// job has failed.
import { createLog, type Log } from '../../src/log/log.ts';

export function watchJobs(): { log: Log; assertQuiet(expected?: readonly string[]): void } {
  const said: Array<{ readonly job: unknown; readonly message: string; readonly line: string }> = [];
  const log = createLog({
    level: 'warn',
    destination: {
      write(line) {
        const { job, msg } = JSON.parse(line) as { job?: unknown; msg?: unknown };
        if (job !== undefined) said.push({ job, message: String(msg), line });
      },
    },
  });
  return {
    log,
    assertQuiet(expected = []) {
      const failed = said.filter(({ message }) => !expected.some((start) => message.startsWith(start)));
      if (failed.length > 0)
        throw new Error(`background jobs failed:\n${failed.map(({ line }) => line).join('')}`);
    },
  };
}
