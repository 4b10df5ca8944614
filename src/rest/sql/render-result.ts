// The outermost SELECT: one row that holds the finished body, the number of rows in it, and whatever else the
// answer needs. PostgreSQL makes the JSON; the bytes are handed on as they are.
import { unreachable } from '../../lib/assert.ts';
import { csvField } from '../../lib/text/csv.ts';
import { quoteIdent, quoteLiteral } from '../../postgres/sql.ts';
import type { MediaType } from '../request/media-type.ts';
import type { Statement, StatementParts } from './statement.ts';

/** A check that ends the transaction from inside the statement, so that nothing needs a second round trip. */
export type Check =
  | { readonly kind: 'singular' }
  /** Checks like `singular`, but counts the rows that a write changes instead of the rows that it returns. */
  | { readonly kind: 'singular-write' }
  | { readonly kind: 'max-affected'; readonly most: number }
  | { readonly kind: 'put' };

/** The limit of `max-affected`, undefined when the request has none. */
export function affectedChecks(maxAffected: number | undefined): Check[] {
  return maxAffected === undefined ? [] : [{ kind: 'max-affected', most: maxAffected }];
}

export type ResultColumn =
  | 'body'
  /** Number of rows in the body. */
  | 'page'
  /** Number of rows that a write changed, or that a function returned before filters and limits. */
  | 'affected'
  | 'total'
  | 'cut'
  | 'location'
  | 'inserted'
  | 'headers'
  | 'status';

export type ResultStatement = Statement & { readonly columns: readonly ResultColumn[] };

/** A column of the result and its expression. */
export type ResultEntry = readonly [ResultColumn, string];

/** Response settings that functions and triggers can set; read after everything has run. */
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
 * Returns the number of rows, or raises an error if a check fails. SQL has no expression that raises a given error,
 * but the cast of a text to a number raises one that repeats the text, which contains the number of rows. The text
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

/** Like `checkedCount`, over the rows of a common table expression. */
export function checkedCountFrom(source: string, checks: readonly Check[]): string {
  return `(SELECT ${checkedCount(checks)} FROM ${quoteIdent(source)})`;
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
        return (
          `coalesce((array_agg(CASE WHEN ${row} IS NULL THEN NULL ELSE row_to_json(${row}) END))[1]::text, ` +
          `'null')`
        );
      }
      return `coalesce(json_agg(${row}), '[]')`;
    case 'stripped':
      return `coalesce(json_agg(json_strip_nulls(row_to_json(${row}))), '[]')`;
    case 'singular': {
      const object = media.stripped ? `json_strip_nulls(row_to_json(${row}))` : `row_to_json(${row})`;
      return `string_agg(${object}::text, ',')`;
    }
    case 'csv': {
      const line = renderCsvLine(row, csvHeader?.length === 1);
      const header = csvHeader
        ? quoteLiteral(`${csvHeader.map(csvField).join(',')}\n`)
        : `coalesce((array_agg((SELECT string_agg("key", ',') ` +
          `FROM json_object_keys(row_to_json(${row})) AS "keys"("key"))))[1], '') || E'\\n'`;
      return `${header} || coalesce(string_agg(${line}, E'\\n'), '')`;
    }
    case 'geojson':
      return (
        `json_build_object('type', 'FeatureCollection', 'features', ` +
        `coalesce(json_agg(ST_AsGeoJSON(${row})::json), '[]'))`
      );
    case 'plan':
      return renderBody(media.of, alias, csvHeader, isSingleRow);
    case 'openapi':
    case 'raw':
      return `NULL`;
    default:
      return unreachable(media);
  }
}

/** An unquoted NULL outside of quotes: the number of quotes behind it is even. */
const BARE_NULL = String.raw`'(^|,)NULL(?=,|$)(?=(?:[^"]*"[^"]*")*[^"]*$)'`;

/**
 * Renders one row as CSV. PostgreSQL's row format is similar: null is an empty field, the empty text is `""`, and
 * fields with a comma, a quote or white space are quoted. It also doubles backslashes, which CSV does not, and it
 * leaves the text NULL unquoted, which readers take for null. A single field is never left empty, because readers
 * skip empty lines.
 */
function renderCsvLine(row: string, isOnlyField: boolean): string {
  const fields = `replace(substring("text", 2, length("text") - 2), repeat(chr(92), 2), chr(92))`;
  const line =
    `CASE WHEN strpos("fields", 'NULL') = 0 THEN "fields" ELSE regexp_replace("fields", ${BARE_NULL}, ` +
    `'\\1"NULL"', 'g') END`;
  const shown = isOnlyField ? `coalesce(nullif(${line}, ''), 'NULL')` : line;
  return (
    `(SELECT ${shown} FROM (SELECT ${fields} AS "fields" ` +
    `FROM (SELECT ${row}::text AS "text" OFFSET 0) AS "csv" OFFSET 0) AS "csv")`
  );
}
