// Waits until transactions of the write-ahead log are visible. The WAL is sent when it is on disk. With synchronous
// replication that is before the transaction is visible to other sessions, so a query at once would miss its rows.
import type { OwnerDatabase } from '../../postgres/owner-database.ts';
import { raw } from '../../postgres/sql.ts';

const SNAPSHOT = raw('select pg_current_snapshot()::text as snapshot');
const PAUSES_MS = [1, 2, 4, 8, 16, 32, 50];
const WRAP = 1n << 32n;

/** Resolves when all transactions are visible. `xids` have 32 bits. */
export async function waitUntilVisible(owner: OwnerDatabase, xids: ReadonlySet<number>): Promise<void> {
  for (let attempt = 0; ; attempt++) {
    const [row] = await owner.query<{ snapshot: string }>(SNAPSHOT);
    if (row && isVisible(row.snapshot, xids)) return;
    const pause = PAUSES_MS[Math.min(attempt, PAUSES_MS.length - 1)];
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}

/** `snapshot`: `xmin:xmax:xip,…` in 64 bits. */
export function isVisible(snapshot: string, xids: ReadonlySet<number>): boolean {
  const [min = '0', max = '0', list = ''] = snapshot.split(':');
  const oldest = BigInt(min);
  const next = BigInt(max);
  const running = new Set(list === '' ? [] : list.split(','));
  for (const xid of xids) {
    const whole = widen(xid, next);
    if (whole >= oldest && (whole >= next || running.has(String(whole)))) return false;
  }
  return true;
}

/** Returns the transaction nearest to `next` with these 32 bits. The WAL is less than 2^31 transactions old. */
function widen(xid: number, next: bigint): bigint {
  const whole = (next / WRAP) * WRAP + BigInt(xid);
  const half = WRAP / 2n;
  if (whole > next + half) return whole - WRAP;
  return whole + half < next ? whole + WRAP : whole;
}
