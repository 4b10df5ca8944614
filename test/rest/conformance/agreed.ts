// Accepted differences from PostgREST 12.0.2, with reasons. Each entry checks one request and both responses, and
// returns whether this difference explains them. Nothing else is accepted.
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
      'a body that is neither an object nor an array of objects is PGRST102 also under columns=, before all else',
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
    reason:
      'a PATCH validates its body also where it changes no row; PostgREST does so depending on the plan',
    applies: (made, ours, theirs) =>
      made.method === 'PATCH' &&
      ours.status === 400 &&
      code(ours).startsWith('22') &&
      (theirs.status < 300 ? ['', '[]'].includes(theirs.text.trim()) : foundNone(theirs)),
  },
  {
    reason: 'of two mistakes in one request, PostgreSQL names the one its plan meets first',
    applies: (_, ours, theirs) =>
      isMistake(ours) && isMistake(theirs) && ours.status < 500 && theirs.status < 500,
  },
  {
    reason: 'an embed that shows nothing and filters nothing is not evaluated, nor are its mistakes',
    applies: (made, ours, theirs) =>
      EMPTY_EMBED.test(selectParameter(made)) &&
      (ours.status < 300 || ['PGRST103', 'PGRST116'].includes(code(ours))) &&
      isMistake(theirs),
  },
  {
    reason: 'an upsert of one key twice is a conflict, as docs/rest.md states; PostgREST responds with 400',
    applies: (_, ours, theirs) =>
      ours.status === 409 && theirs.status === 400 && code(ours) === '21000' && code(theirs) === '21000',
  },
  {
    reason: 'rows with an identity value are written, and fail, before those without one',
    applies: (made, ours, theirs) =>
      made.method === 'POST' &&
      (made.prefer ?? '').includes('missing=default') &&
      code(ours) === '23505' &&
      code(theirs) === '23502',
  },
  {
    reason: 'a name in two spreads appears once; PostgREST 12 orders by it and finds it ambiguous',
    applies: (made, ours, theirs) =>
      decodeURIComponent(made.path).split('...').length > 2 && ours.status < 300 && code(theirs) === '42702',
  },
  {
    reason: 'an empty spread makes PostgREST 12 write invalid SQL',
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
      /\w->/.test(selectParameter(made)) &&
      AGGREGATE.test(selectParameter(made)) &&
      ours.status === 200 &&
      theirs.status === 200 &&
      distinct(theirs) === distinct(ours),
  },
  {
    reason:
      'groups may be ordered by the path or cast that they go by; PostgREST 12 orders by the column under it',
    applies: (made, ours, theirs) =>
      AGGREGATE.test(selectParameter(made)) &&
      /->|\w::/.test(selectParameter(made)) &&
      /[?&]order=/.test(made.path) &&
      ours.status === 200 &&
      code(theirs) === '42803',
  },
  {
    reason: 'groups use the text of a cast; PostgREST 12 groups by the column and finds no equality for json',
    applies: (made, ours, theirs) =>
      /(^|,)c_json(->|::)/.test(selectParameter(made)) &&
      AGGREGATE.test(selectParameter(made)) &&
      (ours.status === 200 || code(ours) === 'PGRST116') &&
      code(theirs) === '42883',
  },
  {
    reason: 'a name that is an embed and a column is the column for all operators but is.null',
    applies: (_, ours, theirs) => code(theirs) === 'PGRST120' && ours.status < 500,
  },
  {
    reason:
      'a second order of one embed, under its other name, sorts the ties of the first; PostgREST ignores it',
    applies: (made, ours, theirs) =>
      [...selectParameter(made).matchAll(/(\w+):(\w+)[!(]/g)].some((names) =>
        names.slice(1).every((name) => made.path.includes(`&${name}.order=`)),
      ) &&
      ours.status < 300 &&
      ours.status === theirs.status &&
      inAnyOrder(ours.json) === inAnyOrder(theirs.json),
  },
  {
    reason: 'a list of the empty text alone is that; PostgREST reads the empty list',
    applies: (made) => /in\.\(""\)/.test(decodeURIComponent(made.path)),
  },
  {
    reason: 'an index from the end may precede a closing parenthesis',
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
      const embeds = [...selectParameter(made).matchAll(/(\w+):(\w+)[!\w]*\(/g)];
      return embeds.some(([, alias], index) =>
        embeds.some(([, , target], position) => position !== index && target === alias),
      );
    },
  },
  {
    reason: 'CSV has its header line even without rows',
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
      (selectParameter(made).includes('!inner') ||
        /\w(=|\.)(not\.)?is\.null/.test(decodeURIComponent(made.path))) &&
      made.prefer === 'count=exact' &&
      [200, 206, 416].includes(ours.status) &&
      [200, 206, 416].includes(theirs.status) &&
      (ours.status === 416 || theirs.status === 416 || sameRows(ours, theirs)),
  },
  {
    reason: 'a page with a limit by the alias of an embed and an offset by its target has both',
    applies: (made, ours, theirs) =>
      ours.status === theirs.status &&
      [...selectParameter(made).matchAll(/(\w+):(\w+)[!\w]*\(/g)].some(
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
      (code(ours) === 'PGRST116' || (ours.status < 300 && isSubset(theirs, ours))),
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
    reason: 'the total of a write is that of the rows that it changes, and not of those that it shows',
    applies: (made, ours, theirs) =>
      isNarrowed(made) &&
      (made.prefer ?? '').includes('count=exact') &&
      ours.status === 200 &&
      theirs.status === 200 &&
      (ours.json === undefined ? ours.text === theirs.text : sameRows(ours, theirs)),
  },
  {
    reason: 'one object is refused where a write changes more rows than the one that it shows',
    applies: (made, ours, theirs) =>
      isNarrowed(made) &&
      (made.headers?.['accept'] ?? '').includes('vnd.pgrst.object') &&
      code(ours) === 'PGRST116' &&
      theirs.status === 200,
  },
  {
    reason: 'PUT compares the row that it writes with the URL, and not the rows that it shows',
    applies: (made, ours, theirs) =>
      made.method === 'PUT' &&
      /!inner|count\(\)/.test(selectParameter(made)) &&
      ([200, 201].includes(ours.status) ? code(theirs) === 'PGRST115' : code(ours) === 'PGRST115'),
  },
  {
    reason:
      'CSV has a backslash once, the text NULL in quotes, and NULL for a null in the only column, ' +
      'so that it can be written back',
    applies: (made, ours, theirs) =>
      (made.headers?.['accept'] ?? '').includes('text/csv') &&
      ours.status === theirs.status &&
      ours.text.replaceAll(/^NULL$/gm, '') === theirs.text.replaceAll('\\\\', '\\'),
  },
  {
    reason: 'a column that is absent from all rows gets its default, even if values are always generated',
    applies: (made, ours, theirs) =>
      isWrite(made) &&
      made.path.startsWith('/counted') &&
      (made.prefer ?? '').includes('missing=default') &&
      !(made.body ?? '').includes('"id"') &&
      ours.status < 300 &&
      code(theirs) === '428C9',
  },
  {
    reason: 'the default of a column takes precedence over that of its domain',
    applies: (made, ours, theirs) =>
      made.path.startsWith('/counted?columns=') &&
      ours.status === theirs.status &&
      ours.text.replaceAll('"pro"', '"free"') === theirs.text,
  },
  {
    reason: 'in CSV a quoted NULL is a text',
    applies: (made, ours, theirs) =>
      made.headers?.['content-type'] === 'text/csv' &&
      (made.body ?? '').includes('"NULL"') &&
      ours.status < 500 &&
      code(theirs) === '23502',
  },
  {
    reason:
      'an object for a text column keeps its bytes; PostgREST 12 writes it as jsonb with missing=default',
    applies: (made, ours, theirs) =>
      (made.prefer ?? '').includes('missing=default') &&
      (made.body ?? '').includes('"line":{"a":1}') &&
      ours.status === theirs.status &&
      ours.text === theirs.text.replaceAll(String.raw`{\"a\": 1}`, String.raw`{\"a\":1}`),
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
    reason: 'text outside of the grammar is rejected where PostgREST skips it or reads it as a name',
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

function selectParameter({ path }: Made): string {
  return decodeURIComponent(/[?&]select=([^&]*)/.exec(path)?.[1] ?? '');
}

/** Returns the distinct groups without their counts. */
function distinct({ json }: Answer): string {
  const rows = Array.isArray(json) ? (json as ReadonlyArray<Record<string, unknown>>) : [];
  const keys = rows.map((row) =>
    JSON.stringify(Object.entries(row).filter(([name]) => !/^(n|x_|[a-z]+_agg)/.test(name))),
  );
  return [...new Set(keys)].toSorted().join();
}

/** A single object was requested, and there is no row. */
function foundNone(answer: Answer): boolean {
  const { details } = answer.json as { details?: unknown };
  return code(answer) === 'PGRST116' && details === 'The result contains 0 rows';
}

/** A value or name that PostgreSQL rejects. */
function isMistake(answer: Answer): boolean {
  return /^(22|42|0A000)/.test(code(answer));
}

/** Returns whether each row of one response is also in the other. */
function isSubset(part: Answer, all: Answer): boolean {
  const rows = (answer: Answer): string[] =>
    (Array.isArray(answer.json) ? answer.json : []).map((row) => JSON.stringify(row));
  return rows(part).every((row) => rows(all).includes(row));
}

/** Compares in any order of rows and keys. */
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

/** Compares in any order of rows, embedded rows and keys. */
function inAnyOrder(value: unknown): string {
  if (Array.isArray(value))
    return `[${value
      .map((item) => inAnyOrder(item))
      .toSorted()
      .join()}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const entries = Object.entries(value).map(([key, item]) => `${JSON.stringify(key)}:${inAnyOrder(item)}`);
  return `{${entries.toSorted().join()}}`;
}

function isWrite({ method, path }: Made): boolean {
  return ['POST', 'PATCH', 'PUT', 'DELETE'].includes(method) && !path.startsWith('/rpc/');
}

/** A write whose representation may show other rows than it changes. */
function isNarrowed(made: Made): boolean {
  return ['PATCH', 'DELETE'].includes(made.method) && /!inner|count\(\)/.test(selectParameter(made));
}

export function agreed(made: Made, ours: Answer, theirs: Answer): string | undefined {
  return DIFFERENCES.find((difference) => difference.applies(made, ours, theirs))?.reason;
}

type Pair = { readonly ours: Answer; readonly theirs: Answer };

/**
 * An error response of HEAD has no body and no code, so the GET of the same request provides it. HEAD counts rows and
 * does not build what it would not show, so it does not reach an error inside an embed.
 */
export function agreedHead(made: Made, head: Pair, get: Pair, isSameGet: boolean): string | undefined {
  const reason = agreed({ ...made, method: 'GET' }, get.ours, get.theirs);
  if (reason === undefined && !isSameGet) return undefined;
  if (head.theirs.status !== get.theirs.status) return undefined;
  if (reason !== undefined && head.ours.status === get.ours.status) return reason;
  const isOfEmbed = /[?&]\w+\.[\w.%]+=/.test(made.path) && selectParameter(made).includes('(');
  const isError = isMistake(get.theirs) || (reason !== undefined && isMistake(get.ours));
  return isOfEmbed && isError && [200, 206, 406, 416].includes(head.ours.status)
    ? 'HEAD does not evaluate omitted parts'
    : undefined;
}
