import { expect, test } from 'vitest';
import { ALL, selectForLanding } from './selection.ts';

const hash = (number: number): string => number.toString(16).padStart(8, '0');

test('the commits of a week select every project, both versions of PostgreSQL and every part of the rounds', () => {
  const selections = Array.from({ length: 24 }, (_, number) => selectForLanding(hash(number), []));
  const projects = new Set(selections.flatMap((selection) => selection.projects));
  expect([...projects].toSorted()).toEqual(
    ALL.projects.filter((project) => project !== 'architecture').toSorted(),
  );
  expect(new Set(selections.map(({ long }) => long)).size).toBe(6);
});

test.each([
  ['src/postgres/pool/connection-pool.ts', 'cluster'],
  ['test/cluster/main.ts', 'cluster'],
  ['deploy/Caddyfile', 'deploy'],
  ['deploy/Containerfile', 'image'],
  ['src/supervisor/worker.ts', 'node-22'],
  ['src/migrate/make-plan.ts', 'postgres-15-engine'],
  ['src/migrate/make-plan.ts', 'crashes'],
  ['src/backup/restore.ts', 'crashes'],
  ['docs/rest.md', 'packages'],
  ['packages/client/package.json', 'packages'],
  ['src/migrate/make-plan.ts', 'postgres-16'],
  ['src/migrate/make-plan.ts', 'postgres-17'],
])('a change of %s always selects %s', (path, project) => {
  for (let number = 0; number < 24; number++)
    expect(selectForLanding(hash(number), [path]).projects).toContain(project);
});

test('an ordinary change selects one rotating project of each list and one version', () => {
  const always = ['unit', 'postgres', 'slow', 'browser', 'postgres-15'];
  expect(selectForLanding(hash(0), ['src/rest/rest.ts']).projects).toEqual([
    ...always,
    'postgres-16',
    'node-22',
    'postgres-15-engine',
  ]);
  expect(selectForLanding(hash(17), ['src/auth/auth.ts']).projects).toEqual([
    ...always,
    'postgres-17',
    'cluster',
    'crashes',
  ]);
});

test('each choice is printed with the command that repeats it', () => {
  expect(selectForLanding(hash(17), []).notes).toEqual([
    'postgres-17: npm run test:all -- postgres-17',
    'cluster: npm run test:all -- cluster',
    'crashes: npm run test:all -- crashes',
    'part 6/6 of the long random rounds: SVC_TEST_LONG=6/6 npm test',
  ]);
});
