// Converts a query into a tree of nodes: finds relationships, assigns each filter, order and limit to its node, and
// checks names against the catalog.
import { qualifiedKey, type Column } from '../../catalog/catalog.ts';
import { unreachable } from '../../lib/assert.ts';
import {
  duplicateEmbed,
  havingNeedsAggregate,
  notEmbedded,
  relatedOrderImpossible,
  spreadAggregate,
  undefinedColumn,
  unknownAggregate,
} from '../problem.ts';
import type {
  At,
  Condition,
  Count,
  Embed,
  FieldPath,
  Filter,
  OrderTerm,
  Query,
  SelectItem,
} from '../request/query.ts';
import type { Exposed } from './exposed.ts';
import { currentColumn } from './alternative-names.ts';
import type { ExposedRelation } from './relation.ts';
import type {
  Field,
  FieldOutput,
  PlanNode,
  PlannedCondition,
  PlannedEmbed,
  PlannedHaving,
  PlannedOrder,
} from './plan.ts';
import { samePath } from './plan.ts';
import { chooseRelationship, isToOne } from './relationship.ts';

/** Name and columns of the source of the root's rows. */
export type Origin = {
  readonly schema: string;
  readonly name: string;
  readonly relation: ExposedRelation | null;
  /** Undefined if the columns are known only at run time. */
  readonly columns: ReadonlyMap<string, Column> | undefined;
};

export type PlannedRead = {
  readonly node: PlanNode;
  /** Embeds that have an alias and were addressed by their table's name. */
  readonly legacyNames: readonly string[];
};

export function planRead(exposed: Exposed, origin: Origin, query: Query): PlannedRead {
  const root = new Draft(exposed, origin, query.select);
  const legacyNames = new Set<string>();
  const at = (path: readonly string[]): Draft => {
    let draft = root;
    for (const name of path) {
      const embed = draft.embed(name) ?? draft.embedByTarget(name);
      if (!embed) throw notEmbedded(name);
      if (embed.hasAlias && embed.name !== name) legacyNames.add(name);
      draft = embed.draft;
    }
    return draft;
  };
  const each = <T>(entries: ReadonlyArray<At<T>>, apply: (draft: Draft, value: T) => void): void => {
    for (const { path, value } of entries) apply(at(path), value);
  };
  each(query.conditions, (draft, condition) => draft.conditions.push(draft.condition(condition)));
  each(query.orders, (draft, terms) => draft.orders.push(...terms.map((term) => draft.order(term))));
  each(query.limits, (draft, count) => {
    draft.limit = count;
  });
  each(query.offsets, (draft, count) => {
    draft.offset = count;
  });
  each(query.having, (draft, terms) => draft.having.push(...terms.map((term) => draft.havingTerm(term))));
  return { node: root.finish(), legacyNames: [...legacyNames] };
}

export function relationOrigin(relation: ExposedRelation): Origin {
  return { schema: relation.schema, name: relation.name, relation, columns: relation.column };
}

type DraftEmbed = Omit<PlannedEmbed, 'node'> & { readonly draft: Draft };

function finished({ draft, ...embed }: DraftEmbed): PlannedEmbed {
  return { ...embed, node: draft.finish() };
}

class Draft {
  readonly #exposed: Exposed;
  readonly #origin: Origin;
  readonly #outputs: FieldOutput[] = [];
  readonly #embeds: DraftEmbed[] = [];
  readonly conditions: PlannedCondition[] = [];
  readonly orders: PlannedOrder[] = [];
  readonly having: PlannedHaving[] = [];
  limit: Count | undefined;
  offset: Count | undefined;
  #hasUnknownColumns = false;
  #finished: PlanNode | undefined;

  constructor(exposed: Exposed, origin: Origin, select: readonly SelectItem[], isRoot = true) {
    this.#exposed = exposed;
    this.#origin = origin;
    const items = select.length === 0 && isRoot ? STAR : select;
    for (const item of items) this.#select(item);
    if (
      this.hasAggregates &&
      this.#embeds.some((embed) => embed.kind === 'spread' && embed.draft.hasUnfoldable)
    ) {
      throw spreadAggregate();
    }
  }

  #select(item: SelectItem): void {
    switch (item.kind) {
      case 'star':
        return this.#star();
      case 'count':
        this.#outputs.push(countOutput(item.alias ?? 'count', item.cast));
        return;
      case 'field': {
        const { alias, path, cast, aggregate } = item;
        if (this.#isLegacyCount(path, aggregate)) {
          this.#outputs.push(countOutput(alias ?? 'count', cast));
        } else {
          const name = alias ?? aggregate?.name ?? outputName(path);
          this.#outputs.push({ name, field: this.field(path), cast, aggregate });
        }
        return;
      }
      case 'embed':
      case 'spread':
        this.#addEmbed(item);
        return;
      default:
        unreachable(item);
    }
  }

  #star(): void {
    const { columns, relation } = this.#origin;
    if (!columns) this.#hasUnknownColumns = true;
    for (const column of columns?.keys() ?? []) {
      const field = this.field({ column, steps: [] });
      const name = relation?.alternatives.declared.get(column) ?? column;
      this.#outputs.push({ name, field, cast: undefined, aggregate: undefined });
    }
  }

  /** `count` without parentheses, when no column has that name. */
  #isLegacyCount(path: FieldPath, aggregate: unknown): boolean {
    return (
      path.column === 'count' &&
      path.steps.length === 0 &&
      aggregate === undefined &&
      this.#origin.columns !== undefined &&
      !this.#origin.columns.has(this.#current(path).column)
    );
  }

  #addEmbed(item: Embed): void {
    const origin = this.#origin;
    const source = origin.relation ?? origin;
    const relationships = this.#exposed.relationships.get(qualifiedKey(source)) ?? [];
    const relationship = chooseRelationship(source, relationships, item);
    const name = item.alias ?? item.target;
    if (
      item.kind === 'embed' &&
      this.#embeds.some((embed) => embed.kind === 'embed' && embed.name === name)
    ) {
      throw duplicateEmbed(`${origin.name}_${name}_1`);
    }
    const draft = new Draft(this.#exposed, relationOrigin(relationship.target), item.select, false);
    if (item.kind === 'spread' && !isToOne(relationship) && draft.hasAggregates) throw spreadAggregate();
    this.#embeds.push({
      kind: item.kind,
      name,
      target: item.target,
      hasAlias: item.alias !== undefined,
      join: item.join,
      relationship,
      draft,
    });
  }

  get hasAggregates(): boolean {
    return (
      this.#outputs.some((output) => output.aggregate !== undefined) ||
      this.#embeds.some(
        (embed) => embed.kind === 'spread' && isToOne(embed.relationship) && embed.draft.hasAggregates,
      )
    );
  }

  /**
   * Whether a to-many spread contains aggregates. The parent groups by spread columns, but not inside the array of a
   * to-many spread.
   */
  get hasUnfoldable(): boolean {
    return this.#embeds.some(
      (embed) => embed.kind === 'spread' && !isToOne(embed.relationship) && embed.draft.hasAggregates,
    );
  }

  embed(name: string): DraftEmbed | undefined {
    return this.#embeds.find((embed) => embed.name === name);
  }

  embedByTarget(name: string): DraftEmbed | undefined {
    return this.#embeds.find((embed) => embed.target === name);
  }

  field(asked: FieldPath): Field {
    const { relation, columns, name } = this.#origin;
    const path = this.#current(asked);
    if (relation?.hidden.has(path.column)) throw undefinedColumn(name, path.column);
    return { path, column: columns?.get(path.column) };
  }

  /** Replaces an alternative column name by the name in the database. */
  #current(path: FieldPath): FieldPath {
    const { relation } = this.#origin;
    const column = relation ? currentColumn(relation, path.column) : path.column;
    return column === path.column ? path : { ...path, column };
  }

  condition(condition: Condition): PlannedCondition {
    if (condition.kind === 'group') {
      return { ...condition, terms: condition.terms.map((term) => this.condition(term)) };
    }
    return this.#existence(condition) ?? { ...condition, field: this.field(condition.path) };
  }

  /** Converts `rel=is.null` to a check for rows in the embed; with any other operator, `rel` is a column. */
  #existence({ path, negated, operation }: Filter): PlannedCondition | undefined {
    if (operation.kind !== 'is' || path.steps.length > 0) return undefined;
    if (operation.value !== 'null' && operation.value !== 'not_null') return undefined;
    // An embed with an alias has only that name, because its target may also be a column, as in `owner:owner_id(…)`.
    const embed = this.embed(path.column);
    if (!embed) return undefined;
    return {
      kind: 'exists',
      negated: (operation.value === 'null') !== negated,
      get embed(): PlannedEmbed {
        return finished(embed);
      },
    };
  }

  order({ relation, path, direction, nulls }: OrderTerm): PlannedOrder {
    return {
      by: relation === undefined ? this.#orderBy(path) : this.#relatedOrder(relation, path),
      direction,
      nulls,
    };
  }

  #relatedOrder(relation: string, path: FieldPath): PlannedOrder['by'] {
    const embed = this.embed(relation);
    // If the filter uses the target, the hint contains the alias.
    if (!embed) throw notEmbedded(relation, this.embedByTarget(relation)?.name);
    if (!isToOne(embed.relationship)) throw relatedOrderImpossible(this.#origin.name, embed.name);
    return {
      kind: 'related',
      field: embed.draft.fieldByOutput(path),
      get embed(): PlannedEmbed {
        return finished(embed);
      },
    };
  }

  #orderBy(path: FieldPath): PlannedOrder['by'] {
    if (path.steps.length === 0 && this.#aggregateNames().has(path.column)) {
      return { kind: 'output', name: path.column, isAggregate: true };
    }
    const grouped = this.#castOutput(path);
    if (grouped !== undefined) return { kind: 'output', name: grouped, isAggregate: false };
    return { kind: 'field', field: this.field(path) };
  }

  /** Returns the output of a column with a cast. A grouped result has only the cast form. */
  #castOutput(asked: FieldPath): string | undefined {
    if (!this.hasAggregates) return undefined;
    const path = this.#current(asked);
    const output = this.#outputs.find(
      ({ field, cast, aggregate }) =>
        cast !== undefined && aggregate === undefined && field !== '*' && samePath(field.path, path),
    );
    return output?.name;
  }

  /** An alias in the embed's select list wins over a column of the same name. */
  fieldByOutput(path: FieldPath): Field {
    if (path.steps.length === 0) {
      const output = this.#outputs.find(
        (output) => output.name === path.column && output.aggregate === undefined,
      );
      if (output && output.field !== '*') return output.field;
    }
    return this.field(path);
  }

  havingTerm(term: Condition): PlannedHaving {
    if (!this.hasAggregates) throw havingNeedsAggregate();
    if (term.kind === 'group') {
      return { ...term, terms: term.terms.map((child) => this.havingTerm(child)) };
    }
    const name = term.path.column;
    const isKnown = this.#aggregateNames().has(name) || this.#outputs.some((output) => output.name === name);
    if (!isKnown) throw unknownAggregate(name);
    return { kind: 'output', name, negated: term.negated, operation: term.operation };
  }

  #aggregateNames(): Set<string> {
    const names = new Set<string>();
    for (const output of this.#outputs) if (output.aggregate) names.add(output.name);
    for (const one of this.#embeds) {
      if (one.kind !== 'spread' || !isToOne(one.relationship)) continue;
      for (const name of one.draft.#aggregateNames()) names.add(name);
    }
    return names;
  }

  /** Called when all parameters are placed; returns the same node every time. */
  finish(): PlanNode {
    this.#finished ??= {
      name: this.#origin.name,
      relation: this.#origin.relation,
      hasUnknownColumns: this.#hasUnknownColumns,
      outputs: this.#outputs,
      embeds: this.#embeds.map(finished),
      conditions: this.conditions,
      orders: this.orders,
      having: this.having,
      limit: this.limit,
      offset: this.offset,
      isGrouped: this.hasAggregates,
    };
    return this.#finished;
  }
}

const STAR: readonly SelectItem[] = [{ kind: 'star' }];

function countOutput(name: string, cast: string | undefined): FieldOutput {
  return { name, field: '*', cast: undefined, aggregate: { name: 'count', cast } };
}

/** The last key of a JSON path, the column when it has none. */
function outputName({ column, steps }: FieldPath): string {
  for (let at = steps.length - 1; at >= 0; at--) {
    const key = steps[at]?.key;
    if (typeof key === 'string') return key;
  }
  return column;
}
