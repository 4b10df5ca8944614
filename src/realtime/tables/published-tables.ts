// The published tables, from the catalog and from svc.yaml. They are read again after either has changed.
import type { FeatureContext, Snapshot } from '../../http/feature.ts';
import type { DatabaseRole } from '../../postgres/pool/caller-pool.ts';
import { ident, raw, type Sql } from '../../postgres/sql.ts';

export type EventKind = 'insert' | 'update' | 'delete';

export type PublishedColumn = {
  readonly name: string;
  /** `pg_type.typname`. Clients use it to convert values. */
  readonly type: string;
  /** SQL type, with its schema where necessary. */
  readonly sqlType: string;
};

export type PublishedTable = {
  readonly schema: string;
  readonly name: string;
  readonly columns: readonly PublishedColumn[];
  /** Columns of the primary key, in their order. Empty without a primary key. */
  readonly key: readonly string[];
  readonly hasRowSecurity: boolean;
  /** Columns that the role may select and that svc.yaml exposes. */
  readonly selectable: Readonly<Record<DatabaseRole, ReadonlySet<string>>>;
  /** Roles with a select policy. */
  readonly seenBy: ReadonlySet<string>;
  readonly events: ReadonlySet<EventKind>;
  readonly hidesDeletes: boolean;
  readonly hasWholeOld: boolean;
};

type Row = Omit<PublishedTable, 'selectable' | 'seenBy' | 'events' | 'hidesDeletes' | 'hasWholeOld'> & {
  readonly identity: string;
  readonly selectable: Readonly<Record<DatabaseRole, readonly string[] | null>>;
  readonly seen_by: readonly string[];
};

const ROLES = `('anon'), ('authenticated'), ('service_role')`;

const QUERY = raw(`
select n.nspname as schema, c.relname as name, c.relreplident as identity, c.relrowsecurity as "hasRowSecurity",
  (select coalesce(json_agg(json_build_object('name', a.attname, 'type', t.typname,
      'sqlType', format_type(a.atttypid, a.atttypmod)) order by a.attnum), '[]')
    from pg_attribute a join pg_type t on t.oid = a.atttypid
    where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) as columns,
  (select coalesce(json_agg(a.attname order by array_position(i.indkey::int2[], a.attnum)), '[]')
    from pg_index i join pg_attribute a on a.attrelid = c.oid and a.attnum = any (i.indkey::int2[])
    where i.indrelid = c.oid and i.indisprimary) as key,
  (select json_object_agg(r.name, (select json_agg(a.attname) from pg_attribute a
      where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
        and has_schema_privilege(r.name, n.oid, 'usage')
        and has_column_privilege(r.name, c.oid, a.attnum, 'select')))
    from (values ${ROLES}) r(name)) as selectable,
  (select coalesce(json_agg(r.name), '[]') from (values ${ROLES}) r(name)
    where exists (select from pg_policy p where p.polrelid = c.oid and p.polpermissive and p.polcmd in ('r', '*')
      and (p.polroles = '{0}' or exists (
        select from unnest(p.polroles) role where pg_has_role(r.name, role, 'usage'))))) as seen_by
from pg_publication_tables p
  join pg_namespace n on n.nspname = p.schemaname
  join pg_class c on c.relnamespace = n.oid and c.relname = p.tablename
where p.pubname = 'svc_realtime' and n.nspname <> 'realtime'`);

const ALL: ReadonlySet<EventKind> = new Set(['insert', 'update', 'delete']);

export class PublishedTables {
  readonly #context: FeatureContext;
  #tables: ReadonlyMap<string, PublishedTable> = new Map();
  #reading: Promise<void> | undefined;
  version = 0;

  constructor(context: FeatureContext) {
    this.#context = context;
  }

  get(schema: string, name: string): PublishedTable | undefined {
    return this.#tables.get(`${schema}.${name}`);
  }

  get all(): Iterable<PublishedTable> {
    return this.#tables.values();
  }

  /** Returns true when the tables were read, so they may have changed. */
  async refresh(isForced = false): Promise<boolean> {
    const snapshot = this.#context.snapshot();
    if (snapshot.version === this.version && !isForced) return false;
    this.#reading ??= this.#read(snapshot).finally(() => {
      this.#reading = undefined;
    });
    await this.#reading;
    return true;
  }

  async #read({ config, catalog, version }: Snapshot): Promise<void> {
    const rows = await this.#context.owner.query<Row>(QUERY);
    const declared = new Map(config.tables.map((table) => [`${table.schema}.${table.name}`, table]));
    this.#tables = new Map(
      rows.map(({ selectable, seen_by, identity, ...rest }) => {
        const key = `${rest.schema}.${rest.name}`;
        // A table that was added to the publication by hand is served like `realtime: true`.
        const file = declared.get(key)?.realtime;
        const shown = shownColumns({ config, catalog }, rest);
        const table: PublishedTable = {
          ...rest,
          selectable: {
            anon: shown(selectable.anon),
            authenticated: shown(selectable.authenticated),
            service_role: shown(selectable.service_role),
          },
          seenBy: new Set([...seen_by, 'service_role']),
          events: file ? new Set(file.events) : ALL,
          hidesDeletes: file?.deletes === 'none',
          hasWholeOld: identity === 'f',
        };
        return [key, table];
      }),
    );
    this.version = version;
  }
}

type Columns = (granted: readonly string[] | null) => ReadonlySet<string>;

/**
 * Hides the columns that no API exposes: columns that were removed from svc.yaml and are kept, and the new column of an
 * online type change. For a table that svc.yaml does not declare, all columns are visible, unless `expose` lists them.
 */
function shownColumns(
  { config, catalog }: Pick<Snapshot, 'config' | 'catalog'>,
  { schema, name }: Pick<PublishedTable, 'schema' | 'name'>,
): Columns {
  const isSameTable = (named: { readonly schema: string; readonly name: string }): boolean =>
    named.schema === schema && named.name === name;
  const fields = config.tables.find(isSameTable)?.fields;
  const exposed = config.expose.relations.find(isSameTable)?.columns;
  if (!fields && !exposed) return (ofRole) => new Set(ofRole);
  // During the rollout of a rename, the database has the old or the new name.
  const renamed = (catalog.renames ?? []).filter(
    (rename) => rename.schema === schema && rename.of === name && rename.kind === 'relation',
  );
  const shown = new Set(
    fields?.flatMap((field) => [
      field.name,
      field.renamedFrom,
      ...renamed.filter(({ from }) => from === field.name).map(({ to }) => to),
    ]) ?? exposed,
  );
  return (ofRole) => new Set(ofRole?.filter((column) => shown.has(column)));
}

export function tableIdent({ schema, name }: PublishedTable): Sql {
  return ident(schema, name);
}
