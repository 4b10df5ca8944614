// Reads stored broadcasts for clients that request them when they join.
import type { FeatureContext } from '../../http/feature.ts';
import type { Caller } from '../../identity/caller.ts';
import { toWire } from '../../postgres/pool/caller-pool.ts';
import { sql } from '../../postgres/sql.ts';
import { withSettings } from '../access/channel-rights.ts';
import type { Stored } from '../channel/services.ts';

/** Returns the newest `limit` stored broadcasts of a private topic that policies let the caller read, oldest first. */
export async function replay(
  { callers }: FeatureContext,
  caller: Caller,
  topic: string,
  since: Date,
  limit: number,
): Promise<readonly Stored[]> {
  const [found] = await callers.run(
    withSettings(caller, topic),
    [
      toWire(sql`
        select id, coalesce(event, ''), payload::text, encode(binary_payload, 'base64')
        from realtime.messages
        where topic = ${topic} and private and extension = 'broadcast'
          and inserted_at >= ${since.toISOString()}::timestamptz and inserted_at < '9999-01-01'
        order by inserted_at desc limit ${limit}::integer`),
    ],
    { readOnly: true },
  );
  const rows = found?.rows.map((row) => row.map((value) => value?.toString())) ?? [];
  return rows.reverse().map(([id = '', event = '', json, base64]) => ({
    id,
    event,
    content: base64 === undefined ? { json: json ?? '{}' } : { bytes: Buffer.from(base64, 'base64') },
  }));
}
