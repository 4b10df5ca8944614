// The description of the data API contains the values that a column accepts, from the file and the database.
import { expect, test } from 'vitest';
import { startBackendWorld } from '../support/backend-world.ts';

const YAML = `version: 1
types:
  mood: { enum: [sad, ok] }
tables:
  days:
    rls: false
    fields:
      - { name: id, type: bigint, identity: always, primary_key: true }
      - { name: mood, type: mood, default: ok }
      - { name: state, type: text, required: true, default: open, enum: [open, done] }
      - { name: stars, type: integer, min: 1, max: 5 }
      - { name: worth, type: numeric, max: 9007199254740993 }
      - { name: code, type: varchar(8), pattern: "^[a-z]+$" }
      - { name: tags, type: "text[]", required: true, default: [] }
      - { name: made_at, type: timestamptz, required: true, default: now() }
      - { name: done, type: boolean, required: true, default: false }
      - { name: more, type: jsonb }
      - { name: size, type: int, enum: [1, 2], default: 1 }
      - { name: word, type: text, pattern: "^[[:alpha:]]+$" }
      - { name: limit, type: int }
  error: { rls: false, fields: [{ name: id, type: int, primary_key: true }] }
  odd name: { rls: false, fields: [{ name: id, type: int, primary_key: true }] }
`;

test('columns are described with values, limits, defaults and nullability', async () => {
  const world = await startBackendWorld(YAML);
  try {
    const answer = await fetch(`${world.url}/rest/v1/`, {
      headers: { apikey: world.keys.publishable, accept: 'application/vnd.oai.openapi+json' },
    });
    const document = (await answer.json()) as {
      paths: Record<string, { get?: { parameters: Array<{ name?: string }> } }>;
      components: { schemas: Record<string, object> };
    };
    const { days, ...others } = document.components.schemas;
    expect(days).toEqual({
      type: 'object',
      properties: {
        id: { type: 'integer', format: 'int64', description: 'Primary key.', readOnly: true },
        mood: { type: ['string', 'null'], enum: ['sad', 'ok', null], default: 'ok' },
        state: { type: 'string', enum: ['open', 'done'], default: 'open' },
        stars: { type: ['integer', 'null'], format: 'int32', minimum: 1, maximum: 5 },
        worth: { type: ['number', 'null'] },
        code: { type: ['string', 'null'], maxLength: 8, pattern: '^[a-z]+$' },
        tags: { type: 'array', items: { type: 'string' } },
        made_at: { type: 'string', format: 'date-time' },
        done: { type: 'boolean', default: false },
        more: {},
        size: { type: ['integer', 'null'], format: 'int32', enum: [1, 2, null], default: 1 },
        word: { type: ['string', 'null'] },
        limit: { type: ['integer', 'null'], format: 'int32' },
      },
      required: [],
    });
    // Names that would conflict with other names.
    expect(others['error']).toMatchObject({ properties: { id: {} } });
    expect(Object.keys(others).toSorted()).toEqual(['error', 'odd_name', 'svc.error']);
    expect(Object.keys(document.paths)).toContain('/odd%20name');
    const named = document.paths['/days']?.get?.parameters.flatMap(({ name }) => name ?? []);
    expect(named).not.toContain('limit');
  } finally {
    await world.close();
  }
});
