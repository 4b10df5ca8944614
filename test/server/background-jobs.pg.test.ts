// Background jobs do not run before the start is complete, however long it takes.
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { startBackendWorld } from '../support/backend-world.ts';
import { raw } from '../../src/postgres/sql.ts';
import { collectLog } from '../support/collect-log.ts';

// Timers run in real time and can be advanced.
beforeEach(() => {
  vi.useFakeTimers({
    toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'],
    shouldAdvanceTime: true,
  });
});
afterEach(() => void vi.useRealTimers());

test('a start longer than every job interval logs no job errors, and the jobs run afterwards', async () => {
  const { log, lines } = collectLog();
  const yaml = `version: 1
providers: { email: { type: smtp, url: "smtp://127.0.0.1:1", default_from_email: a@example.com } }
auth: { email: {} }
storage: { papers: {} }
`;
  const world = await startBackendWorld(yaml, {
    log,
    // Longer than the intervals of the outbox and the storage cleanup.
    migrating: async () => void (await vi.advanceTimersByTimeAsync(5_500)),
  });
  try {
    await world.owner.query(
      raw(`insert into storage.pending_blobs (version, bucket_id, name, expires_at)
        values ('old', 'papers', 'old', now() - interval '1 day')`),
    );
    const left = () => world.owner.query(raw('select from storage.pending_blobs'));
    await expect.poll(left).toEqual([]);
    // Other tests use the same server, so ignores log lines about it.
    const failed = lines().flatMap(({ job, level, msg, err }) =>
      job !== undefined || level === 'error' ? [JSON.stringify({ job, msg, err })] : [],
    );
    expect(failed).toEqual([]);
  } finally {
    await world.close();
  }
});
