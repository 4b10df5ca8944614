// Which declarations the server must read together: those asked for, what they name, and what names them. What the
// shadow does not build is still found in the live schema, but not under `public.`. Including too much only costs time.
// The policies of all buckets are one declaration, and so are those of channels.
import { groupBy } from '../../lib/group-by.ts';
import { quoteIdent, quoteLiteral } from '../../postgres/sql.ts';
import {
  keyOf,
  tableKey,
  type DefaultModel,
  type FunctionModel,
  type PolicyModel,
  type SchemaModel,
  type TableModel,
  type TriggerModel,
  viewsOf,
} from '../schema/model.ts';
import { HOSTS, type PerHost, REALTIME_MESSAGES, STORAGE_OBJECTS } from '../schema/rights/hosts.ts';
import { isUnnamed, phaseOf, statementKey, statementsOf } from '../schema/statements.ts';
import { textOfType } from '../schema/types.ts';
import { wordsOf } from '../../lib/sql/sql-text.ts';
import { USERS } from '../schema/triggers.ts';

/** `name` is null for the policies of buckets and channels and the triggers of the users: nothing can name them. */
type Item = {
  readonly key: string;
  readonly name: string | null;
  /** It shows what it reads: what changes there changes it as well. */
  readonly passesOn?: boolean;
  readonly text: () => string;
};

/** Above this, reading the text into words is faster than searching it for each name. */
const FEW_NAMES = 20;

export class RelatedDeclarations {
  readonly #items: readonly Item[];
  readonly #texts = new Map<string, string>();
  readonly #words = new Map<string, ReadonlySet<string>>();

  /** Whatever is read may use them without a word. */
  readonly #unnamed: readonly string[];

  constructor(model: SchemaModel) {
    this.#unnamed = statementsOf(model).filter(isUnnamed).map(statementKey);
    const hosted: PerHost<readonly PolicyModel[]> = {
      [STORAGE_OBJECTS]: model.buckets.flatMap((bucket) => bucket.policies),
      [REALTIME_MESSAGES]: model.channels ?? [],
    };
    const { userTriggers = [] } = model;
    this.#items = [
      ...(model.types ?? []).map((type) => ({
        key: tableKey(type.schema, type.name),
        name: type.name,
        text: () => textOfType(type),
      })),
      ...model.tables.map((table) => ({
        key: tableKey(table.schema, table.name),
        name: table.name,
        text: () => textOf(table),
      })),
      ...[...groupBy(model.functions, keyOf)].map(([key, overloads]) => ({
        key,
        name: overloads[0].name,
        text: () => joined(overloads.map(textOfFunction)),
      })),
      ...viewsOf(model).map((view) => ({
        key: tableKey(view.schema, view.name),
        name: view.name,
        passesOn: true,
        text: () => joined([view.query, ...(view.triggers ?? []).flatMap(textsOfTrigger)]),
      })),
      ...statementsOf(model).flatMap((one) => {
        const names = isUnnamed(one) || phaseOf(one) === 'last' ? [null] : [one.name, one.multirange];
        const text = (): string => joined([one.create, ...one.alter]);
        return names.flatMap((name) => (name === undefined ? [] : [{ key: statementKey(one), name, text }]));
      }),
      ...HOSTS.filter((host) => hosted[host].length > 0).map((host) => ({
        key: host,
        name: null,
        text: () => joined(hosted[host].flatMap(textsOfPolicy)),
      })),
      ...(userTriggers.length === 0
        ? []
        : [{ key: USERS, name: null, text: () => joined(userTriggers.flatMap(textsOfTrigger)) }]),
    ];
  }

  /** The changed declarations, those that name them, and whatever these name in turn. */
  of(changed: ReadonlySet<string>): Set<string> {
    const chosen = new Set(changed);
    if (changed.size === 0 || chosen.size === this.#items.length) return chosen;
    for (const key of this.#unnamed) chosen.add(key);
    const names = new Set(
      this.#items.flatMap((item) => (item.name !== null && changed.has(item.key) ? [item.name] : [])),
    );
    for (let before = -1; before !== names.size;) {
      before = names.size;
      for (const item of this.#items) {
        if (chosen.has(item.key) || !this.#mentions(item, names)) continue;
        chosen.add(item.key);
        if (item.passesOn === true && item.name !== null) names.add(item.name);
      }
    }
    const byName = groupBy(this.#items, (item) => item.name);
    const unread = this.#items.filter((item) => chosen.has(item.key)).map((item) => this.#wordsOf(item));
    for (let words = unread.pop(); words !== undefined; words = unread.pop()) {
      for (const named of [...words].flatMap((word) => byName.get(word) ?? [])) {
        if (chosen.has(named.key)) continue;
        chosen.add(named.key);
        unread.push(this.#wordsOf(named));
      }
    }
    return chosen;
  }

  #mentions(item: Item, names: ReadonlySet<string>): boolean {
    if (names.size <= FEW_NAMES) {
      const text = this.#textOf(item);
      // SQL text doubles a quote inside a name, so it cannot be searched for.
      if (![...names].some((name) => name.includes('"') || text.includes(name.toLowerCase()))) return false;
    }
    for (const word of this.#wordsOf(item)) if (names.has(word)) return true;
    return false;
  }

  #textOf(item: Item): string {
    const text = this.#texts.get(item.key) ?? item.text().toLowerCase();
    this.#texts.set(item.key, text);
    return text;
  }

  #wordsOf(item: Item): ReadonlySet<string> {
    const words = this.#words.get(item.key) ?? wordsOf(item.text());
    this.#words.set(item.key, words);
    return words;
  }
}

function textOf(table: TableModel): string {
  return joined([
    ...table.columns.flatMap((column) => [column.type, textOfDefault(column.default), column.check]),
    ...table.indexes.flatMap((index) => [
      index.where,
      ...index.columns.map((part) => (typeof part === 'string' ? null : (part.expression ?? null))),
    ]),
    ...(table.constraints ?? []).flatMap((one) => {
      if (one.kind === 'check') return [one.sql];
      if (one.kind !== 'exclude') return [];
      return [one.where ?? null, ...one.parts.map((part) => part.expression ?? null)];
    }),
    ...table.columns.flatMap((column) => [column.onUpdate ?? null, column.generated?.sql ?? null]),
    ...(table.onNewUser ? [...Object.values(table.onNewUser.set), table.onNewUser.when] : []),
    ...(table.triggers ?? []).flatMap(textsOfTrigger),
    ...(typeof table.rls === 'string' ? [] : table.rls.flatMap(textsOfPolicy)),
  ]);
}

function textOfFunction(fn: FunctionModel): string {
  const args = fn.args.flatMap((arg) => [arg.type, textOfDefault(arg.default)]);
  return joined([...args, fn.returns, fn.body]);
}

function textsOfPolicy(policy: PolicyModel): (string | null)[] {
  return [policy.using, policy.withCheck, policy.check];
}

function textsOfTrigger({ when, call }: TriggerModel): (string | null)[] {
  return [when, quoteIdent(call.name)];
}

function textOfDefault(value: DefaultModel | null): string | null {
  // Quoted, because an apostrophe in a plain value would open a string that hides what follows.
  if (value?.kind === 'literal') return quoteLiteral(value.text);
  return value?.kind === 'sql' ? value.text : null;
}

function joined(texts: readonly (string | null)[]): string {
  return texts.filter((text) => text !== null && text !== '').join('\n;\n');
}
