// POST, PATCH, PUT and DELETE of a relation.
import { readBody } from '../../http/body.ts';
import { unreachable } from '../../lib/assert.ts';
import { checkWritable } from '../plan/allowed-methods.ts';
import { findRelation } from '../plan/exposed.ts';
import type { PlanNode } from '../plan/plan.ts';
import { relationOrigin, planRead } from '../plan/plan-read.ts';
import { planWrite, type WriteKind, type WritePlan } from '../plan/plan-write.ts';
import type { ExposedRelation } from '../plan/relation.ts';
import { invalidJson, limitOnWrite, orderWithoutRows, pageOnPut } from '../problem.ts';
import type { ApiRequest } from '../request/api-request.ts';
import { bodyFormat, EMPTY_OBJECT, readPayload, type Payload } from '../request/body.ts';
import { readBytes } from '../request/body-bytes.ts';
import { contentType, negotiateRows, type MediaType } from '../request/media-type.ts';
import { EVERYTHING, isRowRange } from '../request/page.ts';
import {
  affectedLimit,
  appliedHeader,
  checkGuards,
  checkStrict,
  type Preferences,
} from '../request/preferences.ts';
import type { Query } from '../request/query.ts';
import { legacyWarnings } from '../respond/warnings.ts';
import type { ResultRow } from '../run/result-row.ts';
import { affectedChecks, type Check } from '../sql/render-result.ts';
import { renderWrite, type WriteShape } from '../sql/render-write.ts';
import type { Action, Plan } from './action.ts';
import type { Exchange } from '../exchange.ts';

type PlannedWrite = Plan & {
  readonly relation: ExposedRelation;
  readonly write: WritePlan;
  readonly node: PlanNode;
  readonly shape: WriteShape;
  readonly applied: string | undefined;
  readonly warnings: readonly string[];
};

export const WRITES: Readonly<Record<WriteKind, Action<PlannedWrite>>> = {
  insert: writing('insert'),
  update: writing('update'),
  put: writing('put'),
  delete: writing('delete'),
};

function writing(kind: WriteKind): Action<PlannedWrite> {
  return {
    page({ request }) {
      checkGuards(request.preferences);
      refusePage(kind, request);
      return EVERYTHING;
    },

    payload: (exchange) => receive(exchange, kind),

    payloadShape({ request }, { isArray, isText, uniform, rows, keys, used, partial }) {
      const size = rows > 1 ? '+' : rows === 0 ? '0' : '';
      // Defaults of listed columns depend on whether all rows or only some omit them.
      const listed = uniform ? [] : (request.parsed.query.columns ?? []);
      const gaps = listed
        .map((key) => (partial.includes(key) ? 's' : used.includes(key) ? 'a' : 'n'))
        .join('');
      return `${isArray ? 'a' : 'o'}${isText ? 't' : ''}${uniform ? '' : 'u'}${size}${gaps}${JSON.stringify(keys)}`;
    },

    plan({ request, exposed, context }, payload) {
      const { preferences, parsed } = request;
      const relation = findRelation(exposed, request.schema, request.resource.name);
      checkWritable(request.method, relation);
      const shown = kind === 'insert' ? withoutRootConditions(parsed.query) : parsed.query;
      const { node, legacyNames } = planRead(exposed, relationOrigin(relation), shown);
      const write = planWrite(kind, relation, parsed.query, payload, preferences);
      checkStrict(preferences);
      const media = negotiateRows(request.accept, {
        isDev: context.dev,
        hasGeoJson: exposed.catalog.hasGeoJson,
      });
      const isUpsert = write.kind === 'insert' && write.conflict !== undefined;
      const { resolution, missing, handling, maxAffected } = preferences;
      return {
        relation,
        write,
        node,
        media,
        isReadOnly: false,
        shape: {
          media,
          withBody: preferences.return === 'representation',
          withResponseSettings: exposed.usesResponseSettings,
          checks: media.kind === 'singular' ? [{ kind: 'singular' }] : [],
          guards: writeGuards(kind, media, preferences),
          countAffected: preferences.count !== undefined,
          withLocation:
            kind === 'insert' && preferences.return === 'headers-only' && relation.primaryKey.length > 0,
          countInserted: write.kind === 'insert' && write.conflict?.action === 'merge',
        },
        applied: appliedHeader(preferences, {
          resolution: kind === 'insert' && isUpsert ? resolution : undefined,
          missing: kind === 'insert' || kind === 'update' ? missing : undefined,
          return: preferences.return,
          maxAffected: kind !== 'put' && handling === 'strict' ? maxAffected : undefined,
        }),
        warnings: legacyWarnings(legacyNames),
      };
    },

    sql: ({ relation, write, node, shape }) => ({ statement: renderWrite(relation, write, node, shape) }),

    answer({ request: { preferences } }, plan, { row, results, payload }) {
      const shown = row.number('page') ?? affectedRows(results[0]?.tag ?? '');
      const affected = row.number('affected') ?? shown;
      const isShown = preferences.return === 'representation';
      return {
        status: writeStatus(kind, preferences, payload, row),
        contentType: isShown ? contentType(plan.media) : undefined,
        body: isShown ? row.bytes('body') : undefined,
        contentRange: contentRange(kind, { shown, affected }, preferences),
        location: affected === 1 ? createdLocation(plan.relation, row) : undefined,
        applied: plan.applied,
        warnings: plan.warnings,
      };
    },
  };
}

/**
 * Rejects limit, offset, order and Range for a write: only filters restrict it, so they would be ignored silently.
 */
function refusePage(kind: WriteKind, { parsed, headers, preferences }: ApiRequest): void {
  const { rootLimit, rootOffset, query } = parsed;
  if (kind === 'insert') return;
  if (kind === 'put') {
    if (rootLimit !== undefined || rootOffset !== undefined) throw pageOnPut();
    return;
  }
  if (rootLimit !== undefined) throw limitOnWrite('limit');
  if (rootOffset !== undefined) throw limitOnWrite('offset');
  if (isRowRange(headers.range)) throw limitOnWrite('Range');
  const isOrdered = query.orders.some(({ path }) => path.length === 0);
  if (isOrdered && preferences.return !== 'representation') throw orderWithoutRows();
}

async function receive({ request, body, context }: Exchange, kind: WriteKind): Promise<Payload> {
  const { maxBodyBytes } = context.snapshot().config.server;
  if (kind === 'delete') {
    // Unread bytes would become part of the next request.
    await readBody(body, maxBodyBytes, request.headers['content-length']);
    return EMPTY_OBJECT;
  }
  const bytes = await readBytes(body, request.headers, maxBodyBytes);
  const format = bodyFormat(request.headers['content-type']);
  if (bytes.length === 0) throw invalidJson();
  return readPayload(bytes, format);
}

/**
 * Returns checks on the rows that a write changes. An insert contains its rows itself, so only its response must be
 * singular.
 */
function writeGuards(kind: WriteKind, media: MediaType, preferences: Preferences): Check[] {
  const guards: Check[] = [];
  if (kind === 'put') guards.push({ kind: 'put' });
  if (media.kind === 'singular' && kind !== 'insert') guards.push({ kind: 'singular-write' });
  return [...guards, ...affectedChecks(affectedLimit(preferences))];
}

/** Removes the conditions on rows, which an insert cannot filter. Conditions on its embeds remain. */
function withoutRootConditions(query: Query): Query {
  return { ...query, conditions: query.conditions.filter(({ path }) => path.length > 0) };
}

/** `INSERT 0 3`, `UPDATE 3`, `DELETE 3`: the number is the last word. */
function affectedRows(tag: string): number {
  const number = Number(tag.slice(tag.lastIndexOf(' ') + 1));
  return tag.startsWith('SELECT') || Number.isNaN(number) ? 0 : number;
}

function writeStatus(kind: WriteKind, preferences: Preferences, payload: Payload, row: ResultRow): number {
  const isShown = preferences.return === 'representation';
  switch (kind) {
    case 'insert':
      if (preferences.resolution !== 'merge-duplicates') return 201;
      return payload.rows > 0 && (row.number('inserted') ?? 1) > 0 ? 201 : 200;
    case 'put':
      if (!isShown) return 204;
      return (row.number('inserted') ?? 0) > 0 ? 201 : 200;
    case 'update':
    case 'delete':
      return isShown ? 200 : 204;
    default:
      return unreachable(kind);
  }
}

/** The rows of the body, and the number of rows that were changed. */
function contentRange(
  kind: WriteKind,
  { shown, affected }: { readonly shown: number; readonly affected: number },
  { count }: Preferences,
): string | undefined {
  const total = count === undefined ? '*' : String(affected);
  switch (kind) {
    case 'put':
      return undefined;
    case 'update':
      return `${shown > 0 ? `0-${shown - 1}` : '*'}/${total}`;
    case 'insert':
    case 'delete':
      return `*/${total}`;
    default:
      return unreachable(kind);
  }
}

function createdLocation(relation: ExposedRelation, row: ResultRow): string | undefined {
  const json = row.text('location');
  if (json === undefined) return undefined;
  const values: unknown = JSON.parse(json);
  if (!Array.isArray(values)) return undefined;
  const pairs = relation.primaryKey.map((key, index) => {
    const value: unknown = values[index];
    const test = typeof value === 'string' ? `eq.${value}` : 'is.null';
    return `${encodeURIComponent(key)}=${encodeURIComponent(test)}`;
  });
  return `/${encodeURIComponent(relation.name)}?${pairs.join('&')}`;
}
