import { expect, test } from 'vitest';
import { watchJobs } from './watch-jobs.ts';

test('a failed background job fails the world, unless it was expected; a failed request does not', () => {
  const jobs = watchJobs();
  jobs.log.error({ requestId: 'one' }, 'a request failed');
  jobs.assertQuiet();
  jobs.log.warn({ job: 'auth maintenance' }, 'auth maintenance failed');
  expect(() => jobs.assertQuiet()).toThrow(/auth maintenance failed/);
  jobs.assertQuiet(['auth maintenance']);
});
