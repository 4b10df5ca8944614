// Which relationship an embed means. The relations are those of test/support/library-api.ts.
import { describe, expect, test } from 'vitest';
import { LIBRARY } from '../../../test/support/library-api.ts';
import { Problem } from '../../problem/problem.ts';
import { findRelation } from './exposed.ts';
import { chooseRelationship, type Relationship } from './relationship.ts';

function choose(origin: string, embed: string): Relationship {
  const [target = '', hint] = embed.split('!');
  return chooseRelationship(
    findRelation(LIBRARY, 'public', origin),
    LIBRARY.relationships.get(`public.${origin}`) ?? [],
    { target, hint },
  );
}

describe('found', () => {
  test.each([
    ['authors', 'teams', 'many-to-one', 'team_id = teams.id'],
    ['teams', 'authors', 'one-to-many', 'id = authors.team_id'],
    ['authors', 'team_id', 'many-to-one', 'team_id = teams.id'],
    ['authors', 'authors_team_id_fkey', 'many-to-one', 'team_id = teams.id'],
    ['books', 'authors!author_id', 'many-to-one', 'author_id = authors.id'],
    ['books', 'authors!books_editor_id_fkey', 'many-to-one', 'editor_id = authors.id'],
    ['authors', 'books!editor_id', 'one-to-many', 'id = books.editor_id'],
    ['books', 'tags', 'many-to-many', 'through book_tags'],
    ['books', 'tags!book_tags', 'many-to-many', 'through book_tags'],
    ['tags', 'books', 'many-to-many', 'through book_tags'],
    ['books', 'book_tags', 'one-to-many', 'id = book_tags.book_id'],
    ['nodes', 'nodes', 'one-to-many', 'id = nodes.parent_id'],
    ['nodes', 'parent_id', 'many-to-one', 'parent_id = nodes.id'],
    ['books', 'similar', 'one-to-many', 'by similar()'],
  ])('%s with %s is %s, %s', (origin, embed, cardinality, how) => {
    const found = choose(origin, embed);
    expect(found.cardinality).toBe(cardinality);
    const columns = found.columns.map(([source, target]) => `${source} = ${found.target.name}.${target}`);
    expect(
      found.routine
        ? `by ${found.routine.name}()`
        : found.junction
          ? `through ${found.junction.relation.name}`
          : columns.join(' and '),
    ).toBe(how);
  });
});

describe('refused', () => {
  test.each([
    [
      'books',
      'authors',
      'PGRST201',
      "Try changing 'authors' to one of the following: 'authors!books_author_id_fkey', 'authors!books_editor_id_fkey'.",
    ],
    ['authors', 'books', 'PGRST201', "'books!books_author_id_fkey', 'books!books_editor_id_fkey'"],
    ['books', 'author', 'PGRST200', "Perhaps you meant 'authors' instead of 'author'."],
    ['books', 'zebra', 'PGRST200', "Declare a foreign_key between 'books' and 'zebra' in svc.yaml"],
    ['books', 'authors!nothing', 'PGRST200', "Declare a foreign_key between 'books' and 'authors'"],
    ['teams', 'books', 'PGRST200', "Declare a foreign_key between 'teams' and 'books'"],
  ])('%s with %s: %s', (origin, embed, code, hint) => {
    let problem: unknown;
    try {
      choose(origin, embed);
    } catch (error) {
      problem = error;
    }
    if (!(problem instanceof Problem)) throw new Error('no problem');
    expect(problem.code).toBe(code);
    expect(problem.hint).toContain(hint);
  });
});
