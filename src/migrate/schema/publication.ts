// The publication of realtime and the replica identity of its tables, which determines the columns of an old row that
// the write-ahead log contains.
import { quoteName } from './model.ts';

export const PUBLICATION = 'svc_realtime';

/** Publication for realtime in a database that comes from Supabase. */
export const SUPABASE_PUBLICATION = 'supabase_realtime';

/** `index`: the old row contains the columns of a unique index. */
export type ReplicaIdentity = 'default' | 'full' | 'index' | 'nothing';

export type LivePublication = {
  /** Stored generated columns are published. True before PostgreSQL 18, which introduced the setting. */
  readonly generated: boolean;
};

/** First version of PostgreSQL with `publish_generated_columns`. */
export const PUBLISH_GENERATED_VERSION = 180_000;

type Named = { readonly schema: string; readonly name: string };

/** Returns the same statement as provisioning uses. */
export function createPublicationSql(serverVersion: number): string {
  return (
    `create publication ${PUBLICATION} for table realtime.messages with (publish = 'insert, ` +
    `update, delete', publish_via_partition_root = ` +
    `true${serverVersion >= PUBLISH_GENERATED_VERSION ? ', publish_generated_columns = stored' : ''})`
  );
}

export const PUBLISH_GENERATED = `alter publication ${PUBLICATION} set (publish_generated_columns = stored)`;

export function publishSql(table: Named): string {
  return `alter publication ${PUBLICATION} add table ${quoteName(table)}`;
}

export function unpublishSql(table: Named): string {
  return `alter publication ${PUBLICATION} drop table ${quoteName(table)}`;
}

export function replicaIdentitySql(table: Named, identity: 'default' | 'full'): string {
  return `alter table ${quoteName(table)} replica identity ${identity}`;
}
