// Tables that tell of their changes: members of a publication. What the write-ahead log keeps of a row before its change
// is the replica identity of its table.
import { nameOf } from './model.ts';

export const PUBLICATION = 'svc_realtime';

/** What a database that comes from Supabase has in its place. */
export const SUPABASE_PUBLICATION = 'supabase_realtime';

/** `index`: the columns of a unique index. */
export type ReplicaIdentity = 'default' | 'full' | 'index' | 'nothing';

export type LivePublication = {
  /** Stored generated columns are told as well. Before PostgreSQL 18 there is no such setting, and nothing to miss. */
  readonly generated: boolean;
};

/** Before this, updates of a table with generated columns never depend on what the publication says of them. */
export const PUBLISHES_GENERATED = 180_000;

type Named = { readonly schema: string; readonly name: string };

/** As provisioning makes it. */
export function createPublicationSql(serverVersion: number): string {
  return `create publication ${PUBLICATION} for table realtime.messages with (publish = 'insert, update, delete', publish_via_partition_root = true${serverVersion >= PUBLISHES_GENERATED ? ', publish_generated_columns = stored' : ''})`;
}

export const PUBLISH_GENERATED = `alter publication ${PUBLICATION} set (publish_generated_columns = stored)`;

export function publishSql(table: Named): string {
  return `alter publication ${PUBLICATION} add table ${nameOf(table)}`;
}

export function unpublishSql(table: Named): string {
  return `alter publication ${PUBLICATION} drop table ${nameOf(table)}`;
}

export function replicaIdentitySql(table: Named, identity: 'default' | 'full'): string {
  return `alter table ${nameOf(table)} replica identity ${identity}`;
}
