// Cron expressions with time zones. Around a change of the clock, a fixed time that does not exist runs at the end of
// the gap, and a fixed time that occurs twice runs once.
import { Cron } from 'croner';

const NICKNAMES = new Set(['@hourly', '@daily', '@weekly', '@monthly', '@yearly']);

export class CronExpression {
  readonly #cron: Cron;

  /** Throws an error whose message states the reason if the expression or the time zone is invalid. */
  constructor(expression: string, timezone: string) {
    const text = expression.trim();
    const fields = text.split(/\s+/).length;
    if (text.startsWith('@') ? !NICKNAMES.has(text) : fields !== 5)
      throw new Error(text.startsWith('@') ? 'an unknown name' : `${fields} fields`);
    this.#cron = new Cron(text, { paused: true, timezone, mode: '5-part' });
  }

  /** Returns the first time after `after`, or undefined if there is none. */
  next(after: Date): Date | undefined {
    return this.#cron.nextRun(after) ?? undefined;
  }

  /** Returns the last `max` times up to `until`, oldest first. */
  previous(max: number, until: Date): Date[] {
    // The library excludes the given second.
    const after = new Date(until.getTime() + 1_000);
    return this.#cron
      .previousRuns(max + 1, after)
      .filter((time) => time <= until)
      .slice(0, max)
      .reverse();
  }
}

export function isTimeZone(name: string): boolean {
  // Recent versions of Node also accept offsets, which have no daylight saving time.
  if (!/^[A-Za-z]/.test(name)) return false;
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone !== '';
  } catch {
    return false;
  }
}
