// Views as the file declares them and as the database has them. A view is always made from the server's print of its
// query, never from the text of the file: `select *` would show retired columns too.
import type { DesiredIndex, LiveIndex } from './indexes.ts';
import { quoteIdent } from '../../postgres/sql.ts';
import { transientLabel } from './label.ts';
import { API_ROLES } from './rights/roles.ts';
import { keyOf, nameOf, type ViewModel } from './model.ts';
import { indexBodySql } from './sql/index-sql.ts';
import type { DesiredTrigger, LiveTrigger } from './triggers.ts';
import { wordsOf } from '../../lib/sql/sql-text.ts';

export type DesiredView = {
  readonly schema: string;
  readonly name: string;
  readonly model: ViewModel;
  readonly indexes: readonly DesiredIndex[];
  readonly triggers: readonly DesiredTrigger[];
  readonly at: string;
  /** Null until the server has read it. */
  readonly normal: ViewForm | null;
};

/** A query as the server prints it, with what it yields and what it reads. */
export type ViewForm = {
  readonly definition: string;
  readonly columns: readonly ViewColumn[];
  /** Tables and views, as `schema.name`. */
  readonly reads: readonly string[];
  /** The prints of its indexes from USING on, in the order of the declaration; absent without any. */
  readonly indexes?: readonly string[];
  /** The prints of its triggers, likewise. */
  readonly triggers?: readonly string[];
};

export type ViewColumn = { readonly name: string; readonly type: string; readonly collation: string | null };

export type LiveView = Omit<ViewForm, 'indexes' | 'triggers'> & {
  readonly oid: string;
  readonly schema: string;
  readonly name: string;
  /** Without `security_invoker`: it reads with its owner's rights. */
  readonly definer: boolean;
  readonly materialized: boolean;
  /** False: it has no rows yet, and reading it is an error. */
  readonly populated: boolean;
  readonly bytes: number;
  readonly indexes: readonly LiveIndex[];
  readonly barrier: boolean;
  readonly checkOption: 'local' | 'cascaded' | null;
  readonly comment: string | null;
  /** By column. */
  readonly columnComments: Readonly<Record<string, string>>;
  /** Of the four that rows know: by role, the owner left out; sorted, in capitals. */
  readonly grants: Readonly<Record<string, readonly string[]>>;
  readonly triggers: readonly LiveTrigger[];
};

const EVERYTHING = ['DELETE', 'INSERT', 'SELECT', 'UPDATE'];

/** By role, sorted and in capitals, as `LiveView.grants` are: of the roles that the file has a say about. */
export function grantsOf({
  definer,
  materialized,
  exposed,
  grants,
}: Pick<ViewModel, 'definer' | 'exposed' | 'grants'> & { readonly materialized?: boolean }): Map<
  string,
  readonly string[]
> {
  // What only the owner's rights protect is for those that the file names.
  const callers = materialized || (definer && !exposed) ? [] : ['SELECT'];
  const everything = materialized ? ['SELECT'] : EVERYTHING;
  return new Map([
    ...API_ROLES.map((role) => [role, role === 'service_role' ? everything : callers] as const),
    ...Object.entries(grants ?? {}).map(
      ([role, privileges]) => [role, privileges.map((one) => one.toUpperCase()).sort()] as const,
    ),
  ]);
}

/** Whether a caller of the API may read what has these grants. */
export function isOpen(grants: ReadonlyMap<string, readonly string[]>): boolean {
  return [PUBLIC_GRANTEE, 'anon', 'authenticated'].some((role) => (grants.get(role) ?? []).length > 0);
}

/** How `LiveView.grants` names PUBLIC. */
export const PUBLIC_GRANTEE = 'public';

/** `create view … as …`, all options written: a replaced view loses those that are not. */
export function createViewSql(view: DesiredView, query: string, replace = false): string {
  const { definer, barrier, checkOption } = view.model;
  const options = [
    `security_invoker = ${!definer}`,
    ...(barrier ? ['security_barrier = true'] : []),
    ...(checkOption === undefined ? [] : [`check_option = ${checkOption}`]),
  ];
  return `create ${replace ? 'or replace ' : ''}view ${nameOf(view)} with (${options.join(', ')}) as\n${query}\n`;
}

/** Under `name`, without its indexes. */
export function createMaterializedSql(view: DesiredView, name: string, withData: boolean): string {
  const query = view.normal?.definition ?? '';
  return `create materialized view ${nameOf({ schema: view.schema, name })} as\n${query}\nwith ${withData ? '' : 'no '}data`;
}

/** `on`: the name of the view; `label`: that of the index. */
export function createViewIndexSql(
  view: DesiredView,
  index: DesiredIndex,
  on: string,
  label: string,
): string {
  const where = index.predicate === null ? '' : ` where (\n${index.predicate.sql}\n)`;
  const target = nameOf({ schema: view.schema, name: on });
  return `create ${index.unique ? 'unique ' : ''}index ${quoteIdent(label)} on ${target} ${indexBodySql(index.model)}${where}`;
}

/** The name of the one that is filled beside the view whose name it gets, and of its indexes. */
export function besideOf(view: Pick<DesiredView, 'schema' | 'name'>): string {
  return transientLabel('n', `view ${keyOf(view)}`);
}

export function indexBeside(view: Pick<DesiredView, 'schema' | 'name'>, label: string): string {
  return transientLabel('i', `view ${keyOf(view)} ${label}`);
}

/** CREATE OR REPLACE can only append columns. */
export function isReplaceable(view: Pick<ViewForm, 'columns'>, live: Pick<ViewForm, 'columns'>): boolean {
  return live.columns.every((column, n) => {
    const wanted = view.columns[n];
    return (
      wanted?.name === column.name && wanted.type === column.type && wanted.collation === column.collation
    );
  });
}

/** Those that others name first; by words, for views that the server has not read yet. */
export function namedFirst(views: readonly DesiredView[]): DesiredView[] {
  const words = new Map(views.map((view) => [view, wordsOf(view.model.query)]));
  return inOrder(views, (view) =>
    views.filter((other) => other !== view && words.get(view)?.has(other.name.toLowerCase())),
  );
}

/** Those that others read first. */
export function readFirst(views: readonly DesiredView[]): DesiredView[] {
  const byKey = new Map(views.map((view) => [keyOf(view), view]));
  return inOrder(views, ({ normal }) => (normal?.reads ?? []).flatMap((key) => byKey.get(key) ?? []));
}

/** Each after those that it needs. */
export function inOrder<V>(views: readonly V[], needsOf: (view: V) => readonly V[]): V[] {
  const ordered = new Set<V>();
  const begun = new Set<V>();
  const place = (view: V): void => {
    if (begun.has(view)) return;
    begun.add(view);
    needsOf(view).forEach(place);
    ordered.add(view);
  };
  views.forEach(place);
  return [...ordered];
}

/** Grants of one role, exactly these. */
export function grantViewSql(name: string, role: string, privileges: readonly string[]): string {
  const to = role === PUBLIC_GRANTEE ? role : quoteIdent(role);
  const revoke = `revoke all on ${name} from ${to}`;
  return privileges.length === 0
    ? revoke
    : `${revoke}; grant ${privileges.join(', ').toLowerCase()} on ${name} to ${to}`;
}
