// What the file makes by statements, because no key says it: aggregates, extended statistics, range types, rules, operators,
// casts, collations, text search configurations and dictionaries. All kinds are treated alike. The server reads the text, and
// what counts from there on is its identity and its print: it is made from the print, compared with it and pulled as it.
import type { Statement } from '../../config/config.ts';
import { wordsOf, scanSql, type Token } from '../../lib/sql/sql-text.ts';

/** As `pg_identify_object` calls them, but for `statistics`; as DROP and COMMENT do. In the order in which they are made. */
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
 * When they are made: what tables are made of before these; what calls functions after them, and before what may call it;
 * what nothing depends on last.
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

export function phaseOf({ kind }: { readonly kind: StatementKind }): StatementPhase {
  return PHASES[kind];
}

export type StatementModel = {
  readonly kind: StatementKind;
  /** Empty: a cast is in none. */
  readonly schema: string;
  /** Of an operator, its signs; of a cast, empty. */
  readonly name: string;
  /** The table or view that a rule or statistics are of. */
  readonly host: { readonly schema: string; readonly name: string } | null;
  /** Of a range type: the type of its ranges of ranges, which comes with it. */
  readonly multirange?: string;
  readonly create: string;
  /** What completes it. */
  readonly alter: readonly string[];
  /** Of an aggregate: who may run it. */
  readonly execute: readonly string[];
  readonly comment: string | null;
  /** In the file. */
  readonly label: string;
  readonly at: string;
};

/** What the server made of a statement. */
export type StatementForm = {
  /** `aggregate public.product(numeric)`: as DROP and COMMENT name it. */
  readonly identity: string;
  /** Statements that make the same, each name in them with its schema. */
  readonly definition: readonly string[];
};

export type DesiredStatement = {
  readonly kind: StatementKind;
  readonly schema: string;
  readonly name: string;
  readonly model: StatementModel;
  readonly at: string;
  /** Null until the server has read it. */
  readonly normal: StatementForm | null;
};

export type LiveStatement = StatementForm & {
  readonly kind: StatementKind;
  /** `pg_proc/16401`. */
  readonly address: string;
  readonly schema: string;
  readonly name: string;
  readonly comment: string | null;
  /** Something depends on it. */
  readonly used: boolean;
  /** Roles that may run an aggregate, the owner aside; `public` among them. */
  readonly callers: readonly string[];
  /** `schema.name` of the table or view that a rule or statistics are of. */
  readonly host: string | null;
  /** Why no file can say it, or null. */
  readonly beyond: string | null;
};

export function toStatementModel({
  name: label,
  create,
  alter,
  execute = [],
  comment,
}: Statement): StatementModel {
  return {
    ...read(create),
    create: withoutEnd(create),
    alter: alter.map(withoutEnd),
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

export function statementsOf({
  statements = [],
}: {
  readonly statements?: readonly StatementModel[];
}): readonly StatementModel[] {
  return statements;
}

/** In the migration state, and among what a run reads anew. */
export function statementKey({ label }: Pick<StatementModel, 'label'>): string {
  return `statement ${label}`;
}

/** The order in which they can be made. Of one kind, as the file has them. */
export function inOrderOfKinds<S extends { readonly kind: StatementKind }>(statements: readonly S[]): S[] {
  return statements.toSorted((a, b) => STATEMENT_KINDS.indexOf(a.kind) - STATEMENT_KINDS.indexOf(b.kind));
}

/** Of a range type, and of the type of its ranges of ranges. */
export function namesOfRange({ name, model }: Pick<DesiredStatement, 'name' | 'model'>): string[] {
  return model.multirange === undefined ? [name] : [name, model.multirange];
}

/** What the file makes of operators and casts has no word by which an expression could be seen to use it. */
export function isUnnamed({ kind }: { readonly kind: StatementKind }): boolean {
  return kind === 'operator' || kind === 'cast';
}

/** Words that statements name, such as functions that must be there first. */
export function wordsOfStatements(
  statements: ReadonlyArray<Pick<StatementModel, 'create' | 'alter'>>,
): Set<string> {
  return new Set(
    statements.flatMap(({ create, alter }) => [create, ...alter].flatMap((text) => [...wordsOf(text)])),
  );
}

export function isStatementForm(value: unknown): value is StatementForm {
  return typeof value === 'object' && value !== null && 'identity' in value && 'definition' in value;
}

export function sameForm(a: StatementForm, b: StatementForm): boolean {
  return a.identity === b.identity && a.definition.join('\n') === b.definition.join('\n');
}

function withoutEnd(text: string): string {
  return text.replace(/[\s;]+$/, '');
}

type Head = Pick<StatementModel, 'kind' | 'schema' | 'name' | 'host' | 'multirange'>;

/** That it begins like this the configuration has checked. */
function read(create: string): Head {
  const words = new Words(create);
  words.skip('create');
  if (words.skip('or')) words.skip('replace');
  const kind = STATEMENT_KINDS.find((one) => words.skip(...one.split(' ')));
  if (kind === undefined) throw new Error(`not a statement that svc keeps: ${create}`);
  if (words.skip('if')) words.skip('not', 'exists');
  if (kind === 'cast') return { kind, schema: '', name: '', host: null };
  if (kind === 'operator') return { kind, ...words.operator(), host: null };
  const named = words.name();
  if (kind === 'rule') {
    const host = words.nameAfterOuter('to');
    return { kind, schema: host.schema, name: named.name, host };
  }
  if (kind === 'type') return { kind, ...named, host: null, multirange: multirangeOf(named.name, words) };
  return { kind, ...named, host: kind === 'statistics' ? words.nameAfterOuter('from') : null };
}

/** Unless the statement names it, as PostgreSQL names it. */
function multirangeOf(name: string, words: Words): string {
  const said = words.nameAfter('multirange_type_name', '=');
  if (said.name !== '') return said.name;
  return name.includes('range') ? name.replace('range', 'multirange') : `${name}_multirange`;
}

/** The words of a statement, one after the other. */
class Words {
  readonly #tokens: readonly Token[];
  #at = 0;

  constructor(text: string) {
    this.#tokens = scanSql(text).tokens.filter(({ kind }) => kind !== 'space' && kind !== 'comment');
  }

  /** Whether these come next; then they are passed. */
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

  /** The one after these words; no name where they do not come. */
  nameAfter(...words: readonly string[]): { schema: string; name: string } {
    for (; this.#at < this.#tokens.length; this.#at += 1) if (this.skip(...words)) return this.name();
    return { schema: 'public', name: '' };
  }

  /** That of the words outside of brackets. */
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
