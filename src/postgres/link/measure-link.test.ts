import { expect, test } from 'vitest';
import { describe as describeState } from './database-link.ts';
import { linkState, type Findings } from './measure-link.ts';
import { sessionParameters } from './session-parameters.ts';

const ours = { pid: 100, name: 'svc_random' };
const parameters = sessionParameters({ statementTimeoutMs: 10_000 });
const asAsked = {
  timezone: 'UTC',
  datestyle: 'ISO, MDY',
  intervalstyle: 'postgres',
  idle_in_transaction_session_timeout: '60000',
  client_connection_check_interval: '5000',
  statement_timeout: '10000',
};
const direct: Findings = { pid: 100, names: ['svc_random'], settings: asAsked, onWindows: false };

test.each([
  ['PostgreSQL, or a proxy that passes bytes on', {}, 'direct'],
  ['a pooler that passes names on', { pid: 7 }, 'pooled'],
  ['a pooler that assigns its names', { pid: 7, names: ['PGBOUNCER_1'] }, 'pooled, tracks names'],
  ['a pooler that takes names away', { pid: 7, names: [] }, 'pooled'],
  // Only the process id proves that this is PostgreSQL.
  ['PostgreSQL under a name that it does not keep', { names: ['other'] }, 'direct'],
] as const)('%s', (_, findings, verdict) => {
  expect(linkState({ ...direct, ...findings }, ours, parameters)).toEqual({ verdict, lacking: [] });
});

test('parameters that the session has otherwise are to be set in each batch', () => {
  const settings = { ...asAsked, timezone: 'Europe/Vienna', statement_timeout: '0', datestyle: 'ISO, DMY' };
  const state = linkState({ ...direct, pid: 7, settings }, ours, parameters);
  expect(state.lacking).toEqual([
    ['timezone', 'UTC'],
    ['datestyle', 'ISO,MDY'],
    ['statement_timeout', '10000'],
  ]);
  expect(describeState(state)).toBe(
    'pooled, names not tracked: statements are planned each time; ' +
      'PgBouncer 1.21 or newer with max_prepared_statements saves that; ' +
      'set in each batch because sessions do not have them: timezone, datestyle, statement_timeout',
  );
});

test('what a server cannot do is not set there', () => {
  const settings = { ...asAsked, client_connection_check_interval: '0' };
  const state = linkState({ ...direct, pid: 7, settings, onWindows: true }, ours, parameters);
  expect(state.lacking).toEqual([]);
});
