import { describe, expect, test } from 'vitest';
import { contentType, negotiate } from './media-type.ts';
import { toPage } from './page.ts';
import { appliedHeader, parsePreferences } from './preferences.ts';

const all = (): boolean => true;

describe('media types', () => {
  test.each([
    [undefined, 'json'],
    ['*/*', 'json'],
    ['text/csv', 'csv'],
    ['TEXT/CSV;charset=utf-8', 'csv'],
    ['text/csv;q=0.1, application/json', 'json'],
    ['text/html, */*;q=0.5', 'json'],
    ['application/vnd.pgrst.object', 'singular'],
    ['application/vnd.pgrst.array+json;nulls=stripped', 'stripped'],
    ['application/vnd.pgrst.plan+text; for="application/json"; options=;', 'plan'],
  ])('%s', (accept, kind) => expect(negotiate(accept, all).kind).toBe(kind));

  test('nothing acceptable is 406 with the list', () => {
    expect(() => negotiate('text/foo, text/bar', all)).toThrow(
      'None of these media types are available: text/foo, text/bar',
    );
  });

  test('a plan names what it explains', () => {
    const media = negotiate('application/vnd.pgrst.plan+json; for="text/csv"; options=verbose|analyze', all);
    expect(contentType(media)).toBe(
      'application/vnd.pgrst.plan+json; for="text/csv"; options=analyze|verbose; charset=utf-8',
    );
  });
});

describe('pages', () => {
  const page = (limit?: number, offset?: number, rangeHeader?: string): unknown =>
    toPage({ limit, offset, rangeHeader, defaultLimit: 20 });
  test.each([
    [page(), { offset: 0, limit: 20, isDefault: true }],
    [page(undefined, 10), { offset: 10, limit: 20, isDefault: true }],
    [page(0), { offset: 0, limit: 0, isDefault: false }],
    [page(1000), { offset: 0, limit: 1000, isDefault: false }],
    [page(undefined, undefined, '0-99'), { offset: 0, limit: 100, isDefault: false }],
    [page(undefined, undefined, '5-'), { offset: 5, limit: 20, isDefault: true }],
    [page(3, 0, '0-1'), { offset: 0, limit: 2, isDefault: false }],
    [page(3, 4, '0-'), { offset: 4, limit: 3, isDefault: false }],
    [page(undefined, undefined, 'items=0-9'), { offset: 0, limit: 20, isDefault: true }],
  ])('%#', (actual, expected) => expect(actual).toEqual(expected));

  test('ranges without rows', () => {
    expect(() => page(undefined, undefined, '5-1')).toThrow('not satisfiable');
    expect(() => page(3, 0, '7-9')).toThrow('not satisfiable');
    expect(page(0, 0, '5-1')).toEqual({ offset: 0, limit: 0, isDefault: false });
  });
});

test('preferences: the first of a family wins, unknown ones are kept apart', () => {
  const read = parsePreferences(
    'return=minimal, return=representation,count=exact , foo, max-affected=5, timezone=UTC,max-affected=x',
  );
  expect(read).toMatchObject({
    return: 'minimal',
    count: 'exact',
    maxAffected: 5,
    timezone: 'UTC',
    invalid: ['foo', 'max-affected=x'],
  });
  expect(
    appliedHeader(read, { resolution: read.resolution, missing: read.missing, return: read.return }),
  ).toBe('return=minimal, count=exact, timezone=UTC');
});

test('preferences that repeat are read once, and those that are unknown keep their order', () => {
  const header = `${'a,'.repeat(30_000)}b,return=minimal,return=representation,c,a`;
  expect(parsePreferences(header)).toMatchObject({ return: 'minimal', invalid: ['a', 'b', 'c'] });
});
