// Objects that the file declares as SQL under `statements`: aggregates, extended statistics, range types, rules,
// operators, casts, collations, text search configurations and dictionaries. All kinds are treated the same way. The
// server parses the statement once. Its printed form is then used to create, compare and pull the object.
import type { Statement } from '../../config/config.ts';
import { sqlWords, scanSql, type Token } from '../../lib/sql/sql-text.ts';

/**
 * Names as in DROP and COMMENT. They equal those of `pg_identify_object`, except `statistics`. In the order of
 * creation.
 */
export const STATEMENT_KINDS = [
  'collation',
  'text search dictionary',
  'text search configuration',
  'type',
  'operator',
  'cast',
  'aggregate',
  'rule',
  'statistics',
] as const;

export type StatementKind = (typeof STATEMENT_KINDS)[number];

/**
 * When objects are created. `base`: before tables, which may use them. `calls`: after the functions that they call.
 * `last`: after everything else, because no object depends on them.
 */
export type StatementPhase = 'base' | 'calls' | 'last';

const PHASES: Readonly<Record<StatementKind, StatementPhase>> = {
  collation: 'base',
  'text search dictionary': 'base',
  'text search configuration': 'base',
  type: 'base',
  operator: 'calls',
  cast: 'calls',
  aggregate: 'calls',
  rule: 'last',
  statistics: 'last',
};

export function statementPhase({ kind }: { readonly kind: StatementKind }): StatementPhase {
  return PHASES[kind];
}

export type StatementModel = {
  readonly kind: StatementKind;
  /** Empty for a cast, which has no schema. */
  readonly schema: string;
  /** Symbol of an operator. Empty for a cast. */
  readonly name: string;
  /** Table or view of a rule or of statistics. */
  readonly host: { readonly schema: string; readonly name: string } | null;
  /** Name of the multirange type that PostgreSQL creates with a range type. */
  readonly multirange?: string;
  readonly create: string;
  /** Statements that complete the object. */
  readonly alter: readonly string[];
  /** Roles with EXECUTE on an aggregate. */
  readonly execute: readonly string[];
  readonly comment: string | null;
  /** Key under `statements`. */
  readonly label: string;
  readonly at: string;
};

/** Printed form of the object that a statement created. */
export type StatementForm = {
  /** Name for DROP and COMMENT: `aggregate public.product(numeric)`. */
  readonly identity: string;
  /** Statements that create the same object. Names are qualified. */
  readonly definition: readonly string[];
};

export type DesiredStatement = {
  readonly kind: StatementKind;
  readonly schema: string;
  readonly name: string;
  readonly model: StatementModel;
  readonly at: string;
  /** Null before normalisation. */
  readonly normal: StatementForm | null;
};

export type LiveStatement = StatementForm & {
  readonly kind: StatementKind;
  /** Catalog and oid: `pg_proc/16401`. */
  readonly address: string;
  readonly schema: string;
  readonly name: string;
  readonly comment: string | null;
  /** Another object depends on it. */
  readonly used: boolean;
  /** Roles with EXECUTE on an aggregate, without the owner. May contain `public`. */
  readonly callers: readonly string[];
  /** `schema.name` of the table or view of a rule or of statistics. */
  readonly host: string | null;
  /** Reason why a file cannot declare the object, or null. */
  readonly unsupported: string | null;
};

export function toStatementModel({
  name: label,
  create,
  alter,
  execute = [],
  comment,
}: Statement): StatementModel {
  return {
    ...parseHead(create),
    create: stripTerminator(create),
    alter: alter.map(stripTerminator),
    execute: execute.toSorted(),
    comment: comment ?? null,
    label,
    at: `statements.${label}`,
  };
}

export function toDesiredStatement(model: StatementModel): DesiredStatement {
  const { kind, schema, name, at } = model;
  return { kind, schema, name, model, at, normal: null };
}

export function declaredStatements({
  statements = [],
}: {
  readonly statements?: readonly StatementModel[];
}): readonly StatementModel[] {
  return statements;
}

/** Returns the key of a statement in the migration state and in sets of changed declarations. */
export function statementKey({ label }: Pick<StatementModel, 'label'>): string {
  return `statement ${label}`;
}

/** Sorts statements in the order of creation. Statements of the same kind keep their order. */
export function sortByKind<S extends { readonly kind: StatementKind }>(statements: readonly S[]): S[] {
  return statements.toSorted((a, b) => STATEMENT_KINDS.indexOf(a.kind) - STATEMENT_KINDS.indexOf(b.kind));
}

/** Returns the names of a range type and of its multirange type. */
export function rangeTypeNames({ name, model }: Pick<DesiredStatement, 'name' | 'model'>): string[] {
  return model.multirange === undefined ? [name] : [name, model.multirange];
}

/** Returns whether expressions can use the object without naming it, which is true for operators and casts. */
export function isUsedWithoutName({ kind }: { readonly kind: StatementKind }): boolean {
  return kind === 'operator' || kind === 'cast';
}

/** Returns the words of the statements, such as the functions that must be created first. */
export function statementWords(
  statements: ReadonlyArray<Pick<StatementModel, 'create' | 'alter'>>,
): Set<string> {
  return new Set(
    statements.flatMap(({ create, alter }) => [create, ...alter].flatMap((text) => [...sqlWords(text)])),
  );
}

export function isStatementForm(value: unknown): value is StatementForm {
  return typeof value === 'object' && value !== null && 'identity' in value && 'definition' in value;
}

export function sameForm(a: StatementForm, b: StatementForm): boolean {
  return a.identity === b.identity && a.definition.join('\n') === b.definition.join('\n');
}

function stripTerminator(text: string): string {
  return text.replace(/[\s;]+$/, '');
}

type Head = Pick<StatementModel, 'kind' | 'schema' | 'name' | 'host' | 'multirange'>;

/** Parses the beginning of a CREATE statement. The configuration has checked its kind. */
function parseHead(create: string): Head {
  const words = new Words(create);
  words.skip('create');
  if (words.skip('or')) words.skip('replace');
  const kind = STATEMENT_KINDS.find((candidate) => words.skip(...candidate.split(' ')));
  if (kind === undefined) throw new Error(`not a statement that svc keeps: ${create}`);
  if (words.skip('if')) words.skip('not', 'exists');
  if (kind === 'cast') return { kind, schema: '', name: '', host: null };
  if (kind === 'operator') return { kind, ...words.operator(), host: null };
  const named = words.name();
  if (kind === 'rule') {
    const host = words.nameAfterOuter('to');
    return { kind, schema: host.schema, name: named.name, host };
  }
  if (kind === 'type') return { kind, ...named, host: null, multirange: multirangeName(named.name, words) };
  return { kind, ...named, host: kind === 'statistics' ? words.nameAfterOuter('from') : null };
}

/** Returns the name in the statement, or the default name of PostgreSQL. */
function multirangeName(name: string, words: Words): string {
  const declared = words.nameAfter('multirange_type_name', '=');
  if (declared.name !== '') return declared.name;
  return name.includes('range') ? name.replace('range', 'multirange') : `${name}_multirange`;
}

/** Reads the tokens of a statement from left to right. */
class Words {
  readonly #tokens: readonly Token[];
  #at = 0;

  constructor(text: string) {
    this.#tokens = scanSql(text).tokens.filter(({ kind }) => kind !== 'space' && kind !== 'comment');
  }

  /** Skips these words if they come next. Returns whether they did. */
  skip(...words: readonly string[]): boolean {
    if (!words.every((word, n) => this.#tokens[this.#at + n]?.text.toLowerCase() === word)) return false;
    this.#at += words.length;
    return true;
  }

  name(): { schema: string; name: string } {
    const first = this.#one();
    return this.skip('.') ? { schema: first, name: this.#one() } : { schema: 'public', name: first };
  }

  operator(): { schema: string; name: string } {
    const isQualified = this.#tokens[this.#at + 1]?.text === '.';
    const schema = isQualified ? this.#one() : 'public';
    if (isQualified) this.skip('.');
    let name = '';
    while (this.#at < this.#tokens.length && this.#tokens[this.#at]?.text !== '(') name += this.#one();
    return { schema, name };
  }

  /** Returns the name after these words, or an empty name if they do not occur. */
  nameAfter(...words: readonly string[]): { schema: string; name: string } {
    for (; this.#at < this.#tokens.length; this.#at += 1) if (this.skip(...words)) return this.name();
    return { schema: 'public', name: '' };
  }

  /** Returns the name after a word outside of parentheses, or an empty name. */
  nameAfterOuter(word: string): { schema: string; name: string } {
    for (let depth = 0; this.#at < this.#tokens.length; this.#at += 1) {
      if (depth === 0 && this.skip(word)) return this.name();
      const { text = '' } = this.#tokens[this.#at] ?? {};
      if (text === '(') depth += 1;
      if (text === ')') depth -= 1;
    }
    return { schema: 'public', name: '' };
  }

  #one(): string {
    const token = this.#tokens[this.#at];
    this.#at += 1;
    if (token?.kind === 'quoted') return token.text.slice(1, -1).replaceAll('""', '"');
    return token?.text.toLowerCase() ?? '';
  }
}
