// Text from a caller never changes the structure of a statement, at any token position of the grammar: it becomes a
// value, a quoted name or a quoted constant. No request is answered with 500.
import * as fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Problem } from '../../../src/problem/problem.ts';
import { exposed } from '../../../src/rest/plan/exposed.ts';
import { relationOrigin, planRead } from '../../../src/rest/plan/plan-read.ts';
import { parseQuery } from '../../../src/rest/request/parse-query.ts';
import { renderRead } from '../../../src/rest/sql/render-read.ts';
import { WORLD } from '../fixture.ts';
import { createDatabase, type TestDatabase } from '../../support/database.ts';
import { createRestWorld, type RestWorld } from '../../support/rest-world.ts';
import { rounds } from '../../support/rounds.ts';
import { sideBySide } from '../../support/side-by-side.ts';
import { scaled } from '../../support/run/scaled.ts';

let database: TestDatabase;
let world: RestWorld;

beforeAll(async () => {
  database = await createDatabase();
  world = await createRestWorld({ url: database.url, ...WORLD });
});

afterAll(async () => {
  await world.close();
  await database.drop();
});

/** Inputs that have broken such parsers before. */
const NASTY: readonly string[] = [
  "'",
  '"',
  '\\',
  "\\'",
  '\\"',
  "''",
  '""',
  '--',
  '/*',
  '*/',
  ';',
  '$1',
  '$$',
  '$a$',
  '\0',
  '\n',
  '\r',
  '\t',
  '\u0001',
  '\u2028',
  "'; drop table books;--",
  '") from books;--',
  "E'\\''",
  '😀',
  '\ud800',
  'é',
  '(',
  ')',
  ',',
  '.',
  ':',
  '::',
  '->',
  '->>',
  '!',
  '*',
  '%',
  '{',
  '}',
  '[',
  ']',
  '&',
  '=',
  '+',
  ' ',
  'null',
  'select',
  'x'.repeat(300),
  'a"b',
  '"a""b"',
  "U&'\\0027'",
  '\\u0027',
  '%27',
  '%00',
  '..',
  '...',
];
const nasty = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom(...NASTY) },
  { weight: 1, arbitrary: fc.string({ unit: 'grapheme', maxLength: 12 }) },
);
const text = fc.array(nasty, { minLength: 1, maxLength: 3 }).map((parts) => parts.join(''));

/** Requests with a placeholder for each token position in an otherwise valid request. */
const TEMPLATES: readonly string[] = [
  '/books?select=¤',
  '/books?select="¤"',
  '/books?select=id,x¤:title',
  '/books?select="¤":title',
  '/books?select=title::¤',
  '/books?select=tags->¤',
  '/books?select=tags->"¤"',
  '/books?select=tags->>¤::text',
  '/books?select=¤(id)',
  '/books?select=authors!¤(name)',
  '/books?select="¤":authors!author_id(name)',
  '/books?select=authors!author_id("¤")',
  '/books?select=...authors!author_id(¤:name)',
  '/books?select=price.¤()',
  '/books?select="¤":price.sum()',
  '/books?title=eq.¤',
  '/books?title=¤',
  '/books?title=¤.x',
  '/books?title=like(any).¤',
  '/books?title=in.(¤)',
  '/books?title=in.("¤")',
  '/books?title=is.¤',
  '/books?title=fts(¤).x',
  '/books?title=fts.¤',
  '/books?¤=eq.1',
  '/books?"¤"=eq.1',
  '/books?tags->¤=eq.1',
  '/books?¤.title=eq.1&select=id,authors!author_id(name)',
  '/books?or=(title.eq.¤)',
  '/books?or=(title.eq."¤")',
  '/books?or=(¤.eq.1)',
  '/books?or=(¤)',
  '/books?or=¤',
  '/books?order=¤',
  '/books?order="¤"',
  '/books?order=title.¤',
  '/books?order=authors(¤)&select=authors!author_id(name)',
  '/books?limit=¤',
  '/books?offset=¤',
  '/books?select=n:count()&having=¤',
  '/books?select=n:count()&having=n.gt.¤',
  '/books?select=n:count()&having="¤".gt.1',
  '/books?columns=¤',
  '/¤',
  '/rpc/¤',
  '/rpc/add?a=¤',
  '/rpc/add?¤=1',
  '/rpc/books_over?min=1&title=eq.¤',
];

/** A lone surrogate cannot be encoded; the client sends the replacement character. */
const encode = (value: string): string => encodeURIComponent(value.toWellFormed());

const requests = fc.tuple(fc.constantFrom(...TEMPLATES), text);

describe('the structure of a statement', () => {
  test('does not depend on values', () => {
    const current = exposed(world.snapshot());
    const relation = current.relations.get('public.books')!;
    fc.assert(
      fc.property(requests, ([template, value]) => {
        if (!template.startsWith('/books?')) return;
        const query = template.slice('/books?'.length).replace('¤', () => encode(value));
        let statement: string;
        try {
          const parsed = parseQuery(query, 'relation');
          const { node } = planRead(current, relationOrigin(relation), parsed.query);
          statement = renderRead(node, {
            media: { kind: 'json' },
            withBody: true,
            limit: { literal: 20 },
            tellCut: true,
            total: 'exact',
            withResponseSettings: false,
          }).text;
        } catch (error) {
          expect(error).toBeInstanceOf(Problem);
          expect((error as Problem).status).toBeLessThan(500);
          return;
        }
        expect(statement).not.toContain('\0');
        // Outside quotes, only text of the renderer may appear.
        const bare = withoutQuotes(statement);
        expect(bare, statement).toMatch(/^[A-Za-z0-9_$.,()=<>:*+|&@#~!?\-[\] ]*$/);
        expect(bare, statement).not.toMatch(/;|--|\/\*/);
        expect(bare.toLowerCase()).not.toMatch(/\b(drop|insert|update|delete|union|into)\b/);
      }),
      { numRuns: 6_000, seed: 7 },
    );
  });

  test('is the same for two values of one parameter', () => {
    const statementShape = (query: string): string => parseQuery(query, 'relation').shape;
    const quote = (value: string): string => encode(value.replaceAll('\\', '\\\\').replaceAll('"', '\\"'));
    fc.assert(
      fc.property(text, text, (a, b) => {
        expect(statementShape(`title=eq.${encode(a)}`)).toBe(statementShape(`title=eq.${encode(b)}`));
        expect(statementShape(`or=(title.eq."${quote(a)}",id.eq.1)`)).toBe(
          statementShape(`or=(title.eq."${quote(b)}",id.eq.2)`),
        );
        expect(statementShape(`title=in.("${quote(a)}")`)).toBe(
          statementShape(`title=in.("${quote(b)}",x,y)`),
        );
      }),
      { numRuns: 1_000, seed: 8 },
    );
  });
});

describe('answers', () => {
  test('are never 500, and the tables still exist', { timeout: scaled(300_000) }, async () => {
    await sideBySide(
      fc.sample(requests, { numRuns: rounds(800, 2_500), seed: 9 }),
      8,
      async ([template, value]) => {
        const path = template.replace('¤', () => encode(value));
        const answer = await world.send(path);
        expect(answer.status, `${path} -> ${answer.text}`).toBeLessThan(500);
      },
    );
    expect((await world.send('/books?select=count')).json).toEqual([{ count: 4 }]);
  });

  test('to malformed bodies are never 500', { timeout: scaled(300_000) }, async () => {
    await sideBySide(fc.sample(text, { numRuns: rounds(60, 200), seed: 10 }), 8, async (value) => {
      const safe = value.toWellFormed();
      const bodies = [
        JSON.stringify({ [safe]: 1 }),
        JSON.stringify({ id: 900, name: safe }),
        safe,
        `{"id":${safe}}`,
      ];
      for (const body of bodies) {
        for (const path of ['/genres', '/genres?columns=id,name', '/rpc/echo', '/rpc/add']) {
          const answer = await world.send(path, { method: 'POST', body, headers: { prefer: 'tx=rollback' } });
          expect(answer.status, `${path} ${body} -> ${answer.text}`).toBeLessThan(500);
        }
      }
    });
  });

  test('to malformed headers are never 500', async () => {
    const values = [
      "'",
      '"',
      '\\',
      ';',
      '--',
      'a=b',
      'x'.repeat(2_000),
      '*/*;q=x',
      'return=',
      'max-affected=-1',
      "timezone='",
      'a,b,,',
    ];
    for (const value of values) {
      for (const name of ['accept', 'prefer', 'range', 'accept-profile', 'x-anything', 'cookie']) {
        const answer = await world.send('/books', { headers: { [name]: value } });
        expect(answer.status, `${name}: ${value} -> ${answer.text}`).toBeLessThan(500);
      }
    }
  });
});

/** Returns the statement without quoted names and constants, scanned from left to right like PostgreSQL does. */
function withoutQuotes(statement: string): string {
  return statement.replaceAll(/"(?:[^"]|"")*"|E'(?:[^'\\]|''|\\.)*'|'(?:[^']|'')*'/gs, '');
}
