import { defineConfig } from 'vitest/config';

// A test's needs are in its name: x.test.ts and x.prop.test.ts are pure, x.pg.test.ts needs Postgres;
// everything under test/ (except the architecture test) needs a world and gets one Postgres per run.
export default defineConfig({
  test: {
    // Most tests wait for PostgreSQL or a process, so two cores carry more than the one worker they would get.
    maxWorkers: 3,
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
          include: ['test/architecture.test.ts'],
        },
      },
      {
        test: {
          name: 'world',
          include: ['src/**/*.pg.test.ts', 'test/**/*.test.ts'],
          exclude: ['test/architecture.test.ts', 'test/**/browser/**'],
          globalSetup: ['test/support/postgres-cluster.ts'],
          // Only what hangs ends here: a world is started, killed and started again on machines that are busy.
          testTimeout: 120_000,
          // A condition that comes true a little later on a busy machine is no failure.
          expect: { poll: { timeout: 30_000 } },
          hookTimeout: 240_000,
        },
      },
      {
        test: {
          name: 'browser',
          include: ['test/**/browser/*.test.ts'],
          globalSetup: ['test/support/postgres-cluster.ts', 'test/support/dashboard-build.ts'],
          // After all others: a page that waits for its turn between killed databases shows nothing about itself.
          sequence: { groupOrder: 1 },
          maxWorkers: 2,
          testTimeout: 120_000,
          expect: { poll: { timeout: 30_000 } },
          hookTimeout: 240_000,
        },
      },
    ],
    reporters: ['default', './test/support/closing-line-reporter.ts'],
  },
});
