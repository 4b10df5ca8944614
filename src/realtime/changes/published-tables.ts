// What is known of the tables that tell of their changes, from the catalog and from the file. Read again when either has
// changed.
import type { FeatureContext, Snapshot } from '../../http/feature.ts';
import type { DatabaseRole } from '../../postgres/pool/caller-pool.ts';
import { ident, raw, type Sql } from '../../postgres/sql.ts';

export type EventKind = 'insert' | 'update' | 'delete';

export type PublishedColumn = {
  readonly name: string;
  /** As `pg_type.typname` has it; clients convert values by it. */
  readonly type: string;
  /** In SQL, with its schema where it needs one. */
  readonly sqlType: string;
};

export type PublishedTable = {
  readonly schema: string;
  readonly name: string;
  readonly columns: readonly PublishedColumn[];
  /** Of the primary key, in its order. Empty when there is none. */
  readonly key: readonly string[];
  readonly hasRowSecurity: boolean;
  /** Columns that the role may select, as far as the file shows them. */
  readonly selectable: Readonly<Record<DatabaseRole, ReadonlySet<string>>>;
  /** Roles that some policy lets see rows. */
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

  /** True when it was read: something may be different. */
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
      rows.map(({ selectable, seen_by, identity, ...same }) => {
        const key = `${same.schema}.${same.name}`;
        // A member that somebody added by hand is served as if the file said `true`.
        const file = declared.get(key)?.realtime;
        const shown = shownColumns({ config, catalog }, same);
        const table: PublishedTable = {
          ...same,
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

type Columns = (ofRole: readonly string[] | null) => ReadonlySet<string>;

/**
 * What no API shows: columns that have left the file and are kept, and the one that is filled while the type of another is
 * changed. Of a table that the file does not declare everything is shown, unless it says which columns are.
 */
function shownColumns(
  { config, catalog }: Pick<Snapshot, 'config' | 'catalog'>,
  { schema, name }: Pick<PublishedTable, 'schema' | 'name'>,
): Columns {
  const isIt = (one: { readonly schema: string; readonly name: string }): boolean =>
    one.schema === schema && one.name === name;
  const fields = config.tables.find(isIt)?.fields;
  const exposed = config.expose.relations.find(isIt)?.columns;
  if (!fields && !exposed) return (ofRole) => new Set(ofRole);
  // While a rename is rolled out, the database has one name or the other.
  const renamed = (catalog.renames ?? []).filter(
    (one) => one.schema === schema && one.of === name && one.kind === 'relation',
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
