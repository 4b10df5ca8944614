// Selects the declarations that are built together in the shadow schema: the changed ones, the ones that they name, and
// the ones that name them. Other objects are found in the live schema, but not as `public.name`. Selecting too many
// declarations only costs time. The policies of all buckets are one declaration, and so are the policies of all
// channels.
import { groupBy } from '../../lib/group-by.ts';
import { quoteIdent, quoteLiteral } from '../../postgres/sql.ts';
import {
  objectKey,
  tableKey,
  type DefaultModel,
  type FunctionModel,
  type PolicyModel,
  type SchemaModel,
  type TableModel,
  type TriggerModel,
  declaredViews,
} from '../schema/model.ts';
import { HOSTS, type PerHost, REALTIME_MESSAGES, STORAGE_OBJECTS } from '../schema/rights/hosts.ts';
import { isUsedWithoutName, statementPhase, statementKey, declaredStatements } from '../schema/statements.ts';
import { typeText } from '../schema/types.ts';
import { sqlWords } from '../../lib/sql/sql-text.ts';
import { USERS } from '../schema/triggers.ts';

/**
 * `name` is null for policies of buckets and channels and for triggers on auth.users, which no declaration can name.
 */
type Item = {
  readonly key: string;
  readonly name: string | null;
  /** A change of something that the declaration names also changes the declaration, as for views. */
  readonly passesOn?: boolean;
  readonly text: () => string;
};

/** Above this number of names, splitting the text into words is faster than searching it for each name. */
const MAX_SEARCHED_NAMES = 20;

export class RelatedDeclarations {
  readonly #items: readonly Item[];
  readonly #texts = new Map<string, string>();
  readonly #words = new Map<string, ReadonlySet<string>>();

  /** Keys of operators and casts, which any declaration may use without naming them. */
  readonly #unnamed: readonly string[];

  constructor(model: SchemaModel) {
    this.#unnamed = declaredStatements(model).filter(isUsedWithoutName).map(statementKey);
    const hosted: PerHost<readonly PolicyModel[]> = {
      [STORAGE_OBJECTS]: model.buckets.flatMap((bucket) => bucket.policies),
      [REALTIME_MESSAGES]: model.channels ?? [],
    };
    const { userTriggers = [] } = model;
    this.#items = [
      ...(model.types ?? []).map((type) => ({
        key: tableKey(type.schema, type.name),
        name: type.name,
        text: () => typeText(type),
      })),
      ...model.tables.map((table) => ({
        key: tableKey(table.schema, table.name),
        name: table.name,
        text: () => tableText(table),
      })),
      ...[...groupBy(model.functions, objectKey)].map(([key, overloads]) => ({
        key,
        name: overloads[0].name,
        text: () => joinTexts(overloads.map(functionText)),
      })),
      ...declaredViews(model).map((view) => ({
        key: tableKey(view.schema, view.name),
        name: view.name,
        passesOn: true,
        text: () => joinTexts([view.query, ...(view.triggers ?? []).flatMap(triggerTexts)]),
      })),
      ...declaredStatements(model).flatMap((statement) => {
        const names =
          isUsedWithoutName(statement) || statementPhase(statement) === 'last'
            ? [null]
            : [statement.name, statement.multirange];
        const text = (): string => joinTexts([statement.create, ...statement.alter]);
        return names.flatMap((name) =>
          name === undefined ? [] : [{ key: statementKey(statement), name, text }],
        );
      }),
      ...HOSTS.filter((host) => hosted[host].length > 0).map((host) => ({
        key: host,
        name: null,
        text: () => joinTexts(hosted[host].flatMap(policyTexts)),
      })),
      ...(userTriggers.length === 0
        ? []
        : [{ key: USERS, name: null, text: () => joinTexts(userTriggers.flatMap(triggerTexts)) }]),
    ];
  }

  /** Returns the keys of the changed declarations, of those that name them, and of all that these name in turn. */
  expand(changed: ReadonlySet<string>): Set<string> {
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
    const unread = this.#items.filter((item) => chosen.has(item.key)).map((item) => this.#itemWords(item));
    for (let words = unread.pop(); words !== undefined; words = unread.pop()) {
      for (const named of [...words].flatMap((word) => byName.get(word) ?? [])) {
        if (chosen.has(named.key)) continue;
        chosen.add(named.key);
        unread.push(this.#itemWords(named));
      }
    }
    return chosen;
  }

  #mentions(item: Item, names: ReadonlySet<string>): boolean {
    if (names.size <= MAX_SEARCHED_NAMES) {
      const text = this.#itemText(item);
      // A name with a quote cannot be searched for, because SQL text doubles the quote.
      if (![...names].some((name) => name.includes('"') || text.includes(name.toLowerCase()))) return false;
    }
    for (const word of this.#itemWords(item)) if (names.has(word)) return true;
    return false;
  }

  #itemText(item: Item): string {
    const text = this.#texts.get(item.key) ?? item.text().toLowerCase();
    this.#texts.set(item.key, text);
    return text;
  }

  #itemWords(item: Item): ReadonlySet<string> {
    const words = this.#words.get(item.key) ?? sqlWords(item.text());
    this.#words.set(item.key, words);
    return words;
  }
}

function tableText(table: TableModel): string {
  return joinTexts([
    ...table.columns.flatMap((column) => [column.type, defaultText(column.default), column.check]),
    ...table.indexes.flatMap((index) => [
      index.where,
      ...index.columns.map((part) => (typeof part === 'string' ? null : (part.expression ?? null))),
    ]),
    ...(table.constraints ?? []).flatMap((constraint) => {
      if (constraint.kind === 'check') return [constraint.sql];
      if (constraint.kind !== 'exclude') return [];
      return [constraint.where ?? null, ...constraint.parts.map((part) => part.expression ?? null)];
    }),
    ...table.columns.flatMap((column) => [column.onUpdate ?? null, column.generated?.sql ?? null]),
    ...(table.onNewUser ? [...Object.values(table.onNewUser.set), table.onNewUser.when] : []),
    ...(table.triggers ?? []).flatMap(triggerTexts),
    ...(typeof table.rls === 'string' ? [] : table.rls.flatMap(policyTexts)),
  ]);
}

function functionText(fn: FunctionModel): string {
  const args = fn.args.flatMap((arg) => [arg.type, defaultText(arg.default)]);
  return joinTexts([...args, fn.returns, fn.body]);
}

function policyTexts(policy: PolicyModel): (string | null)[] {
  return [policy.using, policy.withCheck, policy.check];
}

function triggerTexts({ when, call }: TriggerModel): (string | null)[] {
  return [when, quoteIdent(call.name)];
}

function defaultText(value: DefaultModel | null): string | null {
  // Quoted, because an apostrophe in the value would start a string that hides the following texts.
  if (value?.kind === 'literal') return quoteLiteral(value.text);
  return value?.kind === 'sql' ? value.text : null;
}

function joinTexts(texts: readonly (string | null)[]): string {
  return texts.filter((text) => text !== null && text !== '').join('\n;\n');
}
