import { expect, test } from 'vitest';
import { atomicBody, atomicFault, atomicSql, textBody } from './atomic-body.ts';

test.each([
  ['return a + 1', 'return a + 1', 'select a + 1'],
  ['return a; ', 'begin atomic\nreturn a; \nend', 'select a; '],
  [
    `insert into log values ('; return'); return /* ; */ "return"`,
    `begin atomic\ninsert into log values ('; return'); return /* ; */ "return"\n;\nend`,
    `insert into log values ('; return'); select /* ; */ "return"`,
  ],
  ['select 1;', 'begin atomic\nselect 1;\nend', 'select 1;'],
])('%s', (body, atomic, loose) => {
  expect(atomicSql(body)).toBe(atomic);
  expect(textBody(body)).toBe(loose);
});

test('the body is read from the printed function', () => {
  expect(atomicBody('RETURN (a + 1)')).toBe('RETURN (a + 1)');
  const print =
    'BEGIN ATOMIC\n SELECT\n         CASE\n             WHEN true THEN 1\n         END AS "end";\nEND';
  expect(atomicBody(print)).toBe(
    'SELECT\n         CASE\n             WHEN true THEN 1\n         END AS "end";',
  );
});

test('a body that closes its block is rejected', () => {
  expect(atomicFault('select case when true then 1 end; select 1;')).toBe(null);
  expect(atomicFault('select 1; /* ; */ END; drop table x; begin atomic select 1;')).toMatch(
    /between BEGIN ATOMIC and END/,
  );
  expect(atomicFault("select '")).toMatch(/not closed/);
});
