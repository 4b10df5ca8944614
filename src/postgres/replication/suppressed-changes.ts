// Marks transactions that realtime must not publish, because they change no visible value: rows copied within their own
// table, for example. The mark is a message in the write-ahead log and a setting, which the triggers read.
import { raw, sql, type Sql } from '../sql.ts';

/** Prefix of the message in the WAL. */
export const SUPPRESS_PREFIX = 'svc_untold';

/** Marks the rest of the transaction. */
export const SUPPRESS_CHANGES: Sql = sql`
  select pg_catalog.pg_logical_emit_message(true, ${SUPPRESS_PREFIX}, ''),
    pg_catalog.set_config('svc.untold', 'on', true)`;

/** Condition of triggers: true in transactions without the mark. */
export const IS_PUBLISHED: Sql = raw(`pg_catalog.current_setting('svc.untold', true) is distinct from 'on'`);
