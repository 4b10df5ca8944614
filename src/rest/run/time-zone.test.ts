import { expect, test } from 'vitest';
import { timeZoneSetting } from './time-zone.ts';

test.each([
  ['+05:30', '<+05:30>-05:30'],
  ['+0530', '<+05:30>-05:30'],
  ['-4', '<-04:00>+04:00'],
  ['+4', '<+04:00>-04:00'],
  ['+00:00', '<+00:00>-00:00'],
  ['UTC+2', '<+02:00>-02:00'],
  ['-15:59', '<-15:59>+15:59'],
  ['gmt-03:00', '<-03:00>+03:00'],
  ['Europe/Vienna', 'Europe/Vienna'],
  ['Etc/GMT+5', 'Etc/GMT+5'],
  ['EST5EDT', 'EST5EDT'],
  ['UTC', 'UTC'],
])('%s', (zone, setting) => expect(timeZoneSetting(zone)).toBe(setting));

test.each(['+16:00', '+05:60', '+5.5', '5', '-', '+05:30:10'])('%s is not an offset', (zone) => {
  expect(() => timeZoneSetting(zone)).toThrow('invalid value for parameter "TimeZone"');
});
