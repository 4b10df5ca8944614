import { defineConfig } from 'vitest/config';

// A test's needs are in its name: x.test.ts and x.prop.test.ts are pure, x.pg.test.ts needs Postgres;
// everything under test/ (except the architecture test) needs a world and gets one Postgres per run.

/**
 * For tests that start servers and processes: a condition that becomes true a little later on a busy machine is not a
 * failure. The few tests that take longer say so themselves.
 */
const PATIENT = {
  // Files share their worker's modules: loading the product anew for each file would take a third of the time.
  isolate: false,
  testTimeout: 60_000,
  hookTimeout: 120_000,
  expect: { poll: { timeout: 30_000 } },
};

/**
 * Tests that start and kill many processes, move hundreds of megabytes or wait out real clocks: a part of `npm run
 * test:slow`, so that `npm test` stays short. Named on the command line they run like all others.
 */
const SLOW = [
  'test/package/clone.test.ts',
  'test/package/published.test.ts',
  'test/package/site.test.ts',
  'test/backup/clone.test.ts',
  'test/backup/bucket.test.ts',
  'test/backup/sealed.test.ts',
  'test/backup/under-load.test.ts',
  'test/clients/*.test.ts',
  'test/deploy/*.test.ts',
  'test/import/killed.test.ts',
  'test/migrate/crash.test.ts',
  'test/migrate/crash-waiting.test.ts',
  'test/migrate/rename-served.test.ts',
  'test/dashboard/config-from-page.test.ts',
  'test/functions/deploy.test.ts',
  'test/functions/dev.test.ts',
  'test/functions/disasters.test.ts',
  'test/realtime/failure/*.test.ts',
  'test/realtime/falling-behind.test.ts',
  'test/realtime/huge-transaction.test.ts',
  'test/realtime/refused-by-the-server.test.ts',
  'test/realtime/slow-readers.test.ts',
  'test/realtime/switches.test.ts',
  'test/realtime/synchronous-standby.test.ts',
  'test/realtime/triggers-of-several.test.ts',
  'test/server/deployment-order.test.ts',
  'test/tutorials/from-an-empty-folder.test.ts',
  'test/server/drain.test.ts',
  'test/server/serve.test.ts',
  'test/server/shared-config.test.ts',
  'test/server/replicas.test.ts',
  'test/server/behind-a-pooler.test.ts',
  'test/server/failure/killed.test.ts',
  'test/server/failure/what-was-seen.test.ts',
  'test/server/processes/*.test.ts',
  'test/server/overload/answers.test.ts',
  'test/storage/failure/elsewhere.test.ts',
  'test/storage/failure/killed.test.ts',
  'test/storage/failure/leftovers.test.ts',
  'test/storage/failure/transfers.test.ts',
  'src/embedded-postgres/*.pg.test.ts',
  'src/postgres/pool/failure/*.pg.test.ts',
];

/** The pages speak of one PostgreSQL: on another their commands would be run a second time. */
const ONLY_HERE = process.env['SVC_TEST_POSTGRES'] === undefined ? [] : ['test/documentation-blocks.test.ts'];

export default defineConfig({
  test: {
    // Most tests wait for PostgreSQL or a process, so two cores carry more workers than the one they would get.
    maxWorkers: 4,
    projects: [
      {
        test: {
          name: 'unit',
          include: ['src/**/*.test.ts'],
          exclude: ['src/**/*.pg.test.ts'],
          // Property tests take their time on a machine that is busy.
          testTimeout: 30_000,
        },
      },
      {
        test: {
          name: 'architecture',
          include: [
            'test/architecture.test.ts',
            'test/documentation.test.ts',
            'test/documentation-links.test.ts',
            'test/error-codes.test.ts',
          ],
          // They read all of the source, on a machine that has other work.
          testTimeout: 60_000,
        },
      },
      {
        test: {
          name: 'world',
          include: ['src/**/*.pg.test.ts', 'test/**/*.test.ts'],
          exclude: [
            'test/architecture.test.ts',
            'test/documentation.test.ts',
            'test/documentation-links.test.ts',
            'test/error-codes.test.ts',
            'test/**/browser/**',
            'test/versions/**',
            ...SLOW,
            ...ONLY_HERE,
          ],
          globalSetup: ['test/support/peers/postgres-cluster.ts', 'test/support/peers/s3-store.ts'],
          ...PATIENT,
        },
      },
      {
        test: {
          name: 'slow',
          include: SLOW,
          globalSetup: ['test/support/peers/postgres-cluster.ts', 'test/support/peers/s3-store.ts'],
          ...PATIENT,
          // Several processes a test, four tests at a time.
          testTimeout: 180_000,
        },
      },
      {
        test: {
          // What other versions of PostgreSQL and of Node are tried with: `npm run test:slow`.
          name: 'versions',
          include: ['test/versions/*.test.ts'],
          globalSetup: ['test/support/peers/postgres-cluster.ts'],
          ...PATIENT,
        },
      },
      {
        test: {
          name: 'browser',
          include: ['test/**/browser/*.test.ts'],
          globalSetup: [
            'test/support/peers/postgres-cluster.ts',
            'test/support/dashboard/dashboard-build.ts',
          ],
          // After all others: a page that waits for its turn between killed databases shows nothing about itself.
          sequence: { groupOrder: 1 },
          maxWorkers: 2,
          ...PATIENT,
        },
      },
    ],
    reporters: ['default', './test/support/closing-line-reporter.ts'],
  },
});
