// The outermost SELECT: one row that holds the finished body, the number of rows in it, and whatever else the
// answer needs. PostgreSQL makes the JSON; the bytes are handed on as they are.
import { unreachable } from '../../lib/assert.ts';
import { quoteIdent, quoteLiteral } from '../../postgres/sql.ts';
import type { MediaType } from '../request/media-type.ts';
import type { Statement, StatementParts } from './statement.ts';

/** A check that ends the transaction from inside the statement, so that nothing needs a second round trip. */
export type Check =
  | { readonly kind: 'singular' }
  | { readonly kind: 'max-affected'; readonly most: number }
  | { readonly kind: 'put' };

/** The checks a request asks for. */
export function checksOf(asked: {
  readonly put?: boolean;
  readonly singular: boolean;
  readonly maxAffected: number | undefined;
}): Check[] {
  const checks: Check[] = [];
  if (asked.put) checks.push({ kind: 'put' });
  if (asked.singular) checks.push({ kind: 'singular' });
  if (asked.maxAffected !== undefined) checks.push({ kind: 'max-affected', most: asked.maxAffected });
  return checks;
}

export type ResultColumn = 'body' | 'page' | 'total' | 'cut' | 'location' | 'inserted' | 'headers' | 'status';

export type ResultStatement = Statement & { readonly columns: readonly ResultColumn[] };

/** A column of the result and its expression. */
export type ResultEntry = readonly [ResultColumn, string];

/** What functions and triggers set for the response; read after everything has run. */
const RESPONSE_SETTINGS: readonly ResultEntry[] = [
  ['headers', `nullif(current_setting('response.headers', true), '')`],
  ['status', `nullif(current_setting('response.status', true), '')`],
];

/** The whole statement: `SELECT entries FROM from`, after `prefix`. */
export function selectResult(
  parts: StatementParts,
  { withResponseSettings }: { readonly withResponseSettings: boolean },
  entries: readonly ResultEntry[],
  from: string,
  prefix = '',
): ResultStatement {
  const all = withResponseSettings ? [...entries, ...RESPONSE_SETTINGS] : entries;
  const select = all.map(([, expression]) => expression).join(', ');
  return {
    ...parts.statement(`${prefix}SELECT ${select} FROM ${from}`),
    columns: all.map(([name]) => name),
  };
}

export const CHECK_PREFIX = 'svc_check:';

/**
 * The number of rows, or an error when the check fails. There is no expression that raises a given error, but
 * a text that is no number raises one that repeats the text: the number of rows comes back inside it. The text
 * depends on an aggregate, so it is evaluated after the statement has run and never while it is planned.
 */
export function checkedCount(checks: readonly Check[] = []): string {
  const cases = checks.map((check) => {
    const failure = `(${quoteLiteral(`${CHECK_PREFIX}${check.kind}:`)} || count(*))::bigint`;
    const failed = check.kind === 'max-affected' ? `count(*) > ${check.most}` : 'count(*) <> 1';
    return `WHEN ${failed} THEN ${failure}`;
  });
  return cases.length === 0 ? 'count(*)' : `CASE ${cases.join(' ')} ELSE count(*) END`;
}

/** The body as an aggregate over rows called `alias`. */
export function renderBody(
  media: MediaType,
  alias: string,
  csvHeader: readonly string[] | undefined,
  isSingleRow = false,
): string {
  const row = quoteIdent(alias);
  switch (media.kind) {
    case 'json':
      // A function that returns one row answers with an object, and with null when the row is null.
      if (isSingleRow) {
        return `coalesce((array_agg(CASE WHEN ${row} IS NULL THEN NULL ELSE row_to_json(${row}) END))[1]::text, 'null')`;
      }
      return `coalesce(json_agg(${row}), '[]')`;
    case 'stripped':
      return `coalesce(json_agg(json_strip_nulls(row_to_json(${row}))), '[]')`;
    case 'singular': {
      const object = media.stripped ? `json_strip_nulls(row_to_json(${row}))` : `row_to_json(${row})`;
      return `string_agg(${object}::text, ',')`;
    }
    case 'csv': {
      const line = `substring(${row}::text, 2, length(${row}::text) - 2)`;
      const header = csvHeader
        ? quoteLiteral(`${csvHeader.join(',')}\n`)
        : `coalesce((array_agg((SELECT string_agg("key", ',') FROM json_object_keys(row_to_json(${row})) AS "keys"("key"))))[1], '') || E'\\n'`;
      return `${header} || coalesce(string_agg(${line}, E'\\n'), '')`;
    }
    case 'geojson':
      return `json_build_object('type', 'FeatureCollection', 'features', coalesce(json_agg(ST_AsGeoJSON(${row})::json), '[]'))`;
    case 'plan':
      return renderBody(media.of, alias, csvHeader, isSingleRow);
    case 'openapi':
      return `NULL`;
    default:
      return unreachable(media);
  }
}
