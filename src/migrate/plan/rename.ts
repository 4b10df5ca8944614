// Declared renames. They are the first statements of a run and of each trial of a plan, so that later statements see
// the new names. Labels that contain an old name are renamed too.
import type { LiveTrigger } from '../schema/triggers.ts';
import { inputTypes, plainType } from '../../config/schema/overloads.ts';
import { groupBy } from '../../lib/group-by.ts';
import { quoteIdent, raw } from '../../postgres/sql.ts';
import { inDiscardedTransaction, type Queryable } from '../../postgres/owner-database.ts';
import type { Live, LiveFunction, LiveTable } from '../schema/live/live-schema.ts';
import {
  checkLabel,
  foreignKeyLabel,
  indexLabel,
  primaryKeyLabel,
  sequenceLabel,
  uniqueLabel,
} from '../schema/label.ts';
import { readLiveInside } from '../schema/live/read-live.ts';
import {
  type FunctionModel,
  functionKey,
  objectKey,
  quoteName,
  tableKey,
  type SchemaModel,
  type SequenceModel,
  type TableModel,
  type TriggerModel,
  type ViewModel,
  declaredViews,
} from '../schema/model.ts';
import { sameList } from '../schema/relation.ts';
import { declaredSequences } from '../schema/sequences.ts';
import { declaredTriggerLabel, USERS } from '../schema/triggers.ts';
import { type OwnedFunction, type OwnedTable, type Ownership, viewTriggerKey } from '../schema/managed.ts';
import { problem, MigrationRefused, type MigrationProblem } from '../problem.ts';
import type { Step } from './step.ts';
import { type Draft, stepOf } from './step-list.ts';
import { withLockRetries, type LockSettings } from '../locks.ts';
import type { HazardPolicy } from './hazard-policy.ts';
import { TypeRenames } from './types/type-renames.ts';

export type Renames = {
  readonly steps: readonly Step[];
  /** The live schema and the ownership after the steps. */
  readonly live: Live;
  readonly owned: Ownership;
  /** Identities of the migration state that the renames make obsolete. */
  readonly forgotten: readonly string[];
  /** Notes of the plan. */
  readonly notes: readonly string[];
};

/** Instances and clients with the previous file continue to work. */
const SERVED = 'the API understands both names';

/** Compares functions by the spelling of their types. */
function takesTypesOf({ args }: FunctionModel, { argumentTypes }: LiveFunction): boolean {
  return sameList(inputTypes(args), argumentTypes.map(plainType));
}

export async function planRenames(
  session: Queryable,
  model: SchemaModel,
  live: Live,
  owned: Ownership,
  schemas: readonly string[],
  policy: LockSettings & HazardPolicy,
): Promise<Renames> {
  const types = new TypeRenames(live.types, owned, policy);
  for (const type of model.types ?? []) types.add(type);
  const plan = new RenamePlan(model, live, owned, types);
  for (const table of model.tables) plan.table(table);
  for (const view of declaredViews(model)) plan.view(view);
  for (const sequence of declaredSequences(model)) plan.sequence(sequence);
  for (const fn of model.functions) plan.routine(fn);
  plan.triggers(model);
  const { steps, problems, forgotten } = plan;
  if (problems.length + types.problems.length > 0)
    throw new MigrationRefused([...types.problems, ...problems]);
  const all = [...types.steps, ...steps];
  const renamed =
    all.length === 0
      ? live
      : await underNewNames(session, all, policy, () => readLiveInside(session, schemas));
  return {
    steps: all,
    live: { ...renamed, types: withFormerNames(renamed.types, types.former) },
    owned: statementsUnderNewNames(plan.ownership(), live.statements, renamed.statements),
    forgotten: [...types.forgotten, ...forgotten],
    notes: types.notes,
  };
}

/** The identity of a statement object contains the renamed object. Its address stays. */
function statementsUnderNewNames(
  owned: Ownership,
  before: Live['statements'],
  after: Live['statements'],
): Ownership {
  if (before === after || owned.statements.size === 0) return owned;
  const identities = new Map([...after.values()].map(({ address, identity }) => [address, identity]));
  const statements = [...owned.statements].map(([identity, state]) => {
    const address = before.get(identity)?.address ?? '';
    return [identities.get(address) ?? identity, state] as const;
  });
  return { ...owned, statements: new Map(statements) };
}

function withFormerNames(types: Live['types'], former: TypeRenames['former']): Live['types'] {
  return new Map(
    [...types].map(([key, type]) => {
      const names = former.get(key);
      return [key, names === undefined ? type : { ...type, former: names }];
    }),
  );
}

/** Runs `read` with the new names and rolls the renames back. */
export async function underNewNames<T>(
  session: Queryable,
  renames: readonly Step[],
  locks: LockSettings,
  read: () => Promise<T>,
): Promise<T> {
  if (renames.length === 0) return read();
  const tables = [...new Set(renames.flatMap((step) => (step.table === null ? [] : [step.table])))];
  return withLockRetries(session, tables, locks, () =>
    inDiscardedTransaction(session, { lock_timeout: locks.lockTimeoutMs }, async () => {
      for (const step of renames) await session.query(raw(step.sql));
      return await read();
    }),
  );
}

/** Splits `comment title` at the first blank. */
function split(attribute: string): string[] {
  const blank = attribute.indexOf(' ');
  return blank < 0 ? [attribute] : [attribute.slice(0, blank), attribute.slice(blank + 1)];
}

class RenamePlan {
  readonly steps: Step[] = [];
  readonly problems: MigrationProblem[] = [];
  readonly forgotten: string[] = [];
  readonly #hasOverloads: (fn: FunctionModel) => boolean;
  readonly #live: Live;
  readonly #owned: Ownership;
  readonly #types: TypeRenames;
  readonly #tables: Map<string, OwnedTable>;
  readonly #retiredTables: Map<string, OwnedTable>;
  readonly #functions: Map<string, OwnedFunction>;
  readonly #renamedFunctions = new Set<LiveFunction>();
  readonly #retiredColumns: Set<string>;
  readonly #userTriggers: Set<string>;
  readonly #sequences: Set<string>;
  readonly #retiredSequences: Set<string>;
  readonly #views: Set<string>;
  readonly #viewTriggers: Set<string>;

  constructor({ functions }: SchemaModel, live: Live, owned: Ownership, types: TypeRenames) {
    const names = groupBy(functions, objectKey);
    this.#hasOverloads = (fn) => (names.get(objectKey(fn))?.length ?? 0) > 1;
    this.#live = live;
    this.#types = types;
    this.#owned = owned;
    this.#tables = new Map(owned.tables);
    this.#retiredTables = new Map(owned.retiredTables);
    this.#functions = new Map(owned.functions);
    this.#retiredColumns = new Set(owned.retiredColumns);
    this.#userTriggers = new Set(owned.userTriggers);
    this.#sequences = new Set(owned.sequences);
    this.#retiredSequences = new Set(owned.retiredSequences);
    this.#views = new Set(owned.views);
    this.#viewTriggers = new Set(owned.viewTriggers);
  }

  /** Returns the same object if nothing is renamed. */
  ownership(): Ownership {
    const { steps, forgotten, owned, retired } = this.#types;
    const count = this.steps.length + this.forgotten.length + steps.length + forgotten.length;
    if (count === 0) return this.#owned;
    return {
      ...this.#owned,
      types: owned,
      retiredTypes: retired,
      tables: this.#tables,
      retiredTables: this.#retiredTables,
      functions: this.#functions,
      retiredColumns: this.#retiredColumns,
      userTriggers: this.#userTriggers,
      sequences: this.#sequences,
      retiredSequences: this.#retiredSequences,
      views: this.#views,
      viewTriggers: this.#viewTriggers,
    };
  }

  table(model: TableModel): void {
    const key = objectKey(model);
    let found = this.#live.tables.get(key);
    const oldName = model.renamedFrom;
    if (oldName !== null && oldName !== model.name) {
      const oldKey = tableKey(model.schema, oldName);
      const old = this.#live.tables.get(oldKey);
      if (old && found && this.#owned.tables.has(oldKey)) this.#bothExist(model.at, oldName, model.name);
      // The object was renamed manually, so only the migration state changes.
      if (!old && found && this.#owned.tables.has(oldKey) && !this.#owned.tables.has(key))
        this.#renameTableOwnership(oldKey, key);
      if (old && !found) {
        this.#add({
          sql: `alter table ${quoteName(old)} rename to ${quoteIdent(model.name)}`,
          identity: model.at,
          summary: `rename table ${oldName} → ${model.name}: ${SERVED}`,
          table: oldKey,
        });
        found = old;
        this.#renameTableOwnership(oldKey, key);
      }
    }
    if (!found) return;
    const columns = this.#columns(model, found, key);
    if (found.name !== model.name || columns.size > 0)
      this.#relabel(key, columns, this.#labels(model, found, columns));
  }

  #columns(model: TableModel, found: LiveTable, key: string): Map<string, string> {
    const columns = new Map<string, string>();
    for (const column of model.columns) {
      const oldName = column.renamedFrom;
      if (oldName === null || oldName === column.name || !found.columns.has(oldName)) continue;
      const isThere = found.columns.has(column.name);
      const clashes = isThere
        ? this.#tables.get(key)?.columns.includes(oldName) && !this.#retiredColumns.has(`${key}.${oldName}`)
        : model.columns.some((one) => one.name === oldName);
      if (clashes) this.#bothExist(column.at, oldName, column.name);
      if (clashes || isThere) continue;
      columns.set(oldName, column.name);
      this.#add({
        sql: `alter table ${quoteName(model)} rename column ${quoteIdent(oldName)} to ${quoteIdent(column.name)}`,
        identity: column.at,
        summary: `rename column ${oldName} → ${column.name}: ${SERVED}`,
        table: objectKey(found),
      });
      if (this.#retiredColumns.delete(`${key}.${oldName}`)) this.forgotten.push(`column ${key}.${oldName}`);
    }
    return columns;
  }

  // Labels that contain the old name get the new name. Other labels stay.
  #labels(
    model: TableModel,
    found: LiveTable,
    columns: ReadonlyMap<string, string>,
  ): ReadonlyMap<string, string> {
    const labels = new Map<string, string>();
    const now = (name: string): string => columns.get(name) ?? name;
    const rename = (label: string, before: string, after: string, alter: string): void => {
      if (label !== before || before === after) return;
      labels.set(before, after);
      this.#add({
        sql: `${alter} to ${quoteIdent(after)}`,
        identity: model.at,
        summary: `rename ${before} → ${after}`,
      });
    };
    const constraint = (label: string, before: string, after: string): void =>
      rename(label, before, after, `alter table ${quoteName(model)} rename constraint ${quoteIdent(before)}`);
    for (const key of found.keys) {
      if (key.kind === 'primary')
        constraint(key.label, primaryKeyLabel(found.name), primaryKeyLabel(model.name));
      else
        constraint(
          key.label,
          uniqueLabel(found.name, key.columns),
          uniqueLabel(model.name, key.columns.map(now)),
        );
    }
    for (const one of found.foreignKeys) {
      constraint(
        one.label,
        foreignKeyLabel(found.name, one.columns),
        foreignKeyLabel(model.name, one.columns.map(now)),
      );
    }
    for (const check of found.checks) {
      for (const role of ['enum', 'pattern', 'range', 'check'] as const) {
        for (const column of found.columns.keys()) {
          constraint(
            check.label,
            checkLabel(found.name, column, role),
            checkLabel(model.name, now(column), role),
          );
        }
      }
    }
    for (const index of found.indexes) {
      const before = indexLabel(found.name, index.columns, index.unique, null);
      const after = indexLabel(model.name, index.columns.map(now), index.unique, null);
      const name = quoteName({ schema: model.schema, name: before });
      rename(index.label, before, after, `alter index ${name} rename`);
    }
    for (const column of found.columns.values()) {
      const before = sequenceLabel(found.name, column.name);
      const after = sequenceLabel(model.name, now(column.name));
      if (!column.sequence?.endsWith(`.${before}`) || before === after) continue;
      this.#add({
        sql: `alter sequence ${column.sequence} rename to ${quoteIdent(after)}`,
        identity: model.at,
        summary: `rename ${before} → ${after}`,
      });
    }
    return labels;
  }

  #renameTableOwnership(oldKey: string, key: string): void {
    this.forgotten.push(`table ${oldKey}`);
    // A retired table that comes back with another name keeps its recorded state.
    for (const tables of [this.#tables, this.#retiredTables]) {
      const owned = tables.get(oldKey);
      tables.delete(oldKey);
      if (owned) tables.set(key, owned);
    }
    // Columns that were retired with the old table name stay retired.
    for (const column of this.#owned.retiredColumns) {
      if (!column.startsWith(`${oldKey}.`)) continue;
      this.forgotten.push(`column ${column}`);
      this.#retiredColumns.delete(column);
      this.#retiredColumns.add(key + column.slice(oldKey.length));
    }
  }

  #relabel(key: string, columns: ReadonlyMap<string, string>, labels: ReadonlyMap<string, string>): void {
    const rename = (list: readonly string[], names: ReadonlyMap<string, string>): string[] =>
      list.map((one) => names.get(one) ?? one);
    for (const tables of [this.#tables, this.#retiredTables]) {
      const owned = tables.get(key);
      if (!owned) continue;
      tables.set(key, {
        ...owned,
        columns: rename(owned.columns, columns),
        constraints: rename(owned.constraints, labels),
        indexes: rename(owned.indexes, labels),
        ...(owned.attributes && {
          attributes: owned.attributes.map((one) => {
            const [what = '', column] = split(one);
            return column === undefined ? one : `${what} ${columns.get(column) ?? column}`;
          }),
        }),
        ...(owned.triggers && { triggers: rename(owned.triggers, labels) }),
        ...(owned.fills && {
          fills: Object.fromEntries(
            Object.entries(owned.fills).map(([column, value]) => [columns.get(column) ?? column, value]),
          ),
        }),
      });
    }
  }

  view({ schema, name, renamedFrom, at }: ViewModel): void {
    if (renamedFrom === null || this.#live.views.has(tableKey(schema, name))) return;
    const oldKey = tableKey(schema, renamedFrom);
    const old = this.#live.views.get(oldKey);
    if (!old) return;
    this.#add({
      sql: `alter ${old.materialized ? 'materialized ' : ''}view ${quoteName(old)} rename to ${quoteIdent(name)}`,
      identity: at,
      summary: `rename view ${renamedFrom} → ${name}: ${SERVED}`,
    });
    this.forgotten.push(`view ${oldKey}`);
    if (this.#views.delete(oldKey)) this.#views.add(tableKey(schema, name));
    for (const { label } of old.triggers)
      if (this.#viewTriggers.delete(viewTriggerKey(oldKey, label)))
        this.#viewTriggers.add(viewTriggerKey(tableKey(schema, name), label));
  }

  sequence({ schema, name, renamedFrom = name, at }: SequenceModel): void {
    if (renamedFrom === name) return;
    const key = tableKey(schema, name);
    const oldKey = tableKey(schema, renamedFrom);
    const found = this.#live.sequences.has(key);
    const old = this.#live.sequences.get(oldKey);
    const isOwned = this.#sequences.has(oldKey);
    if (old && found && isOwned) this.#bothExist(at, renamedFrom, name);
    if (old ? found : !isOwned) return;
    if (old)
      this.#add({
        sql: `alter sequence ${quoteName(old)} rename to ${quoteIdent(name)}`,
        identity: at,
        summary: `rename sequence ${renamedFrom} → ${name}`,
        // Statements of older instances that use the old name fail.
        hazards: ['BREAKS_OLD_CODE'],
      });
    this.forgotten.push(`sequence ${oldKey}`);
    this.#sequences.delete(oldKey);
    this.#retiredSequences.delete(oldKey);
    this.#sequences.add(key);
  }

  routine(fn: FunctionModel): void {
    const { schema, name, renamedFrom, at } = fn;
    if (renamedFrom === null) return;
    const there = this.#live.functions.get(objectKey(fn)) ?? [];
    const isOverloaded = there.length > 0 && this.#hasOverloads(fn);
    if (isOverloaded ? there.some((one) => takesTypesOf(fn, one)) : there.length > 0) return;
    const oldKey = tableKey(schema, renamedFrom);
    const former = (this.#live.functions.get(oldKey) ?? []).filter((one) => !this.#renamedFunctions.has(one));
    const old = former.find((one) => takesTypesOf(fn, one)) ?? (isOverloaded ? undefined : former[0]);
    if (!old) return;
    this.#renamedFunctions.add(old);
    this.#add({
      sql: `alter ${old.isProcedure ? 'procedure' : 'function'} ${quoteName(old)}(${old.argumentTypes.join(', ')}) rename to ${quoteIdent(name)}`,
      identity: at,
      summary: `rename function ${renamedFrom} → ${name}: ${SERVED}`,
    });
    for (const [key, owned] of this.#functions) {
      const isIt =
        objectKey(owned) === oldKey &&
        (owned.argumentTypes === null ||
          former.length === 1 ||
          sameList(owned.argumentTypes, old.argumentTypes));
      if (!isIt) continue;
      this.forgotten.push(`function ${key}`);
      this.#functions.delete(key);
      this.#functions.set(functionKey(fn), { ...owned, name });
      break;
    }
  }

  /** Labels that contain an earlier name of their table or of the function that they call. */
  triggers(model: SchemaModel): void {
    const formerly = new Map(
      model.functions.flatMap((fn) =>
        fn.renamedFrom === null ? [] : [[objectKey(fn), fn.renamedFrom] as const],
      ),
    );
    const rename = (
      triggers: readonly TriggerModel[],
      live: readonly LiveTrigger[],
      on: { readonly names: readonly string[]; readonly relation: string; readonly table: string },
    ): Map<string, string> => {
      const labels = new Map<string, string>();
      for (const trigger of triggers) {
        const { call, at } = trigger;
        const now = declaredTriggerLabel(on.names[0] ?? '', trigger);
        const functions = [call.name, formerly.get(objectKey(call)) ?? call.name];
        const before = on.names
          .flatMap((table) =>
            functions.map((name) => declaredTriggerLabel(table, { ...trigger, call: { ...call, name } })),
          )
          .find((label) => label !== now && live.some((one) => one.label === label));
        if (before === undefined || live.some((one) => one.label === now)) continue;
        labels.set(before, now);
        this.#add({
          sql: `alter trigger ${quoteIdent(before)} on ${on.relation} rename to ${quoteIdent(now)}`,
          identity: at,
          summary: `rename trigger ${before} → ${now}`,
          table: on.table,
        });
      }
      return labels;
    };
    for (const table of model.tables) {
      const { triggers = [], renamedFrom, name } = table;
      const key = objectKey(table);
      const former = tableKey(table.schema, renamedFrom ?? name);
      const live = this.#live.tables.get(key) ?? this.#live.tables.get(former);
      if (triggers.length === 0 || live === undefined) continue;
      const names = renamedFrom === null ? [name] : [name, renamedFrom];
      const labels = rename(triggers, live.triggers, {
        names,
        relation: quoteName(table),
        table: objectKey(live),
      });
      if (labels.size > 0) this.#relabel(key, new Map(), labels);
    }
    const { userTriggers = [] } = model;
    const labels = rename(userTriggers, this.#live.userTriggers, {
      names: ['users'],
      relation: USERS,
      table: USERS,
    });
    for (const [before, now] of labels) if (this.#userTriggers.delete(before)) this.#userTriggers.add(now);
  }

  #bothExist(at: string, oldName: string, name: string): void {
    this.problems.push(
      problem(
        'MIG-206',
        at,
        `renamed_from: ${oldName}, but both ${oldName} and ${name} exist and hold data`,
        `Move the data yourself, then remove renamed_from.`,
      ),
    );
  }

  #add(draft: Omit<Draft, 'stage'>): void {
    this.steps.push(stepOf({ stage: 'rename', sign: '~', lock: 'AccessExclusive', ...draft }));
  }
}
