import pg from 'pg';
import { expect, test } from 'vitest';
import { collectLog } from '../../test/support/collect-log.ts';

function databaseError(message: string, fields: Partial<pg.DatabaseError>): pg.DatabaseError {
  return Object.assign(new pg.DatabaseError(message, message.length, 'error'), fields);
}

const UNIQUE = databaseError('duplicate key value violates a unique constraint', {
  code: '23505',
  detail: 'Key (email)=(secret@example.com) already exists.',
  table: 'users',
  constraint: 'users_email_key',
});
const CAST = databaseError('invalid input syntax for type integer: "secret"', { code: '22P02' });
const RAISED = databaseError('row secret', { code: '42501', where: 'PL/pgSQL function f() line 3 at RAISE' });
const LINES = databaseError('no such thing:\n    at secret', {
  code: 'P0001',
  hint: 'secret',
  where: 'secret',
});

test.each([
  UNIQUE,
  CAST,
  RAISED,
  LINES,
  new Error('the read failed', { cause: CAST }),
  new Error(`wrapped: ${CAST.message}`, { cause: CAST }),
  new Error('outer', { cause: new Error(`inner: ${CAST.message}`, { cause: CAST }) }),
  new AggregateError([new Error('first'), CAST], 'several'),
])('a log line about %s has no value of a row', (error) => {
  const { log, lines } = collectLog();
  log.warn({ err: error, table: 'public.users' }, 'failed');
  expect(JSON.stringify(lines())).not.toContain('secret');
  const err = lines()[0]?.['err'] as { stack: string };
  expect(JSON.stringify(err)).toMatch(/"code":"(23505|22P02|42501|P0001)"/);
  expect(err.stack).toContain('error-fields.test.ts');
});

test('a line keeps the names of a constraint and its table', () => {
  const { log, lines } = collectLog();
  log.warn({ err: UNIQUE }, 'failed');
  expect(lines()[0]?.['err']).toMatchObject({ code: '23505', table: 'users', constraint: 'users_email_key' });
});

test('a line names the functions that raised an error', () => {
  const { log, lines } = collectLog();
  const where = 'PL/pgSQL function public.f(integer, text[]) line 3 at RAISE\nSQL statement "secret"';
  log.warn({ err: databaseError('secret', { code: 'P0001', where }) }, 'failed');
  expect(lines()[0]?.['err']).toMatchObject({
    functions: ['PL/pgSQL function public.f(integer, text[]) line 3 at RAISE'],
  });
});

test.each([
  databaseError('permission denied for table users', { code: '42501' }),
  databaseError('canceling statement due to statement timeout', { code: '57014' }),
  new Error('plain'),
])('the message of %s is kept, because it has no value of a row', (error) => {
  const { log, lines } = collectLog();
  log.warn({ err: error }, 'failed');
  expect(lines()[0]?.['err']).toMatchObject({ message: error.message });
});
