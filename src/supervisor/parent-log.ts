// The parent's log lines: the shape of all others, without the library that writes those, which costs more memory than
// the rest of the parent.
const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;
type Level = 'info' | 'warn' | 'error';

export type ParentLog = (level: Level, fields: Readonly<Record<string, unknown>>, message: string) => void;

/** `level` as in SVC_LOG_LEVEL. `write` gets whole lines. */
export function parentLog(level: string | undefined, write: (line: string) => void): ParentLog {
  const least = LEVELS.findIndex((name) => name === (level ?? 'info'));
  return (at, fields, message) => {
    if (LEVELS.indexOf(at) < least) return;
    write(
      `${JSON.stringify({ level: at, time: new Date().toISOString(), process: 0, ...fields, msg: message })}\n`,
    );
  };
}

/** Renders `[10:31:02] WARN: a worker died` with the other fields below, like the lines of `svc dev`. */
export function readableLine(line: string): string {
  const { level, time, msg, ...fields } = JSON.parse(line) as Record<string, string>;
  const clock = new Date(time ?? 0).toTimeString().slice(0, 8);
  const more = Object.entries(fields).map(([name, value]) => `    ${name}: ${JSON.stringify(value)}\n`);
  return `[${clock}] ${level?.toUpperCase()}: ${msg}\n${more.join('')}`;
}
