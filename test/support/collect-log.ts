// A log that keeps its lines for tests.
import { createLog, type Log } from '../../src/log/log.ts';

export type LogLine = Readonly<Record<string, unknown>>;

export function collectLog(level = 'info'): { log: Log; lines: () => readonly LogLine[] } {
  const kept: LogLine[] = [];
  const log = createLog({
    level,
    destination: { write: (line) => void kept.push(JSON.parse(line) as LogLine) },
  });
  return { log, lines: () => kept };
}
