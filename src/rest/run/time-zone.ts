// A time zone as PostgreSQL reads it. Callers write offsets as ISO 8601 does: +05:30 is east of Greenwich. PostgreSQL
// reads most of them as POSIX does, where the sign is the other way round.
import { badTimeZone } from '../problem.ts';

const OFFSET = /^(?:UTC|GMT)?([+-])(\d{1,2})(?::?([0-5]\d))?$/i;
const MAX_HOURS = 15;

/** A name is passed on as it is; PostgreSQL rejects those that it does not know. */
export function timeZoneSetting(zone: string): string {
  const [, sign, hours = '', minutes = '00'] = OFFSET.exec(zone) ?? [];
  // Any other text with a sign in front, such as +5.5 or +05:30:10, would be read by one rule or the other.
  if (sign === undefined) {
    if (/^[+-\d]/.test(zone)) throw badTimeZone(zone);
    return zone;
  }
  if (Number(hours) > MAX_HOURS) throw badTimeZone(zone);
  const offset = `${hours.padStart(2, '0')}:${minutes}`;
  return `<${sign}${offset}>${sign === '+' ? '-' : '+'}${offset}`;
}
