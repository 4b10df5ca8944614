// The subscription of one channel: bindings that are matched against changes.
import type { Caller } from '../../identity/caller.ts';
import type { DatabaseRole } from '../../postgres/pool/caller-pool.ts';
import { visibilityGroup } from '../access/row-visibility.ts';
import type { ChangeBinding, ChangesRequest } from './changes.ts';
import type { SourceChange } from './source/change-source.ts';
import { localTest, type ValueTest } from './filter/condition-test.ts';
import { parseFilter, type Condition } from './filter/filter.ts';
import type { EventKind, PublishedTable } from '../tables/published-tables.ts';
import type { DatabaseFilter } from './filter/filter-query.ts';
import type { TextRow } from '../tables/row-values.ts';

export type SubscriptionStatus = {
  /** Reasons why bindings cannot receive changes, one text per binding. */
  readonly faults: readonly string[];
  /** Events that other bindings cannot receive. */
  readonly hints: readonly string[];
};

export class Subscription {
  readonly request: ChangesRequest;
  readonly bindings: readonly Binding[];
  caller: Caller;
  /** The client's address. */
  readonly address: string | undefined;
  /** Key of the callers who see the same rows. */
  group: string;
  isClosed = false;
  /** Last status that was sent to the client, with the version of the table catalog. */
  lastStatus: { readonly status: SubscriptionStatus; readonly version: number } | undefined;
  /** Position in the log. Changes before it are not delivered. */
  after = 0n;

  /** Throws `FilterError`. */
  constructor(request: ChangesRequest) {
    this.request = request;
    this.caller = request.caller;
    this.address = request.address;
    this.group = visibilityGroup(request.caller);
    this.bindings = request.bindings.map((requested) => new Binding(requested));
  }

  /** Returns true when the new caller may see other rows. */
  changeCaller(caller: Caller): boolean {
    const before = this.group;
    this.caller = caller;
    this.group = visibilityGroup(caller);
    return this.group !== before;
  }
}

/** A change with the functions that send it. They are called in the order of commits. */
export type Item = SourceChange & { readonly kind: EventKind; readonly sends: Array<() => void> };

/** A subscription with those of its bindings that a change may match. */
export type Subscriber = { readonly subscription: Subscription; readonly bindings: readonly Binding[] };

const EVENTS: Readonly<Record<string, EventKind>> = { insert: 'insert', update: 'update', delete: 'delete' };

type Compiled = {
  readonly local: ReadonlyArray<readonly [column: string, test: ValueTest]>;
  readonly database: DatabaseFilter[];
};

export class Binding {
  readonly requested: ChangeBinding;
  readonly schema: string;
  readonly event: EventKind | undefined;
  readonly conditions: readonly Condition[];
  /** Columns in addition to the primary key. Undefined means all columns. */
  readonly columns: ReadonlySet<string> | undefined;
  /** True when PostgreSQL cannot evaluate the filter, or took too long. No change matches the binding any more. */
  isBroken = false;
  /** Keyed by table. The table is a new object after the catalog has changed. */
  readonly #compiled = new WeakMap<PublishedTable, Compiled>();

  constructor(requested: ChangeBinding) {
    this.requested = requested;
    this.schema = requested.schema ?? 'public';
    this.event = EVENTS[requested.event.toLowerCase()];
    this.conditions = requested.filter === undefined ? [] : parseFilter(requested.filter);
    this.columns = requested.select && requested.table !== undefined ? new Set(requested.select) : undefined;
  }

  matchesTable({ schema, name }: Pick<PublishedTable, 'schema' | 'name'>): boolean {
    if (this.schema !== '*' && this.schema !== schema) return false;
    return (
      this.requested.table === undefined || this.requested.table === '*' || this.requested.table === name
    );
  }

  matchesEvent(kind: EventKind): boolean {
    return this.event === undefined || this.event === kind;
  }

  /** Returns whether the role may select all named columns. A filter on other columns would reveal their values. */
  canReference(table: PublishedTable, role: DatabaseRole): boolean {
    const selectable = table.selectable[role];
    return (
      this.conditions.every(({ column }) => selectable.has(column)) &&
      [...(this.columns ?? [])].every((name) => selectable.has(name))
    );
  }

  /** Returns the conditions that only PostgreSQL can evaluate. */
  databaseFilters(table: PublishedTable): readonly DatabaseFilter[] {
    return this.#compile(table)?.database ?? [];
  }

  /**
   * Returns false also for a column that is not part of the change or of the table. `counts` selects the columns whose
   * conditions count.
   */
  matchesLocally(table: PublishedTable, row: TextRow, counts: (column: string) => boolean): boolean {
    const compiled = this.#compile(table);
    if (!compiled) return false;
    for (const { condition } of compiled.database) {
      if (counts(condition.column) && !row.has(condition.column)) return false;
    }
    return compiled.local.every(([column, test]) => {
      if (!counts(column)) return true;
      const value = row.get(column);
      return value !== undefined && test(value);
    });
  }

  #compile(table: PublishedTable): Compiled | undefined {
    const known = this.#compiled.get(table);
    if (known) return known;
    const compiled: Compiled = { local: [], database: [] };
    const local: Array<readonly [string, ValueTest]> = [];
    for (const condition of this.conditions) {
      const column = table.columns.find(({ name }) => name === condition.column);
      if (!column) return undefined;
      const test = localTest(condition, column.type);
      if (test) local.push([condition.column, test]);
      else compiled.database.push(databaseFilter(table, condition, column.sqlType));
    }
    const whole = { local, database: compiled.database };
    this.#compiled.set(table, whole);
    return whole;
  }
}

function databaseFilter(
  { schema, name }: PublishedTable,
  condition: Condition,
  sqlType: string,
): DatabaseFilter {
  return { condition, sqlType, key: JSON.stringify([schema, name, condition]) };
}
