import { join } from 'node:path';
import { defineConfig, type TestProjectInlineConfiguration } from 'vitest/config';
import { measureSlowness } from './test/support/run/machine-speed.ts';
import { keepTemporaryFilesInMemory } from './test/support/run/temporary-folder.ts';

// The name of a test file states its needs and its cost: see "Tests" in CONTRIBUTING.md.

keepTemporaryFilesInMemory();
const slowness = Number((process.env['SVC_TEST_SLOWNESS'] ??= String(measureSlowness())));

/** Limits of a project, in milliseconds on an idle machine. */
function limits(testMs: number): TestProjectInlineConfiguration['test'] {
  return {
    testTimeout: testMs * slowness,
    hookTimeout: 120_000 * slowness,
    expect: { poll: { timeout: 30_000 * slowness } },
  };
}

/** A project of tests that start servers and processes. */
function worldProject(
  name: string,
  test: NonNullable<TestProjectInlineConfiguration['test']>,
): TestProjectInlineConfiguration {
  return {
    test: {
      ...limits(60_000),
      name,
      // Files share the modules of their worker: loading the product for each file would take a third of the time.
      isolate: false,
      globalSetup: ['test/support/peers/postgres-cluster.ts', 'test/support/peers/s3-store.ts'],
      ...test,
    },
  };
}

const NEEDS_MORE = ['**/*.{pg,slow,browser,cluster}.test.ts'];
const IMAGE = 'test/deploy/image.slow.test.ts';
const DEPLOY = ['test/deploy/*.slow.test.ts'];
/** Processes that are killed while they migrate, copy or store. */
const CRASHES = [
  'test/migrate/crash{,-waiting}.slow.test.ts',
  'test/{import,storage/failure}/killed.slow.test.ts',
  'test/backup/under-load.slow.test.ts',
];
/** Published packages and the site, built and installed in empty folders. */
const PACKAGES = ['test/package/*.slow.test.ts'];
const EVERY_SURFACE = 'test/versions/every-surface.pg.test.ts';
/** Smoke tests of every API, background job and command. */
const SMOKE = ['test/versions/**/*.pg.test.ts'];
/** Tests that depend on the version of the database server. */
const SERVER_DEPENDENT = [
  'src/{catalog,migrate,postgres,provision,rest,import,backup}/**/*.pg.test.ts',
  'src/realtime/{changes,access,stored}/**/*.pg.test.ts',
  'test/{migrate,rest,import,backup,seed,deliveries}/**/*.pg.test.ts',
  'test/realtime/{changes,without-the-log,odd-tables,partitioned,policies-of-the-file,hidden-rows}.pg.test.ts',
  'test/storage/attack/every-write-path.pg.test.ts',
  'test/auth/hooks/*.pg.test.ts',
  'test/server/hidden-rows.pg.test.ts',
  ...SMOKE,
];
/** Tests of formats over HTTP, of messages and of files. The server's version cannot change them. */
const SERVER_INDEPENDENT = [
  'test/rest/{client,csv-round-trip,media-types,openapi}.pg.test.ts',
  'test/rest/conformance/{client-methods,root}.pg.test.ts',
  'test/rest/attack/limits.pg.test.ts',
  'test/import/{mistakes,report,edge-functions,files,file-places,old-keys}.pg.test.ts',
  'test/migrate/{cli,plan-texts,realtime-cli}.pg.test.ts',
];
/**
 * Tests of the engine's decisions: what it refuses, locks, keeps and continues. Their SQL also runs in the tests of
 * each kind of object and in the random chains, which always run on PostgreSQL 15.
 */
const ENGINE = [
  'test/migrate/{data-steps,fill-batches,first-start,limits,locks,long-steps,policy-rings}.pg.test.ts',
  'test/migrate/{refusals,rename-rollout,retired,scope,sql-files,undo,unmanaged}.pg.test.ts',
];

/** Projects on other versions, which exist if `scripts/test/versions.ts` has installed these. */
function otherVersions(): TestProjectInlineConfiguration[] {
  const folder = (name: string): string | undefined => process.env[`SVC_TEST_${name}`];
  const [postgres15, postgres16, postgres17] = ['15', '16', '17'].map((major) => folder(`POSTGRES_${major}`));
  const node = folder('NODE_22');
  // Their random tests take the short rounds, because the long ones run on 18.
  const env = (postgres: string): { env: Record<string, string> } => ({
    env: { SVC_TEST_POSTGRES: postgres, SVC_TEST_LONG: '' },
  });
  const smoke = [...SMOKE, 'src/provision/**/*.pg.test.ts'];
  return [
    ...(postgres15
      ? [
          worldProject('postgres-15', {
            include: SERVER_DEPENDENT,
            exclude: [...SERVER_INDEPENDENT, ...ENGINE],
            ...env(postgres15),
          }),
          worldProject('postgres-15-engine', { include: ENGINE, ...env(postgres15) }),
        ]
      : []),
    ...(postgres16 ? [worldProject('postgres-16', { include: smoke, ...env(postgres16) })] : []),
    ...(postgres17 ? [worldProject('postgres-17', { include: smoke, ...env(postgres17) })] : []),
    ...(node
      ? [
          worldProject('node-22', {
            include: SMOKE,
            env: { SVC_TEST_NODE: join(node, 'bin', process.platform === 'win32' ? 'node.exe' : 'node') },
          }),
        ]
      : []),
  ];
}

export default defineConfig({
  test: {
    // Most tests wait for PostgreSQL or for a process, so two cores carry more workers than Vitest would start.
    maxWorkers: 4,
    // Transformed modules are kept between runs: a run of one file spends half of its time on transforms.
    fsModuleCache: true,
    projects: [
      {
        test: {
          ...limits(30_000),
          name: 'unit',
          isolate: false,
          include: ['{src,scripts}/**/*.test.ts', 'test/*/**/*.test.ts'],
          exclude: NEEDS_MORE,
        },
      },
      {
        test: {
          // These read all of the source and of the documentation.
          ...limits(60_000),
          name: 'architecture',
          include: ['test/*.test.ts'],
          exclude: NEEDS_MORE,
        },
      },
      worldProject('postgres', {
        include: ['{src,test}/**/*.pg.test.ts'],
        // On this version, every surface has separate tests.
        exclude: [EVERY_SURFACE],
      }),
      worldProject('slow', {
        include: ['{src,test,scripts}/**/*.slow.test.ts'],
        exclude: [...DEPLOY, IMAGE, ...CRASHES, ...PACKAGES],
        ...limits(180_000),
      }),
      worldProject('crashes', { include: CRASHES, ...limits(180_000) }),
      worldProject('packages', { include: PACKAGES, ...limits(180_000) }),
      worldProject('deploy', { include: DEPLOY, exclude: [IMAGE], ...limits(180_000) }),
      worldProject('image', { include: [IMAGE], ...limits(180_000) }),
      ...otherVersions(),
      worldProject('browser', {
        include: ['test/**/*.browser.test.ts'],
        globalSetup: [
          'test/support/peers/postgres-cluster.ts',
          'test/support/dashboard/dashboard-build.ts',
          'test/support/browser/shared-chromium.ts',
        ],
        // Runs after the others, because killed databases would delay the pages.
        sequence: { groupOrder: 1 },
        maxWorkers: 2,
      }),
    ],
    reporters: ['default', './test/support/run/reporter.ts'],
  },
});
