// Declared and live views, and their SQL. A view is always created from the printed form of its query: with the text of
// the file, `select *` would return retired columns too.
import type { DesiredIndex, LiveIndex } from './indexes.ts';
import { quoteIdent } from '../../postgres/sql.ts';
import { transientLabel } from './label.ts';
import { API_ROLES } from './rights/roles.ts';
import { objectKey, quoteName, type ViewModel } from './model.ts';
import { indexBodySql } from './sql/index-sql.ts';
import type { DesiredTrigger, LiveTrigger } from './triggers.ts';
import { sqlWords } from '../../lib/sql/sql-text.ts';

export type DesiredView = {
  readonly schema: string;
  readonly name: string;
  readonly model: ViewModel;
  readonly indexes: readonly DesiredIndex[];
  readonly triggers: readonly DesiredTrigger[];
  readonly at: string;
  /** Null before normalisation. */
  readonly normal: ViewForm | null;
};

/** Printed form of a view with its columns and the relations that it reads. */
export type ViewForm = {
  readonly definition: string;
  readonly columns: readonly ViewColumn[];
  /** Tables and views as `schema.name`. */
  readonly reads: readonly string[];
  /** Printed indexes, starting at USING, in the order of the declaration. */
  readonly indexes?: readonly string[];
  /** Printed triggers in the order of the declaration. */
  readonly triggers?: readonly string[];
};

export type ViewColumn = { readonly name: string; readonly type: string; readonly collation: string | null };

export type LiveView = Omit<ViewForm, 'indexes' | 'triggers'> & {
  readonly oid: string;
  readonly schema: string;
  readonly name: string;
  /** The view has no `security_invoker` and reads with the privileges of its owner. */
  readonly definer: boolean;
  readonly materialized: boolean;
  /** False for a materialized view that was never filled. Reading it is an error. */
  readonly populated: boolean;
  readonly bytes: number;
  readonly indexes: readonly LiveIndex[];
  readonly barrier: boolean;
  readonly checkOption: 'local' | 'cascaded' | null;
  readonly comment: string | null;
  readonly columnComments: Readonly<Record<string, string>>;
  /** SELECT, INSERT, UPDATE and DELETE privileges by role, without the owner. Sorted, in upper case. */
  readonly grants: Readonly<Record<string, readonly string[]>>;
  readonly triggers: readonly LiveTrigger[];
};

const EVERYTHING = ['DELETE', 'INSERT', 'SELECT', 'UPDATE'];

/**
 * Returns the required privileges of the API roles and of the roles that the file names, in the form of
 * `LiveView.grants`.
 */
export function viewGrants({
  definer,
  materialized,
  exposed,
  grants,
}: Pick<ViewModel, 'definer' | 'exposed' | 'grants'> & { readonly materialized?: boolean }): Map<
  string,
  readonly string[]
> {
  // No row-level security of the caller applies to these views, so API roles need an explicit grant.
  const callers = materialized || (definer && !exposed) ? [] : ['SELECT'];
  const everything = materialized ? ['SELECT'] : EVERYTHING;
  return new Map([
    ...API_ROLES.map((role) => [role, role === 'service_role' ? everything : callers] as const),
    ...Object.entries(grants ?? {}).map(
      ([role, privileges]) => [role, privileges.map((privilege) => privilege.toUpperCase()).sort()] as const,
    ),
  ]);
}

/** Returns whether these grants allow an API caller to access the view. */
export function isOpen(grants: ReadonlyMap<string, readonly string[]>): boolean {
  return API_CALLERS.some((role) => (grants.get(role) ?? []).length > 0);
}

/** Name of PUBLIC in `LiveView.grants`. */
export const PUBLIC_GRANTEE = 'public';
/** Grantees to which row-level security applies. */
export const API_CALLERS = [PUBLIC_GRANTEE, 'anon', 'authenticated'];

/** Returns `create view … as …` with all options, because CREATE OR REPLACE resets omitted options. */
export function createViewSql(view: DesiredView, query: string, replace = false): string {
  const { definer, barrier, checkOption } = view.model;
  const options = [
    `security_invoker = ${!definer}`,
    ...(barrier ? ['security_barrier = true'] : []),
    ...(checkOption === undefined ? [] : [`check_option = ${checkOption}`]),
  ];
  return `create ${replace ? 'or replace ' : ''}view ${quoteName(view)} with (${options.join(', ')}) as\n${query}\n`;
}

/** Returns a statement that creates a materialized view as `name`, without its indexes. */
export function createMaterializedSql(view: DesiredView, name: string, withData: boolean): string {
  const query = view.normal?.definition ?? '';
  return (
    `create materialized view ${quoteName({ schema: view.schema, name })} ` +
    `as\n${query}\nwith ${withData ? '' : 'no '}data`
  );
}

/** `on` is the name of the view, `label` the name of the index. */
export function createViewIndexSql(
  view: DesiredView,
  index: DesiredIndex,
  on: string,
  label: string,
): string {
  const where = index.predicate === null ? '' : ` where (\n${index.predicate.sql}\n)`;
  const target = quoteName({ schema: view.schema, name: on });
  return (
    `create ${index.unique ? 'unique ' : ''}index ${quoteIdent(label)} on ` +
    `${target} ${indexBodySql(index.model)}${where}`
  );
}

/** Returns the name of the materialized view that is filled before it replaces `view`. */
export function shadowViewName(view: Pick<DesiredView, 'schema' | 'name'>): string {
  return transientLabel('n', `view ${objectKey(view)}`);
}

export function shadowIndexName(view: Pick<DesiredView, 'schema' | 'name'>, label: string): string {
  return transientLabel('i', `view ${objectKey(view)} ${label}`);
}

/** Returns whether CREATE OR REPLACE is possible, which can only append columns. */
export function isReplaceable(view: Pick<ViewForm, 'columns'>, live: Pick<ViewForm, 'columns'>): boolean {
  return live.columns.every((column, n) => {
    const wanted = view.columns[n];
    return (
      wanted?.name === column.name && wanted.type === column.type && wanted.collation === column.collation
    );
  });
}

/** Sorts views so that each follows the views whose names occur in its query. Does not need normal forms. */
export function sortByMentions(views: readonly DesiredView[]): DesiredView[] {
  const words = new Map(views.map((view) => [view, sqlWords(view.model.query)]));
  return sortByDependencies(views, (view) =>
    views.filter((candidate) => candidate !== view && words.get(view)?.has(candidate.name.toLowerCase())),
  );
}

/** Sorts views so that each follows the views that it reads. */
export function sortByReads(views: readonly DesiredView[]): DesiredView[] {
  const byKey = new Map(views.map((view) => [objectKey(view), view]));
  return sortByDependencies(views, ({ normal }) =>
    (normal?.reads ?? []).flatMap((key) => byKey.get(key) ?? []),
  );
}

/** Sorts views so that each follows the views that it needs. */
export function sortByDependencies<V>(views: readonly V[], listNeeds: (view: V) => readonly V[]): V[] {
  const ordered = new Set<V>();
  const visited = new Set<V>();
  const place = (view: V): void => {
    if (visited.has(view)) return;
    visited.add(view);
    listNeeds(view).forEach(place);
    ordered.add(view);
  };
  views.forEach(place);
  return [...ordered];
}

/** Returns statements that give a role exactly these privileges. */
export function grantViewSql(name: string, role: string, privileges: readonly string[]): string {
  const to = role === PUBLIC_GRANTEE ? role : quoteIdent(role);
  const revoke = `revoke all on ${name} from ${to}`;
  return privileges.length === 0
    ? revoke
    : `${revoke}; grant ${privileges.join(', ').toLowerCase()} on ${name} to ${to}`;
}
