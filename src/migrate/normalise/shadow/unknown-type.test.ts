import pg from 'pg';
import { expect, test } from 'vitest';
import { unknownTypeHint } from './unknown-type.ts';

const error = (message: string, code = '42704'): Error =>
  Object.assign(new pg.DatabaseError(message, 0, 'error'), { code });

test.each([
  ['vector', 'vector'],
  ['extensions.vector', 'vector'],
  ['geography', 'postgis'],
  ['hstore[]', 'hstore'],
  ['citext', 'citext'],
  ['ltree', 'ltree'],
])('the hint for the unknown type %s names the extension %s', (type, extension) => {
  expect(unknownTypeHint(error(`type "${type}" does not exist`))).toBe(
    `It is a type of an extension: write extensions: [${extension}].`,
  );
});

test('the hint for other unknown types is general', () => {
  expect(unknownTypeHint(error('type "txet" does not exist'))).toMatch(/^If an extension provides the type/);
});

test('there is no hint for other missing objects', () => {
  expect(unknownTypeHint(error('collation "xx" for encoding "UTF8" does not exist'))).toBeNull();
  expect(unknownTypeHint(error('type "vector" does not exist', '42P01'))).toBeNull();
});
