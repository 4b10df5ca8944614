// Says the steps that build one new table in as few statements as the server allows: its columns, defaults, keys,
// checks and backward references in one CREATE TABLE, what is left of its references in one ALTER TABLE, the grants of
// many tables in one GRANT. The plan keeps its grain; only what is sent gets shorter. Pure.
import { grantTablesSql } from '../plan/access.ts';
import type { NumberedStep, TablePart } from '../plan/step.ts';
import { wordsOf } from '../schema/sql-text.ts';

/** Statements sent as one, and the steps they do; run singly, in order, the steps do the same. */
export type Folded = { readonly sql: string; readonly steps: readonly NumberedStep[] };

type Draft = {
  readonly steps: NumberedStep[];
  readonly write: () => string;
};

export function fold(steps: readonly NumberedStep[]): Folded[] {
  const folder = new Folder(steps);
  for (const one of steps) folder.take(one);
  return folder.drafts.map((draft) => ({ sql: draft.write(), steps: draft.steps }));
}

type NewTable = {
  readonly draft: Draft;
  /** Which of the new tables it is, in the order in which they are made. */
  readonly number: number;
  readonly defaults: Map<string, string>;
  readonly constraints: string[];
};

/** Tables in one GRANT. */
const GRANT_WIDTH = 100;

class Folder {
  readonly drafts: Draft[] = [];
  readonly #tables = new Map<string, NewTable>();
  readonly #alters = new Map<string, { readonly draft: Draft; readonly constraints: string[] }>();
  #grant: { readonly draft: Draft; readonly tables: string[] } | null = null;
  /** Functions this very run makes: what calls one cannot be said before it is there. */
  readonly #functions: ReadonlySet<string>;

  constructor(steps: readonly NumberedStep[]) {
    this.#functions = new Set(
      steps.flatMap(({ step }) => (step.part?.kind === 'function' ? [step.part.name] : [])),
    );
  }

  take(one: NumberedStep): void {
    const { part } = one.step;
    if (part?.kind !== 'grant') this.#grant = null;
    if (part === undefined || !this.#foldIn(one, part)) {
      this.drafts.push({ steps: [one], write: () => one.step.sql });
    }
  }

  #foldIn(one: NumberedStep, part: TablePart): boolean {
    switch (part.kind) {
      case 'table':
        return this.#createTable(one, part);
      case 'default': {
        const table = this.#tables.get(part.table);
        if (!table || this.#callsNew(part.sql)) return false;
        table.defaults.set(part.column, part.sql);
        table.draft.steps.push(one);
        return true;
      }
      case 'key':
      case 'check': {
        const table = this.#tables.get(part.table);
        if (!table || (part.kind === 'check' && this.#callsNew(part.sql))) return false;
        table.constraints.push(part.sql);
        table.draft.steps.push(one);
        return true;
      }
      case 'reference':
        return this.#reference(one, part);
      case 'grant':
        return this.#grantTable(one, part.table);
      case 'function':
        return false;
    }
  }

  #createTable(one: NumberedStep, part: Extract<TablePart, { kind: 'table' }>): boolean {
    const defaults = new Map<string, string>();
    const constraints: string[] = [];
    const write = (): string => {
      const columns = part.columns.map(({ name, sql, notNull }) => {
        const value = defaults.get(name);
        return `${sql}${value === undefined ? '' : ` default ${value}`}${notNull ? ' not null' : ''}`;
      });
      return `create table ${part.table} (${[...columns, ...constraints].join(', ')})`;
    };
    const draft = { steps: [one], write };
    this.drafts.push(draft);
    this.#tables.set(part.table, { draft, number: this.#tables.size, defaults, constraints });
    return true;
  }

  // Said within CREATE TABLE, a reference needs no look at the rows; its target must be there by then.
  #reference(one: NumberedStep, part: Extract<TablePart, { kind: 'reference' }>): boolean {
    const table = this.#tables.get(part.table);
    if (!table) return false;
    const target = this.#tables.get(part.target);
    if (target && target.number <= table.number) {
      table.constraints.push(part.sql);
      table.draft.steps.push(one);
      return true;
    }
    const alter = this.#alters.get(part.table);
    if (alter) {
      alter.constraints.push(part.sql);
      alter.draft.steps.push(one);
      return true;
    }
    const constraints = [part.sql];
    const write = (): string =>
      `alter table ${part.table} ${constraints.map((constraint) => `add ${constraint}`).join(', ')}`;
    const draft = { steps: [one], write };
    this.drafts.push(draft);
    this.#alters.set(part.table, { draft, constraints });
    return true;
  }

  #grantTable(one: NumberedStep, table: string): boolean {
    if (this.#grant && this.#grant.tables.length < GRANT_WIDTH) {
      this.#grant.tables.push(table);
      this.#grant.draft.steps.push(one);
      return true;
    }
    const tables = [table];
    const draft = { steps: [one], write: () => grantTablesSql(tables) };
    this.drafts.push(draft);
    this.#grant = { draft, tables };
    return true;
  }

  #callsNew(text: string): boolean {
    if (this.#functions.size === 0) return false;
    for (const word of wordsOf(text)) if (this.#functions.has(word)) return true;
    return false;
  }
}
