// Implements `svc refresh`, which refreshes the materialized views of the file.
import type { Config } from '../../config/config.ts';
import { closest } from '../../lib/text/closest-word.ts';
import type { OwnerDatabase, Queryable } from '../../postgres/owner-database.ts';
import { raw, sql } from '../../postgres/sql.ts';
import { Problem } from '../../problem/problem.ts';
import { readViews } from '../schema/live/live-views.ts';
import { objectKey, quoteName } from '../schema/model.ts';
import { sortByDependencies, type LiveView } from '../schema/views.ts';

export type Refreshed = {
  readonly name: string;
  /** True if the refresh did not block readers. */
  readonly concurrently: boolean;
  readonly ms: number;
};

/**
 * Refreshes the views with these names, or all if `names` is empty. Throws a Problem for a view that is not in the file
 * or not in the database.
 */
export async function refreshViews(
  owner: OwnerDatabase,
  { views }: Pick<Config, 'views'>,
  names: readonly string[],
  onDone: (refreshed: Refreshed) => void = () => {},
): Promise<Refreshed[]> {
  const declared = views.filter((view) => view.materialized);
  for (const name of names) if (!declared.some((view) => view.name === name)) throw unknown(name, declared);
  const chosen = declared.filter(({ name }) => names.length === 0 || names.includes(name));
  return owner.session(async (session) => {
    const all = await readAll(session);
    const live = new Map(all.map((view) => [objectKey(view), view]));
    const found = chosen.map((view) => {
      const existing = live.get(objectKey(view));
      if (existing?.materialized) return existing;
      throw new Problem('not_migrated', 409, `${view.name} is not in the database yet`, {
        hint: 'Run svc migrate apply first.',
      });
    });
    const done: Refreshed[] = [];
    for (const view of ordered(all)) {
      if (!found.includes(view)) continue;
      const concurrently = view.populated && view.indexes.some(isWholeKey);
      const started = performance.now();
      await session.query(
        raw(`refresh materialized view ${concurrently ? 'concurrently ' : ''}${quoteName(view)}`),
      );
      const refreshed = { name: view.name, concurrently, ms: Math.round(performance.now() - started) };
      done.push(refreshed);
      onDone(refreshed);
    }
    return done;
  });
}

/** Refreshes every materialized view of the database, in the order of their dependencies. */
export async function refreshAll(session: Queryable): Promise<void> {
  for (const view of ordered(await readAll(session)))
    if (view.materialized) await session.query(raw(`refresh materialized view ${quoteName(view)}`));
}

const readAll = (session: Queryable): Promise<LiveView[]> =>
  readViews(session, sql`n.nspname <> 'pg_catalog' and n.nspname <> 'information_schema'`);

function ordered(views: readonly LiveView[]): readonly LiveView[] {
  const byKey = new Map(views.map((view) => [objectKey(view), view]));
  return sortByDependencies(views, ({ reads }) => reads.flatMap((key) => byKey.get(key) ?? []));
}

/** Returns true for a unique index over columns and all rows, which a concurrent refresh requires. */
function isWholeKey({
  unique,
  valid,
  predicate,
  plain,
  keys,
  columns,
}: LiveView['indexes'][number]): boolean {
  const isOfColumns =
    plain || (keys !== null && keys.length <= columns.length && !keys.some((key) => key.includes('(')));
  return unique && valid && predicate === null && isOfColumns;
}

function unknown(name: string, declared: readonly { readonly name: string }[]): Problem {
  const names = declared.map((view) => view.name);
  const near = closest(name, names);
  return new Problem('unknown_view', 404, `there is no materialized view ${name}`, {
    hint:
      near !== undefined
        ? `Did you mean ${near}?`
        : names.length === 0
          ? 'The file declares no materialized view. Set materialized: true on a view.'
          : `The file declares: ${names.join(', ')}.`,
  });
}
