// Tests decisions that depend on the catalog: the relationship of an embed, and rejected queries.
import { describe, expect, test } from 'vitest';
import { LIBRARY } from '../../../test/support/library-api.ts';
import { findRelation } from './exposed.ts';
import { relationOrigin, planRead, type PlannedRead } from './plan-read.ts';
import { isRepeatable } from './repeatable.ts';
import { isByKey, isWholeTable } from './row-count.ts';
import { parseQuery } from '../request/parse-query.ts';

function plan(url: string): PlannedRead {
  const [name = '', text = ''] = url.split('?');
  const relation = findRelation(LIBRARY, 'public', name);
  return planRead(LIBRARY, relationOrigin(relation), parseQuery(text, 'relation').query);
}

describe('refused', () => {
  test.each([
    ['book?select=*', 'PGRST205', "Could not find the table 'public.book' in the schema cache"],
    ['authors?select=email', '42703', 'column authors.email does not exist'],
    ['authors?email=eq.x', '42703', 'column authors.email does not exist'],
    ['tags?select=id&books.id=eq.1', 'PGRST108', "'books' is not an embedded resource in this request"],
    ['books?select=id&order=authors(name)', 'PGRST108', "'authors' is not an embedded resource"],
    [
      'authors?select=books!author_id(id)&order=books(id)',
      'PGRST118',
      "A related order on 'books' is not possible",
    ],
    [
      'authors?select=teams(name),teams(id)',
      '42712',
      'table name "authors_teams_1" specified more than once',
    ],
    ['books?select=price.sum(),...tags(id.count())', 'PGRST127', 'Feature not implemented'],
    ['tags?having=n.gt.1', 'SVC110', 'having requires an aggregate in select'],
    ['tags?select=count()&having=n.gt.1', 'SVC111', "having refers to unknown aggregate 'n'"],
  ])('%s: %s', (url, code, message) => {
    expect(() => plan(url)).toThrow(
      expect.objectContaining({ code, message: expect.stringContaining(message) }),
    );
  });
});

describe('names of embeds', () => {
  test('an embed with an alias goes by its alias', () => {
    const { node, legacyNames } = plan('authors?select=id,t:teams(name)&t.name=eq.x');
    expect(node.embeds[0]).toMatchObject({
      name: 't',
      target: 'teams',
      node: { conditions: [{ kind: 'filter' }] },
    });
    expect(legacyNames).toEqual([]);
  });

  test('by its table it is found too, and the answer warns about it', () => {
    const { node, legacyNames } = plan('authors?select=id,t:teams(name)&teams.name=eq.x');
    expect(node.embeds[0]?.node.conditions).toHaveLength(1);
    expect(legacyNames).toEqual(['teams']);
  });

  test('is.null of an embed asks whether it has rows, any other operator is about a column', () => {
    const { node } = plan('authors?select=id,teams(name)&teams=is.null');
    expect(node.conditions).toMatchObject([{ kind: 'exists', negated: true, embed: { name: 'teams' } }]);
    expect(plan('tags?label=is.null').node.conditions).toMatchObject([{ kind: 'filter', negated: false }]);
  });
});

describe('what is known of the rows beforehand', () => {
  test.each([
    ['tags?id=eq.1', true],
    ['tags?id=eq.1&label=eq.x', true],
    ['book_tags?book_id=eq.1&tag_id=eq.2', true],
    ['tags?id=gt.1', false],
    ['tags?id=not.eq.1', false],
    ['tags?id=eq(any).{1,2}', false],
    ['tags?or=(id.eq.1,id.eq.2)', false],
    ['book_tags?book_id=eq.1', false],
    ['titles?id=eq.1', false],
    ['tags?select=count()&id=eq.1', false],
  ])('%s has one row at most: %s', (url, expected) => expect(isByKey(plan(url).node)).toBe(expected));

  test.each([
    ['tags', true],
    ['tags?select=id&order=id', true],
    ['authors?select=id,teams(name)', true],
    ['authors?select=id,teams!inner(name)', false],
    ['tags?id=gt.1', false],
    ['tags?select=count()', false],
    // Under row security.
    ['books', false],
    ['titles', false],
  ])('%s has as many rows as the statistic of its table: %s', (url, expected) => {
    const [name = ''] = url.split('?');
    expect(isWholeTable(plan(url).node, findRelation(LIBRARY, 'public', name))).toBe(expected);
  });

  test.each([
    ['tags?select=id&label=eq.x&order=label', true],
    ['books?select=id,authors!author_id(name),tags(label)', true],
    ['tags?select=count()&having=count.gt.1', true],
    // Computed columns, functions and views may be volatile.
    ['tags?select=id,luck', false],
    ['tags?select=id&luck=gt.1', false],
    ['tags?select=id&order=luck', false],
    ['books?select=id,similar(id)', false],
    ['titles', false],
  ])('%s has one answer at a time: %s', (url, expected) =>
    expect(isRepeatable(plan(url).node)).toBe(expected),
  );
});
