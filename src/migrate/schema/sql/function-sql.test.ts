import { expect, test } from 'vitest';
import { bodyLiteral } from './function-sql.ts';

test.each([
  'select 1',
  'select $svc$x$svc$',
  '-- ends in $svc',
  '-- ends in $svc1 after $svc$',
  'select 1 -- $',
  '',
])('a body stays inside its quotes: %s', (body) => {
  const [, tag = '', inside] = /^(\$svc\d*\$)([\s\S]*)$/.exec(bodyLiteral(body)) ?? [];
  expect(inside?.indexOf(tag)).toBe(body.length);
  expect(inside).toBe(body + tag);
});
