import pg from 'pg';
import { expect, test } from 'vitest';
import { isDatabaseError } from '../../postgres/pg-error.ts';
import { MigrationRefused } from '../problem.ts';
import { refuseStep } from './refuse-step.ts';

test.each(['23505', '22P02', '22001'])(
  'the refusal of a step that fails with %s contains no value of a row',
  (code) => {
    const error = Object.assign(new pg.DatabaseError('duplicate or invalid', 0, 'error'), {
      code,
      constraint: 'a_key',
      detail: 'Key (name)=(secret) already exists.',
      ...(code === '23505' ? {} : { message: 'invalid input syntax: "secret"' }),
    });
    const refused = isDatabaseError(error) ? refuseStep({ at: 'tables.a' }, error) : undefined;
    expect(refused).toBeInstanceOf(MigrationRefused);
    expect(JSON.stringify(refused)).not.toContain('secret');
  },
);

test.each([
  ['23503', 'MIG-203'],
  // PostgreSQL 18 reports this for a foreign key with RESTRICT.
  ['23001', 'MIG-203'],
  ['23505', 'MIG-202'],
  ['22P02', 'MIG-208'],
])('a step that fails with %s is refused with %s', (code, expected) => {
  const error = Object.assign(new pg.DatabaseError('message of the server', 0, 'error'), {
    code,
    constraint: 'a_key',
  });
  const refused = isDatabaseError(error) ? refuseStep({ at: 'tables.a' }, error) : undefined;
  expect(refused).toBeInstanceOf(MigrationRefused);
  expect(JSON.stringify(refused)).toContain(expected);
});
