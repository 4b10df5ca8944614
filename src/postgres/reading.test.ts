import { availableParallelism } from 'node:os';
import { expect, test } from 'vitest';
import { maxReading } from './reading.ts';

test.each([
  'postgres://u:p@127.0.0.1:5432/db',
  'postgres://u:p@localhost/db',
  'postgres://u:p@[::1]:5432/db',
  'postgres:///db?host=/run/postgresql',
  'postgres://u:p@%2Frun%2Fpostgresql/db',
])('as many as the processors can run when the database shares them: %s', (url) => {
  expect(maxReading(url)).toBe(Math.max(4, 2 * availableParallelism()));
});

test.each([
  'postgres://u:p@db.example.com/db',
  'postgres://u:p@10.0.0.7:5432/db',
  'postgres://u:p@127.example.com/db',
])('nothing is known of a database elsewhere: %s', (url) => {
  expect(maxReading(url)).toBeUndefined();
});
