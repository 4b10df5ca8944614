import { describe, expect, test } from 'vitest';
import { Problem } from '../../problem/problem.ts';
import { parseQuery } from './parse-query.ts';
import type { SelectItem } from './query.ts';

function shown(items: readonly SelectItem[]): string {
  return items
    .map((item) => {
      switch (item.kind) {
        case 'star':
          return '*';
        case 'count':
          return `${item.alias ?? ''}=count()${item.cast ?? ''}`;
        case 'field': {
          const steps = item.path.steps.map(
            ({ arrow, key }) => `${arrow}${typeof key === 'number' ? `#${key}` : key}`,
          );
          const aggregate = item.aggregate ? `.${item.aggregate.name}${item.aggregate.cast ?? ''}` : '';
          return `${item.alias ?? ''}=${item.path.column}${steps.join('')}|${item.cast ?? ''}${aggregate}`;
        }
        default:
          return `${item.kind === 'spread' ? '...' : ''}${item.alias ?? ''}=${item.target}!${item.hint ?? ''}!${item.join}(${shown(item.select)})`;
      }
    })
    .join(';');
}

const select = (text: string): string => shown(parseQuery(`select=${text}`, 'relation').query.select);

describe('select', () => {
  test.each([
    ['', ''],
    ['*', '*'],
    ['id, name ', '=id|;=name|'],
    ['a:id::text', 'a=id|text'],
    ['a::double precision', '=a|double precision'],
    ['data->k->>0', '=data->k->>#0|'],
    ['data->-1', '=data->#-1|'],
    ['data->a-b', '=data->a-b|'],
    ['data->"a.b"::int', '=data->a.b|int'],
    ['"a.b":"x:y"', 'a.b=x:y|'],
    ['"q\\"q"', '=q"q|'],
    ['count()', '=count()'],
    ['n:count()::text', 'n=count()text'],
    ['price.sum()::int', '=price|.sumint'],
    ['t:price::numeric.avg()', 't=price|numeric.avg'],
    ['rel(*)', '=rel!!left(*)'],
    ['rel()', '=rel!!left()'],
    ['a:rel!fk!inner(id,deep(x))', 'a=rel!fk!inner(=id|;=deep!!left(=x|))'],
    ['rel!inner!fk(id)', '=rel!fk!inner(=id|)'],
    ['rel!left_fk(id)', '=rel!left_fk!left(=id|)'],
    ['rel!"inner"(id)', '=rel!inner!left(=id|)'],
    ['rel(arr->0)', '=rel!!left(=arr->#0|)'],
    ['rel(count)', '=rel!!left(=count|)'],
    ['...rel(a,b)', '...=rel!!left(=a|;=b|)'],
    ['naïve,日本', '=naïve|;=日本|'],
  ])('%s', (text, expected) => expect(select(text)).toBe(expected));

  test.each([
    'id,',
    ',id',
    'a b c)',
    'rel(id',
    'a:',
    ':a',
    'a::',
    'a->',
    'rel!(id)',
    'rel!a!b!c(id)',
    '""',
    '"x',
    'a.b',
    'id;',
    'a.sum(x)',
  ])('refuses %s', (text) => {
    expect(() => select(text)).toThrow(Problem);
  });
});

describe('values', () => {
  const values = (text: string): readonly string[] => parseQuery(text, 'relation').values;
  test.each([
    ['a=eq.1', ['1']],
    ['a=eq.', ['']],
    ['a=eq.x,y).z', ['x,y).z']],
    ['a=like.*x*', ['%x%']],
    ['a=match.*x*', ['*x*']],
    ['a=in.(1,2)', ['{"1","2"}']],
    ['a=in.()', ['{}']],
    ['a=in.("")', ['{""}']],
    ['a=in.( ,3)', ['{"","3"}']],
    ['a=in.(1, 2)', ['{"1"," 2"}']],
    ['a=in.("x,y","q\\"q","b\\\\s")', ['{"x,y","q\\"q","b\\\\s"}']],
    ['a=in.(")', ['{"\\""}']],
    ['a=in.(a"b)', ['{"a\\"b"}']],
    ['a=fts(english).x y', ['x y']],
    ['a=eq(any).{1,2}', ['{1,2}']],
    ['or=(a.eq."x,y",b.cs.{1,2},c.eq.z)', ['x,y', '{1,2}', 'z']],
    ['or=(a.in.(1,2),not.and(b.gt.3,c.is.null))', ['{"1","2"}', '3']],
    ['a=eq.%C3%A4+b', ['ä b']],
    ['a=eq.%zz', ['%zz']],
    ['a=eq.1&apikey=secret', ['1']],
  ])('%s', (text, expected) => expect(values(text)).toEqual(expected));

  test.each([
    'a=1',
    'a=',
    'a=zz.1',
    'a=eq',
    'a=is.x',
    'a=not.not.eq.1',
    'a=in.1',
    'a=in.(1',
    'or=()',
    'or=(a.eq.1',
    'or=a.eq.1',
    'a.b.=eq.1',
    'order=a.up',
    'order=',
    'limit=x',
    'columns=',
    'having=n',
    'having=n.cs.1',
    'a%00=eq.1',
    'select=%00',
  ])('refuses %s', (text) => {
    expect(() => values(text)).toThrow(Problem);
  });
});

describe('which occurrence counts', () => {
  test('the first select, columns and order; the last limit; all filters', () => {
    const { query, rootLimit, rootOffset } = parseQuery(
      'select=a&select=b&order=a&order=b&r.order=c&limit=1&limit=2&offset=-3&a=eq.1&a=eq.2',
      'relation',
    );
    expect(shown(query.select)).toBe('=a|');
    expect(query.orders.map((order) => [order.path, order.value[0]?.path.column])).toEqual([
      [[], 'a'],
      [['r'], 'c'],
    ]);
    expect([rootLimit, rootOffset]).toEqual([2, 0]);
    expect(query.conditions).toHaveLength(2);
  });

  test('quoted reserved names are columns', () => {
    const { query } = parseQuery('"order"=eq.1&tasks."limit"=gt.2&"having"=eq.3', 'relation');
    expect(
      query.conditions.map(({ path, value }) => [path, value.kind === 'filter' && value.path.column]),
    ).toEqual([
      [[], 'order'],
      [['tasks'], 'limit'],
      [[], 'having'],
    ]);
  });
});

test('a shape has everything but the values', () => {
  const shape = (text: string): string => parseQuery(text, 'relation').shape;
  expect(shape('a=eq.1&b=in.(1,2)')).toBe(shape('a=eq.2&b=in.(3)'));
  expect(shape('or=(a.eq."x,y",b.eq.1)')).toBe(shape('or=(a.eq.z,b.eq.2)'));
  const different = [
    'a=eq.1',
    'a=neq.1',
    'b=eq.1',
    'a=not.eq.1',
    'a=eq(any).1',
    'a=is.null',
    'a=is.true',
    'or=(a.eq.1)',
    'and=(a.eq.1)',
    'not.or=(a.eq.1)',
    'or=(a.eq.1,a.eq.1)',
    'select=a',
    'select=b',
    'order=a',
    'order=a.desc',
    'r.limit=1',
    'r.limit=2',
    'r.offset=1',
    's.limit=1',
    'columns=a',
    'on_conflict=a',
    'a=fts.x',
    'a=fts(english).x',
    'having=a.eq.1',
    'r.a=eq.1',
  ].map(shape);
  expect(new Set(different).size).toBe(different.length);
});

test('parameters without an equals sign are ignored', () => {
  expect(parseQuery('a&b&id=eq.1&c', 'relation')).toEqual(parseQuery('id=eq.1', 'relation'));
  expect(parseQuery('&&a', 'relation')).toEqual(parseQuery('', 'relation'));
});

test.each([
  ['({a,b})', undefined],
  ['(x.eq.{a,b},y.eq.1)', ['{a,b}', '1']],
  ['(x.eq.{a,y.eq.1)', ['{a', '1']],
  ['(x.eq.{{a},y.eq.1)', ['{{a}', '1']],
  ['(x.eq.{a}b,y.eq.1)', ['{a}b', '1']],
  ['(x.eq.{a,y.eq.{b,z.eq.{c})', ['{a', '{b', '{c}']],
  ['(x.eq.{a(,)})', ['{a(,)}']],
])('braces in a logic tree: %s', (text, values) => {
  const read = (): readonly string[] => parseQuery(`or=${encodeURIComponent(text)}`, 'relation').values;
  if (values === undefined) expect(read).toThrow('failed to parse logic tree');
  else expect(read()).toEqual(values);
});
