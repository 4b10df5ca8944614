// Where our answer may differ from PostgREST 12.0.2, and why. Each entry looks at one request and both answers
// and says whether this is that difference; nothing else excuses one.
import type { Answer } from '../../support/rest-world.ts';
import type { Made } from './requests.ts';

type Difference = {
  readonly reason: string;
  applies(made: Made, ours: Answer, theirs: Answer): boolean;
};

function code(answer: Answer): string {
  const found = (answer.json as { code?: unknown } | undefined)?.code;
  return typeof found === 'string' ? found : '';
}

const DIFFERENCES: readonly Difference[] = [
  {
    reason: 'an unacceptable media type is 406 since PostgREST 13, it was 415',
    applies: (_, ours, theirs) =>
      ours.status === 406 && theirs.status === 415 && (ours.text === '' || code(ours) === code(theirs)),
  },
  {
    reason:
      'a body that is no object and no array of objects is PGRST102 also under columns=, before all else',
    applies: (made, ours, theirs) =>
      made.path.includes('columns=') &&
      code(ours) === 'PGRST102' &&
      ['22P02', '22023', '42703', '42P10', 'PGRST204'].includes(code(theirs)) &&
      ['', '{', '[1]', '{"id":80,"line":"x"} trailing'].includes(made.body ?? ''),
  },
  {
    reason: 'without a representation select= is not looked at',
    applies: (made, ours, theirs) =>
      isWrite(made) &&
      made.path.includes('select=nope') &&
      code(theirs) === '42703' &&
      !made.prefer?.includes('return=representation') &&
      ours.status !== 500,
  },
  {
    reason: 'of two bad values in one body, which is named first follows the order of the columns',
    applies: (made, ours, theirs) =>
      isWrite(made) && ours.status === 400 && code(ours).startsWith('22') && code(theirs).startsWith('22'),
  },
  {
    reason: 'of two mistakes in one request, PostgreSQL names the one its plan meets first',
    applies: (_, ours, theirs) =>
      isMistake(ours) && isMistake(theirs) && ours.status < 500 && theirs.status < 500,
  },
  {
    reason: 'an embed that shows nothing and filters nothing is not evaluated, nor are its mistakes',
    applies: (made, ours, theirs) =>
      EMPTY_EMBED.test(selectOf(made)) &&
      (ours.status < 300 || ['PGRST103', 'PGRST116'].includes(code(ours))) &&
      isMistake(theirs),
  },
  {
    reason:
      'an embed that holds only embeds that show nothing is not shown; PostgREST 12 shows some of them empty',
    applies: (made, ours, theirs) =>
      holdsOnlyEmpty(selectOf(made)) &&
      ours.status === 200 &&
      theirs.status === 200 &&
      withoutEmpty(ours.json) === withoutEmpty(theirs.json),
  },
  {
    reason: 'an empty spread makes PostgREST 12 write a statement that is no SQL',
    applies: (made, _, theirs) =>
      decodeURIComponent(made.path).includes('...') && ['42601', '42703'].includes(code(theirs)),
  },
  {
    reason: 'totals count groups, as the page does, and not the rows behind them',
    applies: (made, ours, theirs) =>
      /(count|sum|avg|min|max)\(\)/.test(decodeURIComponent(made.path)) &&
      made.prefer === 'count=exact' &&
      [200, 206, 416].includes(ours.status) &&
      [200, 206, 416].includes(theirs.status) &&
      (ours.status === 416 || theirs.status === 416 || sameRows(ours, theirs)),
  },
  {
    reason: 'groups by a JSON path are one for each value there; PostgREST 12 groups by the whole column',
    applies: (made, ours, theirs) =>
      /\w->/.test(selectOf(made)) &&
      AGGREGATE.test(selectOf(made)) &&
      ours.status === 200 &&
      theirs.status === 200 &&
      distinct(theirs) === distinct(ours),
  },
  {
    reason:
      'groups may be ordered by the path or cast that they go by; PostgREST 12 orders by the column under it',
    applies: (made, ours, theirs) =>
      AGGREGATE.test(selectOf(made)) &&
      /->|\w::/.test(selectOf(made)) &&
      /[?&]order=/.test(made.path) &&
      ours.status === 200 &&
      code(theirs) === '42803',
  },
  {
    reason:
      'what is grouped by is the text of a cast; PostgREST 12 groups by the column and finds no equality for json',
    applies: (made, ours, theirs) =>
      /(^|,)c_json(->|::)/.test(selectOf(made)) &&
      AGGREGATE.test(selectOf(made)) &&
      ours.status === 200 &&
      code(theirs) === '42883',
  },
  {
    reason: 'a name that is an embed and a column is the column for all operators but is.null',
    applies: (_, ours, theirs) => code(theirs) === 'PGRST120' && ours.status < 500,
  },
  {
    reason: 'a list of the empty text alone is that; PostgREST reads the empty list',
    applies: (made) => /in\.\(""\)/.test(decodeURIComponent(made.path)),
  },
  {
    reason: 'an index from the end may stand before a closing parenthesis',
    applies: (made, _, theirs) =>
      code(theirs) === 'PGRST100' && /->>?-\d+\)/.test(decodeURIComponent(made.path)),
  },
  {
    reason: 'a single scalar is itself, also as the object that was asked for',
    applies: (made, _, theirs) =>
      made.path.startsWith('/rpc/series') && theirs.text.startsWith('{"pgrst_scalar":'),
  },
  {
    reason: 'a name that is the alias of one embed and the target of another is the alias',
    applies: (made) => {
      const embeds = [...selectOf(made).matchAll(/(\w+):(\w+)[!\w]*\(/g)];
      return embeds.some(([, alias], index) =>
        embeds.some(([, , target], other) => other !== index && target === alias),
      );
    },
  },
  {
    reason: 'CSV has its header line also when there are no rows',
    applies: (made, ours, theirs) =>
      (made.headers?.['accept'] ?? '').includes('text/csv') &&
      theirs.text === '\n' &&
      /^[\w,]+\n$/.test(ours.text),
  },
  {
    reason:
      'the total heeds an embedded offset where the embed decides which rows there are, as the page does in both',
    applies: (made, ours, theirs) =>
      /[?&][\w.]+\.offset=/.test(made.path) &&
      (selectOf(made).includes('!inner') || /\w(=|\.)(not\.)?is\.null/.test(decodeURIComponent(made.path))) &&
      made.prefer === 'count=exact' &&
      [200, 206, 416].includes(ours.status) &&
      [200, 206, 416].includes(theirs.status) &&
      (ours.status === 416 || theirs.status === 416 || sameRows(ours, theirs)),
  },
  {
    reason: 'a page whose limit goes by the alias of an embed and whose offset by its target has both',
    applies: (made, ours, theirs) =>
      ours.status === theirs.status &&
      [...selectOf(made).matchAll(/(\w+):(\w+)[!\w]*\(/g)].some(
        ([, alias, target]) =>
          new RegExp(`[?&]${alias}\\.(limit|offset)=`).test(made.path) &&
          new RegExp(`[?&]${target}\\.(limit|offset)=`).test(made.path),
      ),
  },
  {
    reason:
      'PATCH answers with all rows that it changed; PostgREST 12 filters them by or= once more, as changed',
    applies: (made, ours, theirs) =>
      made.method === 'PATCH' &&
      /[?&]or=\([^&]*line\.eq/.test(made.path) &&
      (made.body ?? '').includes('"line":') &&
      (theirs.status < 300 || code(theirs) === 'PGRST116') &&
      (code(ours) === 'PGRST116' || (ours.status < 300 && allOf(theirs, ours))),
  },
  {
    reason:
      'new rows are shown in the order that was asked for; PostgREST 12 shows them in the order of the body',
    applies: (made, ours, theirs) =>
      made.method === 'POST' &&
      isWrite(made) &&
      /[?&]order=/.test(made.path) &&
      ours.status === 201 &&
      theirs.status === 201 &&
      sameRows(ours, theirs),
  },
  {
    reason: 'an embed of a changed row is ordered as asked for; PostgREST 12 forgets that on PATCH',
    applies: (made, ours, theirs) =>
      made.method === 'PATCH' &&
      made.path.includes('tags.order=id') &&
      ours.text.length > 0 &&
      theirs.status === 200,
  },
  {
    reason:
      'a filter or an order on the rows of a function may use columns that are not selected (since PostgREST 13)',
    applies: (made, ours, theirs) =>
      made.path.startsWith('/rpc/') &&
      made.path.includes('select=') &&
      code(theirs) === '42703' &&
      ours.status < 500,
  },
  {
    reason: 'text that is no part of the grammar is refused where PostgREST skips it or reads it as a name',
    applies: (made, ours) =>
      ours.status === 400 &&
      /select=:id|&or=id\.eq\.1$/.test(made.path) &&
      ['', 'PGRST100'].includes(code(ours)),
  },
  {
    reason: 'a table that is not there is PGRST205 since PostgREST 13',
    applies: (_, ours, theirs) =>
      ours.status === 404 && theirs.status === 404 && code(ours) === 'PGRST205' && code(theirs) === '42P01',
  },
  {
    reason: 'a trailing slash names the same resource since PostgREST 13',
    applies: (made, ours, theirs) => made.path === '/kinds/' && ours.status === 200 && theirs.status === 404,
  },
  {
    reason: 'NUL in a value is refused and not cut off',
    applies: (made, ours) => made.path.includes('%00') && ours.status === 400,
  },
  {
    reason: 'an unknown time zone is an error since PostgREST 13',
    applies: (made, ours) =>
      made.prefer === 'timezone=Nowhere' && ours.status === 400 && code(ours) === '22023',
  },
  {
    reason: 'a to-many spread makes arrays since PostgREST 13',
    applies: (made, _, theirs) => made.path.includes('...') && code(theirs) === 'PGRST119',
  },
  {
    reason: 'CSV shows embeds as our JSON, and the columns of a write as they were selected',
    applies: (made, ours, theirs) =>
      made.headers?.['accept'] === 'text/csv' &&
      ours.status === theirs.status &&
      ours.status < 300 &&
      (isWrite(made) || decodeURIComponent(made.path).includes('(')),
  },
];

const AGGREGATE = /(count|sum|avg|min|max)\(\)/;
const EMPTY_EMBED = /(?<!\b(?:count|sum|avg|min|max))\(\)/;

function selectOf({ path }: Made): string {
  return decodeURIComponent(/[?&]select=([^&]*)/.exec(path)?.[1] ?? '');
}

/** The groups without what was counted in them, each once. */
function distinct({ json }: Answer): string {
  const rows = Array.isArray(json) ? (json as ReadonlyArray<Record<string, unknown>>) : [];
  const keys = rows.map((row) =>
    JSON.stringify(Object.entries(row).filter(([name]) => !/^(n|x_|[a-z]+_agg)/.test(name))),
  );
  return [...new Set(keys)].toSorted().join();
}

/** A value or a name that PostgreSQL refuses. */
function isMistake(answer: Answer): boolean {
  return /^(22|42|0A000)/.test(code(answer));
}

/** Whether an embed of this select has nothing inside it but embeds that have nothing inside them. */
function holdsOnlyEmpty(select: string): boolean {
  return /\((?:\w[\w:!]*\(\),?)+\)/.test(select);
}

/** JSON without keys that hold no more than empty objects; in any order of keys. */
function withoutEmpty(json: unknown): string {
  const isEmpty = (value: unknown): boolean =>
    Array.isArray(value)
      ? value.every((one) => isEmpty(one))
      : typeof value === 'object' && value !== null && Object.values(value).every((one) => isEmpty(one));
  return JSON.stringify(json, (_, inner: unknown) =>
    typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(
          Object.entries(inner)
            .filter(([, value]) => !isEmpty(value))
            .toSorted(([a], [b]) => (a < b ? -1 : 1)),
        )
      : inner,
  );
}

/** Whether each row of one answer is also in the other. */
function allOf(some: Answer, all: Answer): boolean {
  const rows = (answer: Answer): string[] =>
    (Array.isArray(answer.json) ? answer.json : []).map((row) => JSON.stringify(row));
  return rows(some).every((row) => rows(all).includes(row));
}

/** In any order of rows and keys. */
function sameRows(ours: Answer, theirs: Answer): boolean {
  const rows = ({ json }: Answer): string[] =>
    (Array.isArray(json) ? json : [json]).map((row: unknown) => sorted(row)).toSorted();
  return JSON.stringify(rows(ours)) === JSON.stringify(rows(theirs));
}

function sorted(value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) =>
    typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}

function isWrite({ method, path }: Made): boolean {
  return ['POST', 'PATCH', 'PUT', 'DELETE'].includes(method) && !path.startsWith('/rpc/');
}

export function agreed(made: Made, ours: Answer, theirs: Answer): string | undefined {
  return DIFFERENCES.find((one) => one.applies(made, ours, theirs))?.reason;
}

type Pair = { readonly ours: Answer; readonly theirs: Answer };

/**
 * A refusal of HEAD has no body and so no code: what it is, the GET of the same request says. HEAD counts rows and
 * does not make what it would not show, so that a mistake inside of an embed that GET refuses is not met.
 */
export function agreedHead(made: Made, head: Pair, get: Pair, isSameGet: boolean): string | undefined {
  const reason = agreed({ ...made, method: 'GET' }, get.ours, get.theirs);
  if (reason === undefined && !isSameGet) return undefined;
  if (head.theirs.status !== get.theirs.status) return undefined;
  if (reason !== undefined && head.ours.status === get.ours.status) return reason;
  const isOfEmbed = /[?&]\w+\.[\w.%]+=/.test(made.path) && selectOf(made).includes('(');
  return isOfEmbed && isMistake(get.theirs) && [200, 206, 406, 416].includes(head.ours.status)
    ? 'HEAD does not evaluate what it does not show'
    : undefined;
}
