// Permission dry runs: a write is run as the caller and rolled back, so that row-level security decides about it.
// The real write is the owner's and applies only to the exact row state (xmin) that the dry run saw.
import { toWire, type CallerPool, type CallerSettings } from '../../postgres/pool/caller-pool.ts';
import { raw, sql, type Sql } from '../../postgres/sql.ts';
import type { WireStatement } from '../../postgres/wire/statement.ts';
import { firstColumn, type UserMetadata } from './object.ts';
import type { Address } from './object-path.ts';

const BEGIN: WireStatement = { text: 'begin', values: [] };
const ROLLBACK: WireStatement = { text: 'rollback', values: [] };

/**
 * Runs a write as the caller and rolls it back, in one round trip; throws what PostgreSQL refuses. Returns the first
 * column of each row. Deferred triggers do not fire; one of them refuses these writes when they are committed.
 */
export async function dryRun(callers: CallerPool, caller: CallerSettings, statement: Sql): Promise<string[]> {
  // Limits the wait for a name that another transaction is writing.
  const settings = { ...caller, extra: [...(caller.extra ?? []), ['lock_timeout', '5s'] as const] };
  const results = await callers.run(settings, [BEGIN, toWire(statement), ROLLBACK]);
  return firstColumn(results[1]);
}

/** Changes with every update of the row. `alias` must be written in code. */
export function xminColumn(alias: string): Sql {
  return raw(`${alias}.xmin::text`);
}

/** A row as the caller would write it. */
export type Draft = Address & {
  readonly ownerId: string | null;
  /** Before the bytes are known, only their declared type and length. */
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly userMetadata: UserMetadata;
};

/**
 * Whether the caller may put an object there; refused by a policy, or without `upsert` because the name is taken.
 * Returns the xmin of the object that would be replaced.
 */
export async function dryRunUpload(
  callers: CallerPool,
  caller: CallerSettings,
  draft: Draft,
  upsert: boolean,
): Promise<string | undefined> {
  const insert = sql`
    insert into storage.objects (bucket_id, name, owner, owner_id, version, metadata, user_metadata)
    values (${draft.bucket}, ${draft.name}, ${asUuid(draft.ownerId)}::uuid, ${draft.ownerId}, '1',
      ${JSON.stringify(draft.metadata)}::jsonb, ${jsonOrNull(draft.userMetadata)}::jsonb)`;
  if (!upsert) {
    await dryRun(callers, caller, insert);
    return undefined;
  }
  const [xmin = ''] = await dryRun(
    callers,
    caller,
    sql`
      with seen as materialized (
        select ${xminColumn('o')} as state from storage.objects o
        where o.bucket_id = ${draft.bucket} and o.name = ${draft.name}
      ), put as (
        ${insert} on conflict (bucket_id, name) do update set
          version = excluded.version, metadata = excluded.metadata, user_metadata = excluded.user_metadata,
          owner = excluded.owner, owner_id = excluded.owner_id
        returning id
      )
      select (select state from seen) from put`,
  );
  return xmin === '' ? undefined : xmin;
}

/** Converts a user id for the `owner` column, which is a uuid. `owner_id` accepts any user id. */
export function asUuid(ownerId: string | null): string | null {
  return ownerId !== null && /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i.test(ownerId) ? ownerId : null;
}

export function jsonOrNull(value: unknown): string | null {
  return value === null || value === undefined ? null : JSON.stringify(value);
}
