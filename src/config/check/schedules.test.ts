import { expect, test } from 'vitest';
import { loadConfig } from '../load.ts';

const FILE = `version: 1
functions:
  digest: { runtime: node, file: functions/digest.js, http: false }
  open: { runtime: node, file: functions/open.js }
rpc:
  clean_up:
    args: [{ name: age, type: interval, required: true }, { name: most, type: integer, default: 10 }]
    returns: { type: void }
    body: begin end
  hidden: { expose: false, returns: { type: void }, body: begin end }
  internal: { expose: false, execute: [service_role], returns: { type: void }, body: begin end }
  whole: { expose: false, execute: service_role, args: [{ type: jsonb }], returns: { type: void }, body: begin end }
  noted: { returns: { type: trigger }, body: begin return new; end }
  done: { kind: procedure, body: begin end }
schedules:
  nightly: `;

function check(schedule: string): { mistakes: string[]; hints: string[]; warnings: string[] } {
  const text = `${FILE}${schedule}\n`;
  const loaded = loadConfig({ name: 'svc.yaml', directory: undefined, text }, { variables: {} });
  const mistakes = loaded.ok ? [] : loaded.mistakes;
  return {
    mistakes: mistakes.map(({ message }) => message),
    hints: mistakes.map(({ hint }) => hint ?? ''),
    warnings: (loaded.ok ? loaded.warnings : []).map(({ message }) => message),
  };
}

test.each([
  '{ cron: "0 7 * * 1-5", timezone: Europe/Berlin, function: digest, payload: { a: [1] } }',
  '{ cron: "@daily", function: digest, retries: 20, overlap: allow, missed: skip, enabled: false }',
  '{ every: 10s, function: digest }',
  '{ cron: "*/5 * * * *", rpc: clean_up, payload: { age: 7 days } }',
  '{ cron: "0 0 29 2 *", rpc: internal }',
  '{ every: 1h, rpc: whole, payload: [1, 2] }',
])('accepts %s', (schedule) => {
  expect(check(schedule)).toMatchObject({ mistakes: [], warnings: [] });
});

test.each([
  ['{ function: digest }', /"cron" is missing/, /every: 5m/],
  ['{ every: 1h }', /"function" is missing/, /rpc/],
  ['{ every: 1h, cron: "@daily", function: digest }', /either cron or every/, /Remove/],
  ['{ every: 1h, function: digest, rpc: internal }', /either a function or an rpc/, /Remove/],
  ['{ every: 1h, timezone: UTC, function: digest }', /does not depend on the time zone/, /Remove timezone/],
  ['{ every: 9s, function: digest }', /at least 10s/, /./],
  ['{ every: soon, function: digest }', /is not a duration/, /./],
  ['{ cron: "* * * * * *", function: digest }', /6 fields/, /five fields/],
  ['{ cron: "61 * * * *", function: digest }', /Invalid value for minute: 61/, /minute 0-59/],
  ['{ cron: "@reboot", function: digest }', /unknown name/, /five fields/],
  ['{ cron: "0 0 30 2 *", function: digest }', /never occurs/, /day of the month/],
  ['{ cron: "@daily", timezone: Europe/Berln, function: digest }', /not a time zone/, /Europe\/Berlin\?/],
  ['{ cron: "@daily", timezone: "+02:00", function: digest }', /not a time zone/, /IANA/],
  ['{ every: 1h, function: digset }', /no function digset/, /digest\?/],
  ['{ every: 1h, rpc: intrenal }', /no SQL function intrenal/, /internal\?/],
  ['{ every: 1h, rpc: hidden }', /service_role cannot run hidden/, /execute: \[service_role\]/],
  ['{ every: 1h, rpc: noted }', /trigger function/, /./],
  ['{ every: 1h, rpc: done }', /procedure/, /./],
  ['{ every: 1h, rpc: clean_up }', /payload lacks age/, /required/],
  ['{ every: 1h, rpc: clean_up, payload: { age: 1 day, mots: 1 } }', /no argument mots/, /most\?/],
  ['{ every: 1h, rpc: clean_up, payload: 7 }', /must be a map/, /by name/],
  ['{ every: 1h, function: digest, retries: 21 }', /at most 20/, /./],
  ['{ every: 1h, function: digest, overlap: never }', /must be one of skip, wait, allow/, /./],
])('refuses %s', (schedule, message, hint) => {
  const { mistakes, hints } = check(schedule);
  expect(mistakes.join('\n')).toMatch(message);
  expect(hints.join('\n')).toMatch(hint);
});

test('warns about a function that clients can call, too', () => {
  expect(check('{ every: 1h, function: open }').warnings).toEqual([
    expect.stringContaining('everyone can also call open over HTTP'),
  ]);
});

test('refuses http: false with auth_required: false', () => {
  const text =
    'version: 1\nfunctions:\n  a: { runtime: node, file: a.js, http: false, auth_required: false }\n';
  const loaded = loadConfig({ name: 'svc.yaml', directory: undefined, text }, { variables: {} });
  expect(loaded.ok ? [] : loaded.mistakes.map(({ message }) => message)).toEqual([
    'auth_required must be true with http: false',
  ]);
});

test('refuses a payload of more than 64 KB', () => {
  const { mistakes } = check(`{ every: 1h, function: digest, payload: "${'x'.repeat(66_000)}" }`);
  expect(mistakes).toEqual(['the payload is larger than 64 KB']);
});
