// What a view must not do: read what left the file, take the name of something that is kept, lose what hangs on it, or
// show callers rows that policies keep from them without anybody having allowed it.
import type { Queryable } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import type { Change } from '../diff/change.ts';
import { isOpenView, reachOf } from '../diff/views.ts';
import type { HazardPolicy } from '../plan/hazard-policy.ts';
import { isAllowed } from '../plan/hazard-policy.ts';
import type { LongFillings } from '../plan/materialized.ts';
import { type MigrationProblem, problem } from '../problem.ts';
import type { Desired } from '../schema/desired.ts';
import type { Live } from '../schema/live/live-schema.ts';
import { type Ownership, viewTriggerKey } from '../schema/managed.ts';
import { keyOf, type SchemaModel, viewsOf } from '../schema/model.ts';
import { isOpen, type ViewForm } from '../schema/views.ts';
import { isViewForm } from '../normalise/normal-forms.ts';
import type { DeclaredRow } from '../state/managed-objects.ts';

export type ViewFindings = {
  readonly problems: readonly MigrationProblem[];
  /** What is open, allowed or not. */
  readonly hints: readonly MigrationProblem[];
};

/** `recorded`: the forms of views out of scope. */
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
  if (viewsOf(model).length === 0) return { problems: [], hints: [] };
  const opened = await findOpened(session, model, desired, live);
  const touched = new Set(
    changes.flatMap((change) =>
      'view' in change && change.kind !== 'comment-view' ? [keyOf(change.view)] : [],
    ),
  );
  return {
    problems: [
      ...readsWhatLeft(model, desired, recorded, owned),
      ...changes.flatMap((change) => inTheWayOf(change, live, owned)),
      ...blocksReaders(fillings, swapped, policy),
      ...opened
        .filter(({ isStored }) => !isStored)
        .filter(({ key, at, isNew }) => isNew && touched.has(key) && !isAllowed(policy, 'authz_open', at))
        .map(({ at, tables }) =>
          problem(
            'MIG-303',
            `${at}.security`,
            `security: definer would show rows of ${tables.join(', ')} past row-level security to every key holder`,
            `Remove security: definer, write expose: false, or allow it by name: --allow authz_open=${at}`,
          ),
        ),
    ],
    hints: opened.map(({ at, tables, isStored }) =>
      problem(
        'MIG-303',
        isStored ? `${at}.grants` : `${at}.security`,
        `callers see rows of ${tables.join(', ')} through this view past row-level security`,
        isStored
          ? 'No policy binds the rows of a materialized view: every role that it is granted to sees all of them.'
          : 'Policies bind the callers of a view only with security: invoker.',
      ),
    ),
  };
}

/** The database still has it, so the server would find it. */
function readsWhatLeft(
  model: SchemaModel,
  desired: Desired,
  recorded: ReadonlyMap<string, DeclaredRow>,
  owned: Ownership,
): MigrationProblem[] {
  const inScope = new Map(desired.views.map((view) => [keyOf(view), view.normal]));
  const formOf = (key: string): ViewForm | null => {
    const stored = recorded.get(`view ${key}`)?.normalForms;
    return inScope.get(key) ?? (isViewForm(stored) ? stored : null);
  };
  const declared = new Set([...model.tables, ...viewsOf(model)].map(keyOf));
  const isGone = (key: string): boolean =>
    !declared.has(key) && (owned.tables.has(key) || owned.retiredTables.has(key) || owned.views.has(key));
  return viewsOf(model).flatMap((view) =>
    (formOf(keyOf(view))?.reads ?? [])
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

/** What it reads changes under it: it is filled anew in the transaction of that change. */
function blocksReaders(
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
        `what the materialized view ${name} reads changes under it, and filling it again would hold its readers for about ${Math.ceil(ms / 1_000)} s`,
        `Run it in a quiet hour with --allow rewrite=${at}`,
      ),
    ];
  });
}

function inTheWayOf(change: Change, live: Live, owned: Ownership): MigrationProblem[] {
  if (change.kind === 'create-view' && live.tables.has(keyOf(change.view))) {
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
    change.view.triggers.some((one) => one.label === label) ||
    owned.viewTriggers?.has(viewTriggerKey(keyOf(change.live), label)) === true;
  const lost = change.live.triggers.flatMap(({ label }) => (isOurs(label) ? [] : [`trigger ${label}`]));
  if (lost.length === 0) return [];
  return [
    problem(
      'MIG-304',
      change.view.at,
      `the view must be made again, and ${lost.join(', ')} would be lost with it`,
      'Drop it first and create it again afterwards.',
    ),
  ];
}

type Opened = {
  readonly key: string;
  readonly at: string;
  readonly tables: readonly string[];
  /** A materialized view: the file names who reads it. */
  readonly isStored: boolean;
  /** It was not so before. */
  readonly isNew: boolean;
};

async function findOpened(
  session: Queryable,
  model: SchemaModel,
  desired: Desired,
  live: Live,
): Promise<Opened[]> {
  const wanted = new Map(
    desired.views.map((view) => [
      keyOf(view),
      {
        definer: view.model.definer,
        materialized: view.model.materialized ?? false,
        reads: view.normal?.reads ?? [],
      },
    ]),
  );
  const definers = [...wanted.values(), ...live.views.values()].filter(({ definer }) => definer);
  const secured = await readSecured(session, model, [...new Set(definers.flatMap(({ reads }) => reads))]);
  const isSecured = (key: string): boolean => secured.has(key);
  return desired.views.flatMap((view): Opened[] => {
    if (!isOpenView(view)) return [];
    const key = keyOf(view);
    const tables = [...reachOf(key, wanted, isSecured)].sort();
    if (tables.length === 0) return [];
    const found = live.views.get(key);
    const wasOpen = found !== undefined && isOpen(new Map(Object.entries(found.grants)));
    const before = wasOpen ? reachOf(key, live.views, isSecured) : new Set<string>();
    const isStored = view.model.materialized === true;
    return [{ key, at: view.at, tables, isStored, isNew: tables.some((table) => !before.has(table)) }];
  });
}

/** Of these relations, those of which a caller may not simply read every row. */
async function readSecured(
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
  const declared = new Map(model.tables.map((table) => [keyOf(table), table]));
  return new Set(
    keys.filter((key) => {
      const table = declared.get(key);
      const row = found.get(key);
      if (table !== undefined && typeof table.rls !== 'string') return true;
      // One that the file leaves open may still be closed in the database.
      if (table?.rls === 'off' || row === undefined) return false;
      return !row.readable || (table === undefined && row.secured);
    }),
  );
}
