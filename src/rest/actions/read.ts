// GET and HEAD of a relation.
import type { PlanNode } from '../plan/plan.ts';
import { findRelation } from '../plan/exposed.ts';
import { relationOrigin, planRead } from '../plan/plan-read.ts';
import { isRepeatable } from '../plan/repeatable.ts';
import { isByKey, isWholeTable } from '../plan/row-count.ts';
import { negotiateRows } from '../request/media-type.ts';
import { DEFAULT_LIMIT, pageCounts, toPage } from '../request/page.ts';
import { appliedHeader, checkStrict } from '../request/preferences.ts';
import { clampEstimate, pageAnswer } from '../respond/page-answer.ts';
import { contentLocation } from '../respond/respond.ts';
import { cutWarning, legacyWarnings } from '../respond/warnings.ts';
import { rowFrame } from '../run/json-rows.ts';
import { renderEstimate, renderRead, renderReadRows, type ReadShape } from '../sql/render-read.ts';
import type { Action, Plan } from './action.ts';

type ReadPlan = Plan & {
  readonly node: PlanNode;
  readonly shape: ReadShape;
  /** Ask for the planner's estimate of the number of rows. */
  readonly wantsEstimate: boolean;
  readonly isLong: boolean;
  readonly applied: string | undefined;
  readonly warnings: readonly string[];
};

/** Limit from which this process builds the JSON instead of the database. */
const MANY_ROWS = 200;

export const READ: Action<ReadPlan> = {
  page({ request: { parsed, method, headers } }) {
    return toPage({
      limit: parsed.rootLimit,
      offset: parsed.rootOffset,
      rangeHeader: method === 'GET' ? headers.range : undefined,
      defaultLimit: DEFAULT_LIMIT,
    });
  },

  plan({ request, exposed, context }, _payload, page) {
    const { parsed, preferences, method } = request;
    const relation = findRelation(exposed, request.schema, request.resource.name);
    const { node, legacyNames } = planRead(exposed, relationOrigin(relation), parsed.query);
    const media = negotiateRows(request.accept, {
      isDev: context.dev,
      hasGeoJson: exposed.catalog.hasGeoJson,
    });
    checkStrict(preferences);
    // A primary key selects at most one row, so no limit and no check for more rows is needed.
    const isOneRow = isByKey(node);
    const isWholePage = isOneRow && page.offset === 0 && page.limit !== 0;
    const { count } = preferences;
    const total =
      count === 'exact'
        ? 'exact'
        : count === 'estimated' && isWholeTable(node, relation)
          ? 'statistic'
          : undefined;
    return {
      media,
      isReadOnly: true,
      isRepeatable: isRepeatable(node),
      node,
      shape: {
        media,
        withBody: method === 'GET',
        ...pageCounts(isWholePage ? { ...page, limit: undefined } : page),
        tellCut: page.isDefault && !isOneRow,
        total,
        withResponseSettings: exposed.usesResponseSettings,
      },
      wantsEstimate: media.kind !== 'plan' && count !== undefined && total === undefined,
      isLong:
        (page.limit ?? Number.POSITIVE_INFINITY) >= MANY_ROWS &&
        !page.isDefault &&
        method === 'GET' &&
        media.kind === 'json' &&
        count === undefined &&
        !exposed.usesResponseSettings,
      applied: appliedHeader(preferences),
      warnings: legacyWarnings(legacyNames),
    };
  },

  sql({ node, shape, isLong, wantsEstimate }) {
    const rows = isLong ? renderReadRows(node, shape) : undefined;
    if (!rows) {
      return {
        statement: renderRead(node, shape),
        estimate: wantsEstimate ? renderEstimate(node) : undefined,
      };
    }
    const { columns, ...statement } = rows;
    return {
      statement: { ...statement, columns: ['body', 'page'] },
      list: { frame: rowFrame(columns), expectedBytes: 64 * 1024 },
    };
  },

  answer({ request, context }, { media, applied, warnings, wantsEstimate }, { row, results, page }) {
    const rows = row.number('page') ?? 0;
    const isExact = request.preferences.count === 'exact';
    const found = wantsEstimate ? plannedRows(results[1]?.rows[0]?.[0]) : row.number('total');
    const isCut = row.text('cut') === 't';
    const answer = pageAnswer({
      media,
      body: row.bytes('body'),
      offset: page.offset,
      rows,
      isSet: true,
      total: found === undefined || isExact ? found : clampEstimate(found, page.offset, rows, page.limit),
      isExact,
      contentLocation: contentLocation(request),
      applied,
      warnings: isCut ? [cutWarning(DEFAULT_LIMIT), ...warnings] : warnings,
    });
    if (isCut && context.dev) {
      // Client libraries hide headers, so the log informs developers.
      context.log.warn(
        `${request.method} ${request.path} was cut at ${DEFAULT_LIMIT} rows: there are more, ask for them with limit`,
      );
    }
    return answer;
  },
};

/** `Plan Rows` at the top of EXPLAIN (FORMAT JSON). */
function plannedRows(json: Buffer | null | undefined): number | undefined {
  if (!json) return undefined;
  const match = /"Plan Rows": (\d+)/.exec(json.toString('utf8'));
  return match ? Number(match[1]) : undefined;
}
