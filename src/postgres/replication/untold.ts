// Transactions whose changes nobody is told of, because no reader would see a difference: rows that are copied within
// their own table, for example. Whoever makes them says so in the write-ahead log and in a setting, and whoever tells of
// changes looks there.
import { raw, sql, type Sql } from '../sql.ts';

/** Of the message in the log. */
export const UNTOLD_PREFIX = 'svc_untold';

/** First in the transaction: says so for the rest of it. */
export const UNTOLD: Sql = sql`
  select pg_catalog.pg_logical_emit_message(true, ${UNTOLD_PREFIX}, ''), pg_catalog.set_config('svc.untold', 'on', true)`;

/** For triggers. */
export const IS_TOLD: Sql = raw(`pg_catalog.current_setting('svc.untold', true) is distinct from 'on'`);
