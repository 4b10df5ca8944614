// Tests decisions about writes that depend on the catalog.
import { describe, expect, test } from 'vitest';
import { LIBRARY } from '../../../test/support/library-api.ts';
import { EMPTY_OBJECT, readPayload } from '../request/body.ts';
import { parseQuery } from '../request/parse-query.ts';
import { parsePreferences } from '../request/preferences.ts';
import { findRelation } from './exposed.ts';
import { planWrite, type WriteKind, type WritePlan } from './plan-write.ts';

function plan(kind: WriteKind, url: string, body = '', prefer = ''): WritePlan {
  const [name = '', text = ''] = url.split('?');
  const payload = body === '' ? EMPTY_OBJECT : readPayload(Buffer.from(body), 'json');
  const relation = findRelation(LIBRARY, 'public', name);
  return planWrite(kind, relation, parseQuery(text, 'relation').query, payload, parsePreferences(prefer));
}

function columnNames(write: WritePlan): string[] | undefined {
  return write.kind === 'delete' ? undefined : write.rows.columns.map(({ name }) => name);
}

describe('columns that are written', () => {
  test.each<[WriteKind, string, string, string[]]>([
    ['insert', 'tags', '{"label":"x","id":1}', ['id', 'label']],
    ['insert', 'tags', '[{"label":"x"},{"label":"y"}]', ['label']],
    ['insert', 'tags?columns=label', '[{"label":"x"},{"id":1}]', ['label']],
    ['insert', 'tags', '[]', []],
    ['update', 'tags?id=eq.1', '{"label":"x"}', ['label']],
    ['update', 'tags?id=eq.1', '[{"label":"x"}]', ['label']],
    // The key is compared with the URL even where the body lacks it.
    ['put', 'tags?id=eq.1', '{"label":"x"}', ['id', 'label']],
  ])('%s %s %s: %j', (kind, url, body, columns) =>
    expect(columnNames(plan(kind, url, body))).toEqual(columns),
  );
});

describe('rows that are there already', () => {
  test.each([
    ['tags', '', undefined],
    ['tags', 'resolution=merge-duplicates', { columns: ['id'], action: 'merge' }],
    ['tags', 'resolution=ignore-duplicates', { columns: ['id'], action: 'ignore' }],
    ['tags?on_conflict=label', 'resolution=merge-duplicates', { columns: ['label'], action: 'merge' }],
    ['tags?on_conflict=label', '', undefined],
    // Without a primary key there is nothing that rows could share.
    ['titles', 'resolution=merge-duplicates', undefined],
  ])('insert into %s with %s', (url, prefer, conflict) => {
    const body = url.startsWith('titles') ? '{"title":"x"}' : '{"label":"x"}';
    expect(plan('insert', url, body, prefer)).toMatchObject({ conflict });
  });

  test('PUT replaces the row of its key', () => {
    expect(plan('put', 'book_tags?book_id=eq.1&tag_id=eq.2', '{"book_id":1,"tag_id":2}')).toMatchObject({
      kind: 'insert',
      conflict: { columns: ['book_id', 'tag_id'], action: 'merge' },
      only: [
        { column: 'book_id', slot: 0 },
        { column: 'tag_id', slot: 1 },
      ],
    });
  });
});

describe('refused', () => {
  test.each<[WriteKind, string, string, string, string]>([
    ['insert', 'tags', '{"colour":1}', 'PGRST204', "Could not find the 'colour' column of 'tags'"],
    ['insert', 'tags', '[{"id":1},{"label":"x"}]', 'PGRST102', 'All object keys must match'],
    ['update', 'tags', '{"label":"x"}', '21000', 'UPDATE requires a WHERE clause'],
    [
      'update',
      'tags?id=eq.1',
      '[{"label":"x"},{"label":"y"}]',
      'PGRST102',
      'A PATCH body may hold one object only',
    ],
    ['delete', 'tags', '', '21000', 'DELETE requires a WHERE clause'],
    // A filter of an embed chooses no rows of the relation itself.
    ['delete', 'books?select=tags(label)&tags.label=eq.x', '', '21000', 'DELETE requires a WHERE clause'],
    ['put', 'tags', '{"id":1}', 'PGRST105', 'Filters must include all and only primary key columns'],
    ['put', 'tags?id=gt.1', '{"id":1}', 'PGRST105', 'Filters must include'],
    ['put', 'tags?id=eq.1&label=eq.x', '{"id":1}', 'PGRST105', 'Filters must include'],
    ['put', 'book_tags?book_id=eq.1', '{"book_id":1}', 'PGRST105', 'Filters must include'],
    ['put', 'titles?id=eq.1', '{"id":1}', 'PGRST105', 'Filters must include'],
  ])('%s %s %s: %s', (kind, url, body, code, message) => {
    expect(() => plan(kind, url, body)).toThrow(
      expect.objectContaining({ code, message: expect.stringContaining(message) }),
    );
  });
});
