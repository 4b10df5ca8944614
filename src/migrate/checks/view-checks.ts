// Checks views: they must not read removed relations, use the name of a table, lose undeclared triggers when they are
// recreated, or bypass row-level security without permission.
import type { Queryable } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import type { Change } from '../diff/change.ts';
import { isOpenView, findBypassedTables } from '../diff/views.ts';
import type { HazardPolicy } from '../plan/hazard-policy.ts';
import { isAllowed } from '../plan/hazard-policy.ts';
import type { LongFillings } from '../plan/materialized.ts';
import { type MigrationProblem, problem } from '../problem.ts';
import type { Desired } from '../schema/desired.ts';
import type { Live } from '../schema/live/live-schema.ts';
import { type Ownership, viewTriggerKey } from '../schema/managed.ts';
import { objectKey, type SchemaModel, declaredViews } from '../schema/model.ts';
import { API_CALLERS, isOpen, viewGrants, type ViewForm } from '../schema/views.ts';
import { isViewForm } from '../normalise/normal-forms.ts';
import type { DeclaredRow } from '../state/managed-objects.ts';

export type ViewFindings = {
  readonly problems: readonly MigrationProblem[];
  /** Views that bypass row-level security, whether allowed or not. */
  readonly hints: readonly MigrationProblem[];
};

/** `recorded`: stored normal forms of views outside of the scope. */
export async function checkViews(
  session: Queryable,
  model: SchemaModel,
  {
    desired,
    live,
    owned,
    recorded,
    changes,
    fillings,
    swapped,
  }: {
    readonly recorded: ReadonlyMap<string, DeclaredRow>;
    readonly desired: Desired;
    readonly live: Live;
    readonly owned: Ownership;
    readonly changes: readonly Change[];
    readonly fillings: LongFillings;
    readonly swapped: ReadonlySet<Change>;
  },
  policy: HazardPolicy,
): Promise<ViewFindings> {
  if (declaredViews(model).length === 0) return { problems: [], hints: [] };
  const opened = await findOpenViews(session, model, desired, live);
  const touched = new Set(
    changes.flatMap((change) =>
      'view' in change && change.kind !== 'comment-view' ? [objectKey(change.view)] : [],
    ),
  );
  return {
    problems: [
      ...findRemovedSources(model, desired, recorded, owned),
      ...changes.flatMap((change) => findBlockers(change, live, owned)),
      ...findBlockedReaders(fillings, swapped, policy),
      ...opened
        .filter(({ isStored }) => !isStored)
        .filter(({ key, at, isNew }) => isNew && touched.has(key) && !isAllowed(policy, 'authz_open', at))
        .map(({ at, tables, access }) =>
          problem(
            'MIG-303',
            `${at}.security`,
            `security: definer would bypass the row-level security of ${tables.join(', ')} for ${access}`,
            `Remove security: definer, set expose: false, or allow it by name: --allow authz_open=${at}`,
          ),
        ),
    ],
    hints: opened.map(({ at, tables, access, isStored }) =>
      problem(
        'MIG-303',
        isStored ? `${at}.grants` : `${at}.security`,
        `the view bypasses the row-level security of ${tables.join(', ')} for ${access}`,
        isStored
          ? 'Policies do not apply to the rows of a materialized view: every role with SELECT sees all of them.'
          : 'Policies apply to the callers of a view only with security: invoker.',
      ),
    ),
  };
}

/** Reports views that read a relation which left the file. It still exists in the database, so the server finds it. */
function findRemovedSources(
  model: SchemaModel,
  desired: Desired,
  recorded: ReadonlyMap<string, DeclaredRow>,
  owned: Ownership,
): MigrationProblem[] {
  const inScope = new Map(desired.views.map((view) => [objectKey(view), view.normal]));
  const findForm = (key: string): ViewForm | null => {
    const stored = recorded.get(`view ${key}`)?.normalForms;
    return inScope.get(key) ?? (isViewForm(stored) ? stored : null);
  };
  const declared = new Set([...model.tables, ...declaredViews(model)].map(objectKey));
  const isGone = (key: string): boolean =>
    !declared.has(key) && (owned.tables.has(key) || owned.retiredTables.has(key) || owned.views.has(key));
  return declaredViews(model).flatMap((view) =>
    (findForm(objectKey(view))?.reads ?? [])
      .filter(isGone)
      .map((key) =>
        problem(
          'MIG-304',
          `${view.at}.query`,
          `it reads ${key.replace(/^public\./, '')}, which was removed from the file`,
          'Remove the view too, or put back what it reads.',
        ),
      ),
  );
}

/** Reports materialized views that are refilled in the transaction of a change, which blocks their readers. */
function findBlockedReaders(
  fillings: LongFillings,
  swapped: ReadonlySet<Change>,
  policy: HazardPolicy,
): MigrationProblem[] {
  return [...fillings].flatMap(([change, ms]) => {
    if (change.kind !== 'recreate-view' || swapped.has(change)) return [];
    const { at, name } = change.view;
    if (isAllowed(policy, 'rewrite', at)) return [];
    return [
      problem(
        'MIG-301',
        at,
        `a relation that the materialized view ${name} reads changes, and refilling the view ` +
          `would block its readers for about ${Math.ceil(ms / 1_000)} s`,
        `Run it in a quiet hour with --allow rewrite=${at}`,
      ),
    ];
  });
}

function findBlockers(change: Change, live: Live, owned: Ownership): MigrationProblem[] {
  if (change.kind === 'create-view' && live.tables.has(objectKey(change.view))) {
    const { name, at } = change.view;
    return [
      problem(
        'MIG-304',
        at,
        `the database has a table ${name}`,
        `Give the view another name; if the table was retired, svc migrate prune tables.${name} drops it.`,
      ),
    ];
  }
  if (change.kind !== 'recreate-view') return [];
  const isOurs = (label: string): boolean =>
    change.view.triggers.some((trigger) => trigger.label === label) ||
    owned.viewTriggers?.has(viewTriggerKey(objectKey(change.live), label)) === true;
  const lost = change.live.triggers.flatMap(({ label }) => (isOurs(label) ? [] : [`trigger ${label}`]));
  if (lost.length === 0) return [];
  return [
    problem(
      'MIG-304',
      change.view.at,
      `the view must be recreated, which would drop ${lost.join(', ')}`,
      'Drop it first and create it again afterwards.',
    ),
  ];
}

type OpenView = {
  readonly key: string;
  readonly at: string;
  readonly tables: readonly string[];
  /** API roles with their privileges on the view. A view that PostgreSQL can write through also changes rows. */
  readonly access: string;
  /** True for a materialized view. Its grants determine which roles read it. */
  readonly isStored: boolean;
  /** True if the live view does not bypass the row-level security of all these tables. */
  readonly isNew: boolean;
};

async function findOpenViews(
  session: Queryable,
  model: SchemaModel,
  desired: Desired,
  live: Live,
): Promise<OpenView[]> {
  const desiredViews = new Map(
    desired.views.map((view) => [
      objectKey(view),
      {
        definer: view.model.definer,
        materialized: view.model.materialized ?? false,
        reads: view.normal?.reads ?? [],
      },
    ]),
  );
  const definers = [...desiredViews.values(), ...live.views.values()].filter(({ definer }) => definer);
  const secured = await readRestricted(session, model, [...new Set(definers.flatMap(({ reads }) => reads))]);
  const isSecured = (key: string): boolean => secured.has(key);
  return desired.views.flatMap((view): OpenView[] => {
    if (!isOpenView(view)) return [];
    const key = objectKey(view);
    const tables = [...findBypassedTables(key, desiredViews, isSecured)].sort();
    if (tables.length === 0) return [];
    const found = live.views.get(key);
    const wasOpen = found !== undefined && isOpen(new Map(Object.entries(found.grants)));
    const before = wasOpen ? findBypassedTables(key, live.views, isSecured) : new Set<string>();
    const isStored = view.model.materialized === true;
    const access = describeAccess(viewGrants(view.model));
    return [
      { key, at: view.at, tables, access, isStored, isNew: tables.some((table) => !before.has(table)) },
    ];
  });
}

/** Returns text such as `anon (select) and authenticated (insert, select)`. */
function describeAccess(grants: ReadonlyMap<string, readonly string[]>): string {
  return API_CALLERS.flatMap((role) => {
    const privileges = grants.get(role) ?? [];
    return privileges.length === 0 ? [] : [`${role} (${privileges.join(', ').toLowerCase()})`];
  }).join(' and ');
}

/** Returns those of the relations of which an API caller cannot read all rows. */
async function readRestricted(
  session: Queryable,
  model: SchemaModel,
  keys: readonly string[],
): Promise<Set<string>> {
  if (keys.length === 0) return new Set();
  const rows = await session.query<{ key: string; secured: boolean; readable: boolean }>(sql`
    select n.nspname || '.' || c.relname as key, c.relrowsecurity as secured,
      has_schema_privilege('anon', n.oid, 'usage') and has_table_privilege('anon', c.oid, 'select') as readable
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname || '.' || c.relname = any (${[...keys]})`);
  const found = new Map(rows.map((row) => [row.key, row]));
  const declared = new Map(model.tables.map((table) => [objectKey(table), table]));
  return new Set(
    keys.filter((key) => {
      const table = declared.get(key);
      const row = found.get(key);
      if (table !== undefined && typeof table.rls !== 'string') return true;
      // The file does not declare `rls` for the relation, but the database may still restrict access to it.
      if (table?.rls === 'off' || row === undefined) return false;
      return !row.readable || (table === undefined && row.secured);
    }),
  );
}
