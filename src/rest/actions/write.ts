// POST, PATCH, PUT and DELETE of a relation.
import { readBody } from '../../http/body.ts';
import { unreachable } from '../../lib/assert.ts';
import { findRelation } from '../plan/exposed.ts';
import type { PlanNode } from '../plan/plan.ts';
import { originOf, planRead } from '../plan/plan-read.ts';
import { planWrite, type WriteKind, type WritePlan } from '../plan/plan-write.ts';
import type { ExposedRelation } from '../plan/relation.ts';
import { invalidJson, pageOnPut } from '../problem.ts';
import { bodyFormat, EMPTY_OBJECT, readPayload, type Payload } from '../request/body.ts';
import { readBytes } from '../request/body-bytes.ts';
import { contentType, negotiateRows } from '../request/media-type.ts';
import { EVERYTHING } from '../request/page.ts';
import { appliedHeader, affectedLimit, checkStrict, type Preferences } from '../request/preferences.ts';
import type { Query } from '../request/query.ts';
import { legacyWarnings } from '../respond/warnings.ts';
import type { ResultRow } from '../run/result-row.ts';
import { checksOf } from '../sql/render-result.ts';
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
    page({ request: { parsed } }) {
      if (kind === 'put' && (parsed.rootLimit !== undefined || parsed.rootOffset !== undefined)) {
        throw pageOnPut();
      }
      return EVERYTHING;
    },

    payload: (exchange) => receive(exchange, kind),

    payloadShape(_exchange, { isArray, uniform, rows, keys }) {
      return `${isArray ? 'a' : 'o'}${uniform ? '' : 'u'}${rows > 1 ? '+' : ''}${JSON.stringify(keys)}`;
    },

    plan({ request, exposed, context }, payload) {
      const { preferences, parsed } = request;
      const relation = findRelation(exposed, request.schema, request.resource.name);
      const shown = kind === 'insert' ? withoutRootConditions(parsed.query) : parsed.query;
      const { node, legacyNames } = planRead(exposed, originOf(relation), shown);
      const write = planWrite(kind, relation, parsed.query, payload, preferences);
      checkStrict(preferences);
      const media = negotiateRows(request.accept, context.dev);
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
          checks: checksOf({
            put: kind === 'put',
            singular: media.kind === 'singular',
            maxAffected: affectedLimit(preferences),
          }),
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
      const affected = row.number('page') ?? affectedRows(results[0]?.tag ?? '');
      const isShown = preferences.return === 'representation';
      return {
        status: statusOf(kind, preferences, payload, row),
        contentType: isShown ? contentType(plan.media) : undefined,
        body: isShown ? row.bytes('body') : undefined,
        contentRange: rangeOf(kind, affected, preferences),
        location: affected === 1 ? locationOf(plan.relation, row) : undefined,
        applied: plan.applied,
        warnings: plan.warnings,
      };
    },
  };
}

async function receive({ request, body, context }: Exchange, kind: WriteKind): Promise<Payload> {
  const { maxBodyBytes } = context.snapshot().config.server;
  if (kind === 'delete') {
    // Unread bytes would be taken for the next request.
    await readBody(body, maxBodyBytes, request.headers['content-length']);
    return EMPTY_OBJECT;
  }
  const bytes = await readBytes(body, request.headers, maxBodyBytes);
  const format = bodyFormat(request.headers['content-type']);
  if (bytes.length === 0) throw invalidJson();
  return readPayload(bytes, format);
}

/** An insert has no rows to filter; conditions on its embeds remain. */
function withoutRootConditions(query: Query): Query {
  return { ...query, conditions: query.conditions.filter(({ path }) => path.length > 0) };
}

/** `INSERT 0 3`, `UPDATE 3`, `DELETE 3`: the number is the last word. */
function affectedRows(tag: string): number {
  const number = Number(tag.slice(tag.lastIndexOf(' ') + 1));
  return tag.startsWith('SELECT') || Number.isNaN(number) ? 0 : number;
}

function statusOf(kind: WriteKind, preferences: Preferences, payload: Payload, row: ResultRow): number {
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

function rangeOf(kind: WriteKind, affected: number, { count }: Preferences): string | undefined {
  const total = count === undefined ? '*' : String(affected);
  switch (kind) {
    case 'put':
      return undefined;
    case 'update':
      return `${affected > 0 ? `0-${affected - 1}` : '*'}/${total}`;
    case 'insert':
    case 'delete':
      return `*/${total}`;
    default:
      return unreachable(kind);
  }
}

function locationOf(relation: ExposedRelation, row: ResultRow): string | undefined {
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
