// Attributes of a table that ALTER TABLE sets. A new attribute needs a key in the file and one entry here: the
// reader, the model, the comparison, the plan and the pulled file loop over these entries.
import { quoteIdent } from '../../../postgres/sql.ts';
import { optionsSql } from './options-sql.ts';

/** Values by key of the file. */
export type TableAttributes = {
  /** The table is empty after a crash, and the write-ahead log does not contain its rows. */
  readonly unlogged: boolean;
  /** Storage parameters. */
  readonly with: Readonly<Record<string, string>>;
};

export type AttributeKey = keyof TableAttributes;

export type TableAttribute<Value> = {
  /** SQL expression over `c`, the row of `pg_class`. */
  readonly live: string;
  /** Value of a table without the key. */
  readonly none: Value;
  /** Returns the parts that the file sets, as `OwnedTable` records them. */
  readonly parts: (value: Value) => readonly string[];
  /** Returns null if nothing differs. Parts that the file never set keep their live value. */
  readonly alter: (declared: Value, live: Value, owned: readonly string[]) => Alteration | null;
  /** Words of CREATE TABLE, before `table` and at the end. If this is missing, ALTER TABLE follows. */
  readonly create?: (value: Value) => { readonly before?: string; readonly after?: string };
  readonly lock: 'AccessExclusive' | 'ShareUpdateExclusive';
  readonly rewrites: boolean;
  readonly stage: 'columns' | 'comments';
};

export type Alteration = {
  /** Texts after `alter table todos`, each for a statement. */
  readonly actions: readonly string[];
  readonly summary: (table: string) => string;
};

const ATTRIBUTES: { readonly [Key in AttributeKey]: TableAttribute<TableAttributes[Key]> } = {
  unlogged: flag('unlogged', {
    live: `c.relpersistence = 'u'`,
    on: 'set unlogged',
    off: 'set logged',
    summary: (table, isOn) => `${table} is ${isOn ? 'no longer logged: a crash empties it' : 'logged'}`,
    create: (value) => (value ? { before: 'unlogged ' } : {}),
    lock: 'AccessExclusive',
    rewrites: true,
    // Foreign keys of other tables follow.
    stage: 'columns',
  }),
  with: {
    live: `(select coalesce(jsonb_object_agg(o.option_name, o.option_value), '{}') from pg_options_to_table(c.reloptions) o)`,
    none: {},
    parts: (value) => Object.keys(value).map((name) => `with ${name}`),
    alter: (declared, live, owned) => {
      const set = Object.entries(declared).filter(([name, value]) => live[name] !== value);
      const reset = Object.keys(live).filter((name) => !(name in declared) && owned.includes(`with ${name}`));
      if (set.length + reset.length === 0) return null;
      const values = [
        ...set.map(([name, value]) => `${name} ${value}`),
        ...reset.map((name) => `${name} as usual`),
      ];
      return {
        actions: [
          ...(set.length > 0 ? [`set (${optionsSql(Object.fromEntries(set))})`] : []),
          ...(reset.length > 0 ? [`reset (${reset.map(quoteIdent).join(', ')})`] : []),
        ],
        summary: (table) => `storage parameters of ${table}: ${values.join(', ')}`,
      };
    },
    create: (value) => (Object.keys(value).length > 0 ? { after: ` with (${optionsSql(value)})` } : {}),
    lock: 'ShareUpdateExclusive',
    rewrites: false,
    stage: 'comments',
  },
};

type Flag = Omit<TableAttribute<boolean>, 'none' | 'parts' | 'alter'> & {
  /** Action of ALTER TABLE. */
  readonly on: string;
  readonly off: string;
  readonly summary: (table: string, isOn: boolean) => string;
};

function flag(key: AttributeKey, { on, off, summary, ...attribute }: Flag): TableAttribute<boolean> {
  return {
    ...attribute,
    none: false,
    parts: (value) => (value ? [key] : []),
    alter: (declared, live, owned) =>
      declared === live || !(declared || owned.includes(key))
        ? null
        : { actions: [declared ? on : off], summary: (table) => summary(table, declared) },
  };
}

const ENTRIES = Object.entries(ATTRIBUTES) as ReadonlyArray<[AttributeKey, TableAttribute<unknown>]>;

/** Columns of a query over `c`. */
export const LIVE_ATTRIBUTES = ENTRIES.map(([key, { live }]) => `${live} as "${key}"`).join(', ');

/** The names of these columns. */
export const ATTRIBUTE_NAMES = ENTRIES.map(([key]) => `"${key}"`).join(', ');

export function tableAttribute(key: AttributeKey): Omit<TableAttribute<never>, 'none'> {
  return ATTRIBUTES[key];
}

/** Returns the attributes that a declaration sets. */
export function fileAttributes(table: {
  readonly [Key in AttributeKey]?: TableAttributes[Key] | undefined;
}): Partial<TableAttributes> {
  const set = ENTRIES.filter(([key, { none }]) => table[key] !== undefined && table[key] !== none);
  return Object.fromEntries(set.map(([key]) => [key, table[key]]));
}

/** Returns the values of all attributes. */
export function attributeValues(declared: Partial<TableAttributes>): TableAttributes {
  const values = ENTRIES.map(([key, { none }]) => [key, declared[key] ?? none]);
  return Object.fromEntries(values) as TableAttributes;
}

/** Returns the attributes that a pulled file contains. */
export function pulledAttributes(live: TableAttributes): Partial<TableAttributes> {
  const set = ENTRIES.filter(([key, { parts }]) => parts(live[key]).length > 0);
  return Object.fromEntries(set.map(([key]) => [key, live[key]]));
}

export function ownedAttributes(declared: Partial<TableAttributes>): readonly string[] {
  const values = attributeValues(declared);
  return ENTRIES.flatMap(([key, { parts }]) => parts(values[key]));
}

export function attributeChanges(
  declared: Partial<TableAttributes>,
  live: TableAttributes,
  owned: readonly string[] = [],
): ReadonlyArray<{ readonly attribute: AttributeKey; readonly alteration: Alteration }> {
  const values = attributeValues(declared);
  return ENTRIES.flatMap(([attribute, { alter }]) => {
    const alteration = alter(values[attribute], live[attribute], owned);
    return alteration === null ? [] : [{ attribute, alteration }];
  });
}

/** Returns words of CREATE TABLE, `unlogged ` and ` with (fillfactor = 70)`, and actions of ALTER TABLE that follow. */
export function createAttributes(declared: Partial<TableAttributes>): {
  readonly before: string;
  readonly after: string;
  readonly actions: readonly string[];
} {
  const values = attributeValues(declared);
  const words = ENTRIES.map(([key, { create }]) => create?.(values[key]) ?? {});
  return {
    before: words.map(({ before = '' }) => before).join(''),
    after: words.map(({ after = '' }) => after).join(''),
    actions: ENTRIES.flatMap(([key, { create, alter, none }]) =>
      create ? [] : (alter(values[key], none, [])?.actions ?? []),
    ),
  };
}
