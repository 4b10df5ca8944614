// Generates requests from the grammar and the catalog of kinds-fixture.ts. Every list is ordered by a unique key, so
// that two correct servers return the same response.
import * as fc from 'fast-check';

export type Made = {
  readonly method: string;
  readonly path: string;
  readonly prefer?: string | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body?: string | undefined;
  readonly asUser?: boolean | undefined;
  /** The rows of the list have no defined order. */
  readonly unordered?: boolean | undefined;
};

type Relation = {
  readonly name: string;
  readonly key: readonly string[];
  readonly columns: Readonly<Record<string, Kind>>;
  readonly one: ReadonlyArray<{ readonly embed: string; readonly to: string }>;
  readonly many: ReadonlyArray<{ readonly embed: string; readonly to: string }>;
};

type Kind =
  | 'int'
  | 'numeric'
  | 'text'
  | 'bool'
  | 'date'
  | 'timestamp'
  | 'interval'
  | 'uuid'
  | 'json'
  | 'jsonb'
  | 'ints'
  | 'texts'
  | 'range'
  | 'enum'
  | 'composite'
  | 'vector'
  | 'other';

const RELATIONS: Readonly<Record<string, Relation>> = {
  kinds: {
    name: 'kinds',
    key: ['id'],
    columns: {
      id: 'int',
      c_smallint: 'int',
      c_bigint: 'int',
      c_numeric: 'numeric',
      c_real: 'numeric',
      c_double: 'numeric',
      c_text: 'text',
      c_varchar: 'text',
      c_char: 'text',
      c_bool: 'bool',
      c_date: 'date',
      c_time: 'other',
      c_timestamp: 'timestamp',
      c_timestamptz: 'timestamp',
      c_interval: 'interval',
      c_uuid: 'uuid',
      c_bytea: 'other',
      c_json: 'json',
      c_jsonb: 'jsonb',
      c_ints: 'ints',
      c_texts: 'texts',
      c_range: 'range',
      c_mood: 'enum',
      c_pair: 'composite',
      c_positive: 'int',
      c_inet: 'other',
      c_vector: 'vector',
    },
    one: [],
    many: [],
  },
  teams: {
    name: 'teams',
    key: ['id'],
    columns: { id: 'int', name: 'text', parent_id: 'int', code: 'text' },
    one: [{ embed: 'parent:parent_id', to: 'teams' }],
    many: [
      { embed: 'people', to: 'people' },
      { embed: 'parts:teams', to: 'teams' },
    ],
  },
  people: {
    name: 'people',
    key: ['id'],
    columns: {
      id: 'int',
      name: 'text',
      age: 'int',
      team_id: 'int',
      boss_id: 'int',
      meta: 'jsonb',
      home_id: 'int',
      work_id: 'int',
    },
    one: [
      { embed: 'teams', to: 'teams' },
      { embed: 'team:team_id', to: 'teams' },
      { embed: 'boss:boss_id', to: 'people' },
      { embed: 'home:places!people_home', to: 'places' },
      { embed: 'work:places!work_id', to: 'places' },
      { embed: 'badges', to: 'badges' },
    ],
    many: [
      { embed: 'reports:people!boss_id', to: 'people' },
      { embed: 'tags', to: 'tags' },
      { embed: 'people_tags', to: 'people_tags' },
      { embed: 'bookings', to: 'bookings' },
    ],
  },
  places: {
    name: 'places',
    key: ['id'],
    columns: { id: 'int', city: 'text', size: 'numeric' },
    one: [],
    many: [{ embed: 'people!people_home', to: 'people' }],
  },
  badges: {
    name: 'badges',
    key: ['person_id'],
    columns: { person_id: 'int', color: 'text' },
    one: [{ embed: 'people', to: 'people' }],
    many: [],
  },
  tags: {
    name: 'tags',
    key: ['id'],
    columns: { id: 'int', label: 'text' },
    one: [],
    many: [{ embed: 'people', to: 'people' }],
  },
  people_tags: {
    name: 'people_tags',
    key: ['person_id', 'tag_id'],
    columns: { person_id: 'int', tag_id: 'int', weight: 'int' },
    one: [
      { embed: 'people', to: 'people' },
      { embed: 'tags', to: 'tags' },
    ],
    many: [],
  },
  rooms: {
    name: 'rooms',
    key: ['building', 'number'],
    columns: { building: 'text', number: 'int', seats: 'int' },
    one: [],
    many: [{ embed: 'bookings', to: 'bookings' }],
  },
  bookings: {
    name: 'bookings',
    key: ['id'],
    columns: { id: 'int', building: 'text', number: 'int', who: 'int', at: 'date' },
    one: [
      { embed: 'rooms', to: 'rooms' },
      { embed: 'people', to: 'people' },
    ],
    many: [],
  },
};

const relation = (name: string): Relation => RELATIONS[name]!;

const VALUES: Readonly<Record<Kind, readonly string[]>> = {
  int: ['1', '2', '-1', '0', '25', '9007199254740993', 'abc', '', '1.5'],
  numeric: ['1.5', '0', '-0.5', '1e3', 'NaN', 'x'],
  text: [
    'alpha',
    'Ada',
    '',
    'x',
    'it\'s, (quoted) "x"',
    'null',
    'é',
    'a b',
    'naïve ☃ 😀',
    '{a}',
    'eq.1',
    '\\',
  ],
  bool: ['true', 'f', '1', 'maybe'],
  date: ['2020-01-01', 'infinity', 'today!', '1999-12-31'],
  timestamp: ['2020-01-02 03:04:05', '2020-01-02', 'never'],
  interval: ['1 day', '-3 mons', 'soon'],
  uuid: ['00000000-0000-0000-0000-000000000001', 'nope'],
  json: ['{"a":1}', '5', 'bad'],
  jsonb: ['{"a":null}', '5', '"5"', '[10]', 'bad', '{"lang":"en"}'],
  ints: ['{1}', '{}', '{1,2}', '{4,null,5}', '1'],
  texts: ['{a}', '{"b c"}', '{}', '{ä}', 'x'],
  range: ['[1,5)', '[2,3)', '(,3]', 'empty', '5'],
  enum: ['ok', 'sad', 'angry'],
  composite: ['(1,one)', '(,)'],
  vector: ['cat', 'fat'],
  other: ['10:00', '\\xdead', '10.0.0.1', '1'],
};

const COMPARE = ['eq', 'neq', 'gt', 'gte', 'lt', 'lte'];
const ENCODED = (text: string): string => encodeURIComponent(text);

/** Quotes a value with reserved characters, as a logic tree requires. */
function quotedIfNeeded(value: string): string {
  return /[,()"\\{}]/.test(value) || value === ''
    ? `"${value.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`
    : value;
}

type FilterText = { readonly column: string; readonly operator: string; readonly value: string };

function filter(table: Relation): fc.Arbitrary<FilterText> {
  return fc.constantFrom(...Object.entries(table.columns)).chain(([column, kind]) => {
    const value = fc.constantFrom(...VALUES[kind]);
    const plain = fc.tuple(fc.constantFrom(...COMPARE), value);
    const isNull = fc.tuple(fc.constant('is'), fc.constantFrom('null', 'true', 'false', 'unknown', 'NULL'));
    const list = fc.tuple(
      fc.constant('in'),
      fc.array(value, { maxLength: 3 }).map((items) => `(${items.map(quotedIfNeeded).join(',')})`),
    );
    const distinct = fc.tuple(fc.constant('isdistinct'), value);
    const options: Array<fc.Arbitrary<[string, string]>> = [plain, plain, isNull, list, distinct];
    if (kind === 'text') {
      options.push(
        fc.tuple(fc.constantFrom('like', 'ilike'), fc.constantFrom('a*', '*A*', '%l%', '_da', '100\\%*', '')),
        fc.tuple(fc.constantFrom('match', 'imatch'), fc.constantFrom('^a', 'a$', '[', '.*')),
        fc.tuple(
          fc.constantFrom('fts', 'plfts', 'phfts', 'wfts', 'fts(english)'),
          fc.constantFrom('ada', 'alpha'),
        ),
        fc.tuple(fc.constantFrom('like(any)', 'ilike(all)'), fc.constantFrom('{a*,*d*}', '{*a*}')),
      );
    }
    if (kind === 'int') {
      options.push(
        fc.tuple(fc.constantFrom('eq(any)', 'gt(all)', 'lte(any)'), fc.constantFrom('{1,2}', '{}')),
      );
    }
    if (kind === 'ints' || kind === 'texts' || kind === 'jsonb' || kind === 'range') {
      options.push(
        fc.tuple(fc.constantFrom('cs', 'cd'), value),
        fc.tuple(fc.constantFrom('cs', 'ov'), value),
      );
    }
    if (kind === 'range') options.push(fc.tuple(fc.constantFrom('sl', 'sr', 'nxr', 'nxl', 'adj'), value));
    if (kind === 'vector') {
      return fc
        .tuple(fc.constantFrom('fts', 'plfts', 'phfts', 'wfts', 'fts(english)', 'fts(simple)'), value)
        .map(([operator, text]) => ({ column, operator, value: text }));
    }
    const path =
      kind === 'jsonb' || kind === 'json'
        ? fc.constantFrom(
            column,
            `${column}->>lang`,
            `${column}->a`,
            `${column}->>n`,
            `${column}->0`,
            `${column}->nested->>k`,
          )
        : fc.constant(column);
    return fc.tuple(path, fc.boolean(), fc.oneof(...options)).map(([name, negated, [operator, text]]) => ({
      column: name,
      operator: negated ? `not.${operator}` : operator,
      value: text,
    }));
  });
}

function parameter(table: Relation, prefix: string): fc.Arbitrary<string> {
  const single = filter(table).map(
    ({ column, operator, value }) => `${prefix}${ENCODED(column)}=${ENCODED(`${operator}.${value}`)}`,
  );
  const term = filter(table).map(({ column, operator, value }) => {
    const isList = operator.endsWith('in') || operator.includes('(a') || operator.endsWith('is');
    return `${column}.${operator}.${isList ? value : quotedIfNeeded(value)}`;
  });
  const nested = fc
    .tuple(fc.constantFrom('and', 'or', 'not.and', 'not.or'), fc.array(term, { minLength: 1, maxLength: 2 }))
    .map(([joiner, terms]) => `${joiner}(${terms.join(',')})`);
  const logic = fc
    .tuple(
      fc.constantFrom('or', 'and', 'not.or', 'not.and'),
      fc.array(fc.oneof({ weight: 3, arbitrary: term }, nested), { minLength: 1, maxLength: 3 }),
    )
    .map(([joiner, terms]) => `${prefix}${joiner}=${ENCODED(`(${terms.join(',')})`)}`);
  return fc.oneof({ weight: 3, arbitrary: single }, logic);
}

function field(table: Relation): fc.Arbitrary<string> {
  return fc.constantFrom(...Object.entries(table.columns)).chain(([column, kind]) => {
    const forms = [column, `${column}::text`, `a_${column}:${column}`, `b_${column}:${column}::text`];
    if (kind === 'jsonb' || kind === 'json') {
      forms.push(
        `${column}->a`,
        `${column}->>lang`,
        `l:${column}->0`,
        `${column}->tags->>-1`,
        `k:${column}->nested->k`,
      );
    }
    if (kind === 'ints' || kind === 'texts') forms.push(`f_${column}:${column}->0`);
    if (kind === 'composite') forms.push(`${column}->y`, `${column}->>x`);
    if (kind === 'int') forms.push(`${column}::numeric`, `c_${column}:${column}::int8`);
    return fc.constantFrom(...forms);
  });
}

/** Two embeds with the same name are an error in both servers, but not always the first error that is found. */
function embedName({ select }: Part): string {
  return /^(?:\.\.\.)?(\w+)/.exec(select)?.[1] ?? select;
}

type Part = {
  readonly select: string;
  readonly parameters: readonly string[];
  readonly unordered?: boolean;
  /** Keys that an embed adds to its parent row: its name, or the keys that a spread lifts. */
  readonly keys?: readonly string[];
};

/** A spread that lifts an embed next to another with the same name would create a duplicate key. */
function haveKeysOnce(parts: readonly Part[]): boolean {
  const keys = parts.flatMap((part) => part.keys ?? []);
  return new Set(keys).size === keys.length;
}

function embed(table: Relation, depth: number, prefix: string): fc.Arbitrary<Part> {
  const toOne = table.one.map((relationship) => ({ ...relationship, isOne: true }));
  const toMany = table.many.map((relationship) => ({ ...relationship, isOne: false }));
  return fc.constantFrom(...toOne, ...toMany).chain(({ embed: text, to, isOne }) => {
    const target = relation(to);
    const name = (/^(\w+):/.exec(text)?.[1] ?? /^\w+/.exec(text)?.[0]) || text;
    const path = `${prefix}${name}.`;
    const join = fc.constantFrom('', '', '', '!inner', '!left');
    const body = fc.oneof(
      {
        weight: 4,
        arbitrary: fc.uniqueArray(field(target), { minLength: 1, maxLength: 3, selector: outputKey }),
      },
      { weight: 2, arbitrary: fc.constant(['*']) },
      { weight: 1, arbitrary: fc.constant([] as string[]) },
    );
    const inner =
      depth > 1 && target.one.length + target.many.length > 0
        ? fc.option(embed(target, depth - 1, path), { freq: 3, nil: undefined })
        : fc.constant(undefined);
    const isSpread =
      isOne && !text.includes(':') ? fc.constantFrom(false, false, false, true) : fc.constant(false);
    const filters = fc.array(parameter(target, path), { maxLength: 1 });
    const limit = isOne
      ? fc.constant('')
      : fc.constantFrom('', '', `${path}limit=1`, `${path}offset=1`, `${path}limit=2`);
    return fc
      .tuple(join, body, inner, isSpread, filters, limit)
      .map(([kind, fields, nested, spread, extra, page]) => {
        const items = [...fields, ...(nested ? [nested.select] : [])];
        const shown = spread ? items.filter((item) => item !== '*') : items;
        const order = isOne ? [] : [`${path}order=${target.key.join(',')}`];
        const list = shown.map((item, index) => (spread ? spreadAlias(item, `${name}${index}`) : item));
        return {
          select: `${spread ? '...' : ''}${text}${kind}(${list.join(',')})`,
          parameters: [...extra, ...order, ...(page === '' ? [] : [page]), ...(nested?.parameters ?? [])],
          keys: spread ? (nested?.keys ?? []) : [name],
        };
      });
  });
}

/** Two columns with the same name would create duplicate keys, which JSON parsers treat differently. */
function spreadAlias(item: string, name: string): string {
  if (item.includes('(') || item.startsWith('...')) return item;
  const bare = item.includes(':') && !item.startsWith(':') ? item.replace(/^[a-z]\w*:(?!:)/, '') : item;
  return `s_${name}_${bare.replaceAll(/\W/g, '')}:${bare}`;
}

function outputKey(item: string): string {
  const alias = /^(\w+):(?!:)/.exec(item)?.[1];
  if (alias) return alias;
  const keys = item
    .replace(/::.*$/, '')
    .split(/->>?/)
    .filter((key) => !/^-?\d+$/.test(key));
  return keys.at(-1) ?? item;
}

/** Groups by columns of any type, by embeds and by lifted columns; aggregates here and in the spread. */
function groupedRead(table: Relation): fc.Arbitrary<Part & { readonly unordered: boolean }> {
  const toOne = table.one.filter(({ embed: text }) => !text.includes(':'));
  const spread = (): fc.Arbitrary<Part> =>
    fc.constantFrom(...toOne).chain(({ embed: name, to }) => {
      const columns = Object.keys(relation(to).columns);
      return fc
        .tuple(
          fc.uniqueArray(fc.constantFrom(...columns), { minLength: 1, maxLength: 2 }),
          fc.option(aggregate(relation(to), 's'), { freq: 2, nil: undefined }),
          fc.constantFrom('', '', '.desc', '.desc.nullslast'),
          fc.constantFrom('', '', '!inner'),
        )
        .map(([lifted, folded, direction, join]) => {
          const list = [...lifted.map((column) => `s_${column}:${column}`), ...(folded ? [folded] : [])];
          return {
            select: `...${name}${join}(${list.join(',')})`,
            parameters: [`order=${lifted.map((column) => `${name}(s_${column})${direction}`).join(',')}`],
          };
        });
    });
  const shown = (): fc.Arbitrary<Part> =>
    fc.constantFrom(...table.one, ...table.many).chain(({ embed: text, to }) =>
      fc.constantFrom(...Object.keys(relation(to).columns)).map((column) => {
        const name = /^\w+/.exec(text)?.[0] ?? text;
        return {
          select: `${text}(${column})`,
          parameters: [`${name}.order=${relation(to).key.join(',')}`],
          keys: [name],
        };
      }),
    );
  const part = fc.oneof(
    { weight: 3, arbitrary: fc.constant<Part>({ select: '', parameters: [] }) },
    ...(toOne.length > 0 ? [{ weight: 2, arbitrary: spread() }] : []),
    ...(table.one.length + table.many.length > 0 ? [{ weight: 1, arbitrary: shown() }] : []),
  );
  return fc
    .tuple(
      fc.uniqueArray(field(table), { maxLength: 3, selector: outputKey }),
      fc.uniqueArray(aggregate(table, 'x'), { minLength: 1, maxLength: 2, selector: outputKey }),
      part,
      fc.array(parameter(table, ''), { maxLength: 1 }),
      fc.boolean(),
    )
    .map(([fields, aggregates, more, filters, isOrdered]) => {
      // A column and an embed with the same name are a duplicate key, and an ambiguous group for PostgREST.
      const keys = fields.filter((field) => !more.keys?.includes(outputKey(field)));
      const plain = keys.filter((key) => !/::|->/.test(key)).map((key) => key.replace(/^\w+:/, ''));
      const own = isOrdered && plain.length > 0 ? [`order=${plain.join(',')}`] : [];
      const hasOrder = more.parameters.some((text) => text.startsWith('order='));
      return {
        select: [...keys, ...aggregates, more.select].filter(Boolean).join(','),
        parameters: [...filters, ...more.parameters, ...(hasOrder ? [] : own)],
        unordered: true,
      };
    });
}

const FOLDS: Readonly<Partial<Record<Kind, readonly string[]>>> = {
  int: ['sum', 'avg', 'min', 'max', 'count'],
  numeric: ['sum', 'avg', 'min', 'max', 'count'],
  interval: ['sum', 'avg', 'max', 'count'],
  date: ['min', 'max', 'count'],
  timestamp: ['min', 'max', 'count'],
  text: ['min', 'max', 'count', 'sum'],
  ints: ['min', 'max', 'count'],
  enum: ['min', 'max', 'count'],
};

function aggregate(table: Relation, prefix: string): fc.Arbitrary<string> {
  return fc.oneof(
    { weight: 1, arbitrary: fc.constantFrom(`${prefix}_n:count()`, `${prefix}_t:count()::text`) },
    {
      weight: 3,
      arbitrary: fc
        .constantFrom(...Object.entries(table.columns))
        .chain(([column, kind]) =>
          fc
            .tuple(
              fc.constantFrom(...(FOLDS[kind] ?? ['count', 'max'])),
              fc.constantFrom('', '', '', '::text'),
            )
            .map(([name, cast]) => `${prefix}_${column}_${name}:${column}.${name}()${cast}`),
        ),
    },
  );
}

/** Aggregates inside an embed, one list for each parent. */
function groupedEmbed(table: Relation): fc.Arbitrary<Part> {
  return fc.constantFrom(...table.many).chain(({ embed: text, to }) => {
    const name = (/^(\w+):/.exec(text)?.[1] ?? /^\w+/.exec(text)?.[0]) || text;
    const target = relation(to);
    return fc
      .tuple(
        fc.option(fc.constantFrom(...Object.keys(target.columns)), { freq: 3, nil: undefined }),
        aggregate(target, 'x'),
        fc.array(parameter(target, `${name}.`), { maxLength: 1 }),
        fc.constantFrom('', '', '!inner'),
      )
      .map(([key, folded, filters, join]) => ({
        select: [...table.key, `${text}${join}(${[...(key ? [`g:${key}`] : []), folded].join(',')})`].join(
          ',',
        ),
        parameters: [...filters, ...(key ? [`${name}.order=${key}`] : []), `order=${table.key.join(',')}`],
      }));
  });
}

/** Aliases that are also names of columns or of other tables, and all parameters that may use them. */
function aliasedRead(table: Relation): fc.Arbitrary<Part> {
  const names = [...Object.keys(table.columns), ...Object.keys(RELATIONS), 'k', 'k'];
  const targets = [
    ...table.one.map((relationship) => ({ ...relationship, isOne: true })),
    ...table.many.map((relationship) => ({ ...relationship, isOne: false })),
  ];
  return fc
    .uniqueArray(
      fc.tuple(fc.constantFrom(...names), fc.constantFrom(...targets), fc.constantFrom('', '', '!inner')),
      {
        minLength: 1,
        maxLength: 2,
        selector: ([alias]) => alias,
      },
    )
    .chain((embeds) => {
      const shown = embeds.map(([alias, { embed: text, to, isOne }, join]) => {
        const target = text.replace(/^\w+:/, '');
        return {
          alias,
          target: /^\w+/.exec(target)?.[0] ?? target,
          to,
          isOne,
          select: `${alias}:${target}${join}(${relation(to).key.join(',')})`,
        };
      });
      const references = [
        ...shown.flatMap(({ alias, target }) => [alias, alias, target]),
        ...Object.keys(table.columns),
      ];
      const name = fc.constantFrom(...references);
      // If two embeds have the same target, its name identifies neither.
      const referenceName = (target: string, alias: string): string =>
        shown.filter((embed) => embed.target === target).length > 1 ? alias : target;
      const value = fc.constantFrom('is.null', 'not.is.null', 'is.null', 'not.is.null', 'eq.1');
      const inside = fc.constantFrom(...shown).chain(({ alias, target, to, isOne }) =>
        fc
          .tuple(
            fc.constantFrom(alias, alias, referenceName(target, alias)),
            fc.constantFrom(...relation(to).key),
            fc.constantFrom('filter', 'order', 'limit', 'related'),
          )
          .map(([reference, column, kind]) => {
            if (kind === 'filter') return `${reference}.${column}=neq.1`;
            if (kind === 'order') return `${reference}.order=${column}.desc`;
            if (kind === 'limit') return `${reference}.limit=1`;
            return isOne ? `order=${reference}(${column}),${table.key.join(',')}` : `${reference}.offset=1`;
          }),
      );
      const parameter = fc.oneof(
        { weight: 3, arbitrary: fc.tuple(name, value).map(([reference, test]) => `${reference}=${test}`) },
        { weight: 3, arbitrary: inside },
        {
          weight: 1,
          arbitrary: fc
            .tuple(fc.constantFrom('or', 'and', 'not.or'), name, name, value)
            .map(([joiner, a, b, test]) => `${joiner}=(${a}.is.null,${b}.${test})`),
        },
      );
      return fc
        .uniqueArray(parameter, { minLength: 1, maxLength: 3, selector: (text) => text.split('=')[0] })
        .map((parameters) => ({
          select: [...table.key, ...shown.map(({ select }) => select)].join(','),
          parameters: [
            ...parameters.filter(
              (text, index) =>
                !text.startsWith('order=') ||
                parameters.findIndex((parameter) => parameter.startsWith('order=')) === index,
            ),
            ...shown
              .filter(({ isOne }) => !isOne)
              .map(({ alias, to }) => `${alias}.order=${relation(to).key.join(',')}`),
            ...(parameters.some((text) => text.startsWith('order=')) ? [] : [`order=${table.key.join(',')}`]),
          ],
        }));
    });
}

const aggregateSelect = (table: Relation): fc.Arbitrary<string> => {
  const numbers = Object.entries(table.columns).filter(([, kind]) => kind === 'int' || kind === 'numeric');
  const aggregate = fc.oneof(
    fc.constant('n:count()'),
    fc
      .tuple(fc.constantFrom(...numbers), fc.constantFrom('sum', 'avg', 'min', 'max', 'count'))
      .map(([[column], name]) => `x_${column}_${name}:${column}.${name}()`),
  );
  return fc
    .tuple(fc.uniqueArray(aggregate, { minLength: 1, maxLength: 3 }), fc.constantFrom('', ...table.key))
    .map(([aggregates, group]) => [...(group ? [group] : []), ...aggregates].join(','));
};

export const readRequests: fc.Arbitrary<Made> = fc
  .constantFrom(...Object.values(RELATIONS), relation('kinds'), relation('people'), relation('people'))
  .chain((table) => {
    const hasEmbeds = table.one.length + table.many.length > 0;
    const fields = fc.oneof(
      {
        weight: 3,
        arbitrary: fc.uniqueArray(field(table), { minLength: 1, maxLength: 4, selector: outputKey }),
      },
      { weight: 2, arbitrary: fc.constant(['*']) },
    );
    const plain = fc
      .tuple(
        fields,
        hasEmbeds
          ? fc
              .uniqueArray(embed(table, 3, ''), { maxLength: 2, selector: embedName })
              .filter((embeds) => haveKeysOnce(embeds))
          : fc.constant([]),
        fc.array(parameter(table, ''), { maxLength: 2 }),
        order(table),
      )
      .map(([items, embeds, filters, ordering]) => ({
        select: [...items, ...embeds.map((embed) => embed.select)].join(','),
        parameters: [...filters, ...embeds.flatMap((embed) => embed.parameters), `order=${ordering}`],
      }));
    const counted: fc.Arbitrary<Part> = fc
      .tuple(aggregateSelect(table), fc.array(parameter(table, ''), { maxLength: 1 }))
      .map(([select, filters]) => {
        const key = table.key.find((column) => select.split(',')[0] === column);
        return { select, parameters: [...filters, ...(key ? [`order=${key}`] : [])] };
      });
    const read: fc.Arbitrary<Part> = fc.oneof(
      { weight: 12, arbitrary: plain },
      { weight: 2, arbitrary: counted },
      { weight: 5, arbitrary: groupedRead(table) },
      ...(table.many.length > 0 ? [{ weight: 2, arbitrary: groupedEmbed(table) }] : []),
      ...(hasEmbeds ? [{ weight: 4, arbitrary: aliasedRead(table) }] : []),
    );
    const page = fc.constantFrom(
      '',
      '',
      '',
      'limit=3',
      'limit=2&offset=1',
      'offset=2',
      'limit=0',
      'offset=100',
      'limit=100',
      'limit=199',
      'limit=200',
      'limit=1000',
      'limit=5000',
      'limit=-1',
    );
    return fc
      .record({
        read,
        page,
        prefer: fc.constantFrom(
          undefined,
          undefined,
          'count=exact',
          'handling=lenient, nonsense',
          'handling=strict, nonsense',
          'timezone=Asia/Tokyo',
        ),
        accept: fc.constantFrom(
          undefined,
          undefined,
          undefined,
          undefined,
          'application/vnd.pgrst.object+json',
          'text/csv',
          'application/vnd.pgrst.array+json;nulls=stripped',
          'text/unknown',
        ),
        method: fc.constantFrom('GET', 'GET', 'GET', 'GET', 'HEAD'),
        range: fc.constantFrom(undefined, undefined, undefined, undefined, '0-2', '1-', '3-1', 'items=0-1'),
        asUser: fc.boolean(),
      })
      .map(({ read: choice, page: pageText, prefer, accept, method, range, asUser }) => ({
        method,
        path: url(
          `/${table.name}`,
          `select=${ENCODED(choice.select)}`,
          ...choice.parameters,
          // Unordered lists can only be compared as a whole.
          choice.unordered && !/^(limit=\d{3,})?$/.test(pageText) ? '' : pageText,
        ),
        prefer,
        asUser,
        unordered: choice.unordered,
        headers: { ...(accept ? { accept } : {}), ...(range && !choice.unordered ? { range } : {}) },
      }));
  });

function order(table: Relation): fc.Arbitrary<string> {
  const sortable = Object.entries(table.columns).filter(
    ([, kind]) => !['json', 'composite', 'vector', 'other'].includes(kind),
  );
  return fc
    .option(
      fc.tuple(
        fc.constantFrom(...sortable),
        fc.constantFrom('', '.asc', '.desc'),
        fc.constantFrom('', '.nullsfirst', '.nullslast'),
      ),
      { freq: 2, nil: undefined },
    )
    .map((first) => [...(first ? [`${first[0][0]}${first[1]}${first[2]}`] : []), ...table.key].join(','));
}

const LOG_ROWS = fc
  .record(
    {
      id: fc.constantFrom<unknown>(1, 2, 50, 51, '60', null, 'x'),
      line: fc.constantFrom<unknown>('l', 'ü', '', null, 5, { a: 1 }),
      level: fc.constantFrom<unknown>(1, '7', null, 'high', 1.5),
      at: fc.constantFrom<unknown>('2020-02-02', null, 'x'),
      nope: fc.constant(1),
    },
    { requiredKeys: [] },
  )
  .map((row) => {
    const { nope, ...rest } = row;
    // Mostly existing keys.
    return nope !== undefined && Object.keys(rest).length === 2 ? row : rest;
  });

const SELECT = fc.constantFrom('', 'select=*', 'select=line,level', 'select=id::text,l:line', 'select=nope');
const RETURN = fc.constantFrom(
  'return=minimal',
  'return=representation',
  'return=representation',
  'return=headers-only',
  '',
);
const COUNT = fc.constantFrom('', '', 'count=exact');
const SINGULAR = fc.constantFrom(
  undefined,
  undefined,
  undefined,
  'application/vnd.pgrst.object+json',
  'text/csv',
);

const join = (...parts: ReadonlyArray<string>): string => parts.filter(Boolean).join(', ');
const url = (path: string, ...parts: ReadonlyArray<string>): string => {
  const query = parts.filter(Boolean).join('&');
  return query === '' ? path : `${path}?${query}`;
};

const inserts: fc.Arbitrary<Made> = fc
  .record({
    // Explicit ids: a sequence does not roll back and would differ between the two servers.
    body: fc.oneof(
      LOG_ROWS.map((row) => ({ id: 70, ...row })).map((row) => JSON.stringify(row)),
      fc
        .array(
          LOG_ROWS.map((row) => ({ id: 71, line: 'l', ...row })),
          { maxLength: 3 },
        )
        .map((rows) =>
          JSON.stringify(
            rows.map((row, index) => ({
              ...row,
              id: typeof row.id === 'number' ? row.id + index * 10 : row.id,
            })),
          ),
        ),
      fc.constantFrom('', '{', '[1]', '[]', '{"id":80,"line":"x"} trailing'),
    ),
    select: SELECT,
    returns: RETURN,
    count: COUNT,
    accept: SINGULAR,
    columns: fc.constantFrom(
      '',
      '',
      'columns=id,line',
      'columns="id","line","level"',
      'columns=nope',
      'columns=id,line,level,at',
    ),
    resolution: fc.constantFrom('', '', 'resolution=merge-duplicates', 'resolution=ignore-duplicates'),
    missing: fc.constantFrom('', '', 'missing=default'),
    conflict: fc.constantFrom('', '', 'on_conflict=id', 'on_conflict=line'),
    order: fc.constantFrom('', 'order=id.desc'),
  })
  .map((choice) => ({
    method: 'POST',
    path: url('/log', choice.select, choice.columns, choice.conflict, choice.order),
    prefer: join(choice.resolution, choice.missing, choice.returns, choice.count, 'tx=rollback'),
    headers: { 'content-type': 'application/json', ...(choice.accept ? { accept: choice.accept } : {}) },
    body: choice.body,
  }));

const updates: fc.Arbitrary<Made> = fc
  .record({
    body: fc.oneof(
      LOG_ROWS.map((row) => JSON.stringify(row)),
      fc.constantFrom('{}', '[]', '', 'x'),
    ),
    where: fc.constantFrom(
      'id=eq.1',
      'id=in.(1,2)',
      'id=gt.0',
      'id=eq.99',
      'line=like.*o*',
      'or=(id.eq.1,line.eq.two)',
      'id=eq.x',
    ),
    select: SELECT,
    returns: RETURN,
    count: COUNT,
    accept: SINGULAR,
    order: fc.constant('order=id'),
  })
  .map((choice) => ({
    method: 'PATCH',
    path: url(
      '/log',
      choice.where,
      choice.select,
      choice.returns === 'return=representation' ? choice.order : '',
    ),
    prefer: join(choice.returns, choice.count, 'tx=rollback'),
    headers: { 'content-type': 'application/json', ...(choice.accept ? { accept: choice.accept } : {}) },
    body: choice.body,
  }));

const deletes: fc.Arbitrary<Made> = fc
  .record({
    where: fc.constantFrom(
      'id=eq.1',
      'id=gt.0',
      'id=eq.99',
      'line=in.(one,two)',
      'not.or=(id.eq.1,line.eq.q)',
      'nope=eq.1',
    ),
    select: SELECT,
    returns: RETURN,
    count: COUNT,
    accept: SINGULAR,
  })
  .map((choice) => ({
    method: 'DELETE',
    path: url(
      '/log',
      choice.where,
      choice.select,
      choice.returns === 'return=representation' ? 'order=id' : '',
    ),
    prefer: join(choice.returns, choice.count, 'tx=rollback'),
    headers: choice.accept ? { accept: choice.accept } : {},
  }));

const puts: fc.Arbitrary<Made> = fc
  .record({
    id: fc.constantFrom('1', '90'),
    bodyId: fc.constantFrom(1, 90),
    returns: RETURN,
    where: fc.constantFrom('', '', 'line=eq.x'),
  })
  .map((choice) => ({
    method: 'PUT',
    path: url('/log', `id=eq.${choice.id}`, choice.where),
    prefer: join(choice.returns, 'tx=rollback'),
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ id: choice.bodyId, line: 'put', level: 1, at: null }),
  }));

const embeddedWrites: fc.Arbitrary<Made> = fc
  .record({
    select: fc.constantFrom(
      'id,teams(name)',
      '*,badges(color)',
      'name,tags(label)',
      'id,...teams(team:name)',
      'boss:boss_id(name),id',
      'id,teams!inner(name)',
    ),
    where: fc.constantFrom('id=eq.1', 'id=lt.4', 'team_id=is.null', 'name=eq.Ada'),
    asUser: fc.boolean(),
  })
  .map((choice) => ({
    method: 'PATCH',
    path: url(
      '/people',
      choice.where,
      `select=${choice.select}`,
      'order=id',
      'tags.order=id'.repeat(choice.select.includes('tags') ? 1 : 0),
    ),
    prefer: 'return=representation, tx=rollback',
    headers: { 'content-type': 'application/json' },
    body: '{"age":50}',
    asUser: choice.asUser,
  }));

/** Writes whose representation shows fewer rows than they change. */
const narrowedWrites: fc.Arbitrary<Made> = fc
  .record({
    method: fc.constantFrom('PATCH', 'DELETE'),
    select: fc.constantFrom(
      'select=id,people!inner(name)',
      'select=id,people!inner(name)&people.name=eq.Ada',
      'select=id,people(name)&people.age=gt.26',
      'select=count()',
      'select=who,n:count()',
      'select=id',
    ),
    where: fc.constantFrom('id=eq.1', 'id=lt.3', 'id=gt.0', 'who=is.null', 'id=eq.99'),
    count: COUNT,
    accept: SINGULAR,
  })
  .map((choice) => ({
    method: choice.method,
    path: url('/bookings', choice.where, choice.select),
    prefer: join('return=representation', choice.count, 'tx=rollback'),
    headers: { 'content-type': 'application/json', ...(choice.accept ? { accept: choice.accept } : {}) },
    ...(choice.method === 'PATCH' ? { body: '{"at":"2024-02-29"}' } : {}),
    unordered: true,
  }));

const narrowedPuts: fc.Arbitrary<Made> = fc
  .record({
    select: fc.constantFrom('select=label', 'select=people_tags!inner(weight)', 'select=count()'),
    id: fc.constantFrom('1', '9'),
    bodyId: fc.constantFrom(1, 9),
  })
  .map(({ select, id, bodyId }) => ({
    method: 'PUT',
    path: url('/tags', `id=eq.${id}`, select),
    prefer: 'return=representation, tx=rollback',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ id: bodyId, label: 'put' }),
  }));

/** Ids from a sequence are not shown, because a sequence does not roll back. */
const identityWrites: fc.Arbitrary<Made> = fc
  .record({
    table: fc.constantFrom(
      { path: '/log', text: 'line', value: 'level' },
      { path: '/counted', text: 'name', value: 'plan' },
    ),
    rows: fc.array(
      fc.record(
        {
          id: fc.constantFrom(1, 500, 501),
          text: fc.constantFrom('a', 'b', null),
          level: fc.constantFrom(7, null),
        },
        { requiredKeys: [] },
      ),
      { maxLength: 3 },
    ),
    columns: fc.constantFrom('id,TEXT', 'TEXT,VALUE', 'id,TEXT,level', 'id,TEXT,VALUE,level'),
    missing: fc.constantFrom('missing=default', 'missing=default', ''),
    resolution: fc.constantFrom('', '', 'resolution=merge-duplicates', 'resolution=ignore-duplicates'),
    isPatch: fc.integer({ min: 0, max: 3 }).map((number) => number === 0),
  })
  .map(({ table, rows, columns, missing, resolution, isPatch }) => {
    const named = columns.replace('TEXT', table.text).replace('VALUE', table.value);
    // Unique ids far from those of the sequence.
    const sent = rows.map(({ text, id, level }, index) => ({
      ...(id === undefined ? {} : { id: id === 1 ? 1 : id + index * 10 }),
      ...(text === undefined ? {} : { [table.text]: text }),
      ...(level === undefined ? {} : { level }),
    }));
    return {
      method: isPatch ? 'PATCH' : 'POST',
      path: url(
        table.path,
        isPatch ? 'id=eq.2' : '',
        `columns=${[...new Set(named.split(','))].join(',')}`,
        `select=${[...new Set([table.text, table.value, 'level'])].join(',')}`,
      ),
      prefer: join(missing, isPatch ? '' : resolution, 'return=representation', 'tx=rollback'),
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(isPatch ? (sent[0] ?? {}) : sent),
      unordered: true,
    };
  });

const csvWrites: fc.Arbitrary<Made> = fc
  .record({
    header: fc.constantFrom('id,line,level', '"id","line","level"'),
    rows: fc.array(
      fc.tuple(
        fc.constantFrom('700', '701', 'x', 'NULL'),
        fc.constantFrom('a', '"a,b"', '"a ""b"""', '"NULL"', 'ü', '""', '"two\nlines"', ' a '),
        fc.constantFrom('1', 'NULL', '"7"', 'high'),
      ),
      { minLength: 1, maxLength: 3 },
    ),
    end: fc.constantFrom('', '\n'),
    line: fc.constantFrom('\n', '\r\n'),
  })
  .map(({ header, rows, end, line }) => ({
    method: 'POST',
    path: '/log?select=line,level',
    prefer: 'return=representation, tx=rollback',
    headers: { 'content-type': 'text/csv' },
    body: [header, ...rows.map((cells) => cells.join(','))].join(line) + end,
  }));

export const writeRequests: fc.Arbitrary<Made> = fc.oneof(
  { weight: 2, arbitrary: narrowedWrites },
  { weight: 1, arbitrary: narrowedPuts },
  { weight: 3, arbitrary: identityWrites },
  { weight: 1, arbitrary: csvWrites },
  { weight: 5, arbitrary: inserts },
  { weight: 3, arbitrary: updates },
  { weight: 2, arbitrary: deletes },
  { weight: 1, arbitrary: puts },
  { weight: 1, arbitrary: embeddedWrites },
);

const FUNCTIONS: ReadonlyArray<
  readonly [name: string, args: ReadonlyArray<Readonly<Record<string, unknown>>>]
> = [
  ['add', [{ a: 1 }, { a: 1, b: 2 }, { a: '3' }, { a: null }, { a: 'x' }, { a: 1.5 }, { a: 99999999999 }]],
  [
    'shout',
    [
      { words: 'hé' },
      { words: 'a', times: 3 },
      { words: '' },
      { words: 5 },
      { words: { a: 1 } },
      { words: null },
    ],
  ],
  ['same_json', [{ j: { b: 1, a: [1] } }, { j: [1] }, { j: 'x' }, { j: 5 }, { j: true }, { j: null }]],
  ['same_jsonb', [{ j: { b: 1, a: [1] } }, { j: [1] }, { j: 'x' }, { j: null }]],
  ['total', [{ xs: [1, 2, 3] }, { xs: [] }, { xs: null }, { xs: '{1,2}' }, { xs: [null, 1] }]],
  ['feeling', [{ m: 'ok' }, { m: 'bad' }, { m: null }]],
  ['flag', [{ b: true }, { b: false }, { b: 'yes' }, { b: null }]],
  ['outs', [{}]],
  ['nothing', [{}]],
  ['pick', [{ person: 1 }, { person: 4 }]],
  ['series', [{ n: 3 }, { n: 0 }]],
  ['rows_of', [{ n: 3 }, { n: 0 }]],
  ['people_of', [{ team: 1 }, { team: 1, older: 27.5 }, { team: 99 }]],
  [
    'fail',
    [
      { state: 'P0001', message: 'no' },
      { state: 'PT418', message: 'tea' },
      { state: '23505', message: 'dup' },
      { state: '42501', message: 'denied' },
    ],
  ],
];
const STABLE = new Set([
  'add',
  'shout',
  'total',
  'feeling',
  'flag',
  'outs',
  'pick',
  'series',
  'rows_of',
  'people_of',
]);

export const callRequests: fc.Arbitrary<Made> = fc
  .constantFrom(...FUNCTIONS)
  .chain(([name, argumentSets]) => {
    const isTable = name === 'people_of' || name === 'pick';
    const isSet = name === 'people_of' || name === 'rows_of' || name === 'series';
    return fc
      .record({
        args: fc.constantFrom(...argumentSets),
        get: fc.boolean(),
        select: isTable
          ? fc.constantFrom(
              '',
              'select=id,name',
              'select=id,teams(name)',
              'select=name,tags(label)&tags.order=id',
            )
          : name === 'rows_of'
            ? fc.constantFrom('', 'select=y')
            : fc.constant(''),
        where:
          name === 'people_of'
            ? fc.constantFrom('', 'age=gt.20', 'name=in.(Ada,Bo)', 'or=(id.eq.1,age.is.null)')
            : fc.constant(''),
        order:
          name === 'people_of'
            ? fc.constant('order=id')
            : name === 'rows_of'
              ? fc.constant('order=x.desc')
              : fc.constant(''),
        page: isSet ? fc.constantFrom('', '', 'limit=1', 'limit=1&offset=1', 'offset=9') : fc.constant(''),
        prefer: fc.constantFrom('', '', 'count=exact'),
        accept: fc.constantFrom(
          undefined,
          undefined,
          undefined,
          'application/vnd.pgrst.object+json',
          ...(isSet && name !== 'series' ? ['text/csv'] : []),
        ),
        asUser: fc.boolean(),
      })
      .map((choice) => {
        const simple = Object.values(choice.args).every(
          (value) => typeof value !== 'object' || Array.isArray(value),
        );
        const byGet = choice.get && STABLE.has(name) && simple;
        const query = byGet
          ? Object.entries(choice.args).map(([key, value]) => {
              const items = Array.isArray(value) ? value.map((item) => item ?? 'NULL') : undefined;
              return `${key}=${ENCODED(items ? `{${items.join(',')}}` : String(value))}`;
            })
          : [];
        return {
          method: byGet ? 'GET' : 'POST',
          path: url(`/rpc/${name}`, ...query, choice.select, choice.where, choice.order, choice.page),
          prefer: choice.prefer || undefined,
          asUser: choice.asUser,
          headers: {
            ...(choice.accept ? { accept: choice.accept } : {}),
            ...(byGet ? {} : { 'content-type': 'application/json' }),
          },
          ...(byGet ? {} : { body: JSON.stringify(choice.args) }),
        };
      });
  });
