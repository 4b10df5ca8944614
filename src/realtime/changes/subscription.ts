// What one channel has subscribed to: its bindings as they are matched against changes.
import type { Caller } from '../../identity/caller.ts';
import type { DatabaseRole } from '../../postgres/pool/caller-pool.ts';
import { groupOf } from '../access/row-visibility.ts';
import type { ChangeBinding, ChangesRequest } from './changes.ts';
import { localTest, type ValueTest } from './condition-test.ts';
import { parseFilter, type Condition } from './filter.ts';
import type { EventKind, PublishedTable } from './published-tables.ts';
import type { AskedCondition, TextRow } from './row-values.ts';

export type Findings = {
  /** Why bindings will hear nothing, one text for each that does not. */
  readonly faults: readonly string[];
  /** What others will not hear. */
  readonly hints: readonly string[];
};

export class Subscription {
  readonly request: ChangesRequest;
  readonly bindings: readonly Binding[];
  caller: Caller;
  /** Callers who see the same. */
  group: string;
  isClosed = false;
  /** What its client was told last of what it will hear, by that version of the tables. */
  told: { readonly findings: Findings; readonly version: number } | undefined;
  /** Position in the log: what was committed before is none of its business. */
  after = 0n;

  /** Throws `FilterError`. */
  constructor(request: ChangesRequest) {
    this.request = request;
    this.caller = request.caller;
    this.group = groupOf(request.caller);
    this.bindings = request.bindings.map((asked) => new Binding(asked));
  }

  /** True when it may see other things now. */
  actFor(caller: Caller): boolean {
    const before = this.group;
    this.caller = caller;
    this.group = groupOf(caller);
    return this.group !== before;
  }
}

const EVENTS: Readonly<Record<string, EventKind>> = { insert: 'insert', update: 'update', delete: 'delete' };

type Compiled = {
  readonly local: ReadonlyArray<readonly [column: string, test: ValueTest]>;
  readonly asked: AskedCondition[];
};

export class Binding {
  readonly asked: ChangeBinding;
  readonly schema: string;
  readonly event: EventKind | undefined;
  readonly conditions: readonly Condition[];
  /** Columns that the client wants besides the key; undefined: all. */
  readonly columns: ReadonlySet<string> | undefined;
  /** PostgreSQL could not judge its filter: it hears nothing any more. */
  isBroken = false;
  /** A table is known anew when the catalog has changed. */
  readonly #compiled = new WeakMap<PublishedTable, Compiled>();

  constructor(asked: ChangeBinding) {
    this.asked = asked;
    this.schema = asked.schema ?? 'public';
    this.event = EVENTS[asked.event.toLowerCase()];
    this.conditions = asked.filter === undefined ? [] : parseFilter(asked.filter);
    this.columns = asked.select && asked.table !== undefined ? new Set(asked.select) : undefined;
  }

  isFor({ schema, name }: Pick<PublishedTable, 'schema' | 'name'>): boolean {
    if (this.schema !== '*' && this.schema !== schema) return false;
    return this.asked.table === undefined || this.asked.table === '*' || this.asked.table === name;
  }

  wants(kind: EventKind): boolean {
    return this.event === undefined || this.event === kind;
  }

  /** Whether the role may select what the filter and the list of columns name: a filter would tell of others. */
  mayAsk(table: PublishedTable, role: DatabaseRole): boolean {
    const selectable = table.selectable[role];
    return (
      this.conditions.every(({ column }) => selectable.has(column)) &&
      [...(this.columns ?? [])].every((name) => selectable.has(name))
    );
  }

  /** What the texts of the row cannot tell. */
  conditionsToAsk(table: PublishedTable): readonly AskedCondition[] {
    return this.#compile(table)?.asked ?? [];
  }

  /**
   * False as well when it cannot be known: a column that is not in the change, or that the table does not have.
   * `counts`: columns whose conditions count; the others hold.
   */
  holdsLocally(table: PublishedTable, row: TextRow, counts: (column: string) => boolean): boolean {
    const compiled = this.#compile(table);
    if (!compiled) return false;
    for (const { condition } of compiled.asked) {
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
    const compiled: Compiled = { local: [], asked: [] };
    const local: Array<readonly [string, ValueTest]> = [];
    for (const condition of this.conditions) {
      const column = table.columns.find(({ name }) => name === condition.column);
      if (!column) return undefined;
      const test = localTest(condition, column.type);
      if (test) local.push([condition.column, test]);
      else compiled.asked.push({ condition, sqlType: column.sqlType });
    }
    const whole = { local, asked: compiled.asked };
    this.#compiled.set(table, whole);
    return whole;
  }
}
