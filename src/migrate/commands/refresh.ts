// `svc refresh`: fills the materialized views of the file with what their queries yield now.
import type { Config } from '../../config/config.ts';
import { closest } from '../../lib/closest-word.ts';
import type { OwnerDatabase, Queryable } from '../../postgres/owner-database.ts';
import { raw, sql } from '../../postgres/sql.ts';
import { Problem } from '../../problem/problem.ts';
import { readViews } from '../schema/live/live-views.ts';
import { keyOf, nameOf } from '../schema/model.ts';
import { inOrder, type LiveView } from '../schema/views.ts';

export type Refreshed = {
  readonly name: string;
  /** Readers went on meanwhile. */
  readonly concurrently: boolean;
  readonly ms: number;
};

/** `names`: all when empty. Throws a Problem for one that the file or the database does not have. */
export async function refreshViews(
  owner: OwnerDatabase,
  { views }: Pick<Config, 'views'>,
  names: readonly string[],
  onDone: (one: Refreshed) => void = () => {},
): Promise<Refreshed[]> {
  const declared = views.filter((view) => view.materialized);
  for (const name of names) if (!declared.some((view) => view.name === name)) throw unknown(name, declared);
  const chosen = declared.filter(({ name }) => names.length === 0 || names.includes(name));
  return owner.session(async (session) => {
    const all = await readAll(session);
    const live = new Map(all.map((view) => [keyOf(view), view]));
    const found = chosen.map((view) => {
      const one = live.get(keyOf(view));
      if (one?.materialized) return one;
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
        raw(`refresh materialized view ${concurrently ? 'concurrently ' : ''}${nameOf(view)}`),
      );
      const one = { name: view.name, concurrently, ms: Math.round(performance.now() - started) };
      done.push(one);
      onDone(one);
    }
    return done;
  });
}

/** Every materialized view of the database, each after those it reads. */
export async function refreshAll(session: Queryable): Promise<void> {
  for (const view of ordered(await readAll(session)))
    if (view.materialized) await session.query(raw(`refresh materialized view ${nameOf(view)}`));
}

const readAll = (session: Queryable): Promise<LiveView[]> =>
  readViews(session, sql`n.nspname <> 'pg_catalog' and n.nspname <> 'information_schema'`);

function ordered(views: readonly LiveView[]): readonly LiveView[] {
  const byKey = new Map(views.map((view) => [keyOf(view), view]));
  return inOrder(views, ({ reads }) => reads.flatMap((key) => byKey.get(key) ?? []));
}

/** What PostgreSQL compares the old rows and the new ones by: columns alone, and all rows. */
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
          ? 'The file declares none: write materialized: true under a view.'
          : `The file has: ${names.join(', ')}.`,
  });
}
