// Checks the floors of `src`: an import goes to a lower floor or stays in its room. Reads the import lines and
// reports each forbidden import. The linter finds cycles between files (import/no-cycle).
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const SRC = fileURLToPath(new URL('../src', import.meta.url));

const FLOORS: Readonly<Record<string, number>> = {
  lib: 0,
  problem: 0,
  log: 0,
  config: 1,
  supervisor: 1,
  postgres: 1,
  catalog: 1,
  'embedded-postgres': 1,
  migrate: 2,
  identity: 2,
  http: 2,
  provision: 2,
  typegen: 2,
  rest: 3,
  auth: 3,
  storage: 3,
  functions: 3,
  deliveries: 3,
  realtime: 3,
  'shared-config': 3,
  'dashboard-api': 4,
  deploy: 4,
  backup: 4,
  import: 4,
  seed: 4,
  server: 4,
  cli: 5,
};

/** Rooms of one floor that may import each other, with the reason. */
const ALLOWED_SIDEWAYS: ReadonlyArray<readonly [from: string, to: string]> = [
  // The log uses the common mask for secrets.
  ['log', 'lib'],
  // It connects to the server that it has started.
  ['embedded-postgres', 'postgres'],
  // Reads the catalog through a connection.
  ['catalog', 'postgres'],
  // The context of every feature contains the caller and the keys.
  ['http', 'identity'],
  // The server mounts the dashboard's API.
  ['server', 'dashboard-api'],
  // The generator of TypeScript types uses readers of the migration engine.
  ['typegen', 'migrate'],
];

/** The supervisor hides the same environment variables from its processes as the launcher. */
const LAUNCHER = '../bin/private-environment.js';

/** The worker runs in a child process and must not import the server. */
const WORKER = 'functions/worker/';

type Edge = { readonly file: string; readonly target: string };

test('imports go to a lower floor or stay in the room', () => {
  const forbidden = edges().filter(({ file, target }) => !allowed(file, target));
  expect(forbidden.map(({ file, target }) => `${file} → ${target}`)).toEqual([]);
});

test('every folder of src has a floor', () => {
  const folders = readdirSync(SRC, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => entry.name);
  expect(folders.filter((folder) => !(folder in FLOORS))).toEqual([]);
});

/** Maximum number of files in a folder. Larger folders need subfolders. */
const FILES_IN_A_ROOM = 20;

test('no folder has too many files', () => {
  const counts = new Map<string, number>();
  for (const root of [SRC, join(SRC, '../test'), join(SRC, '../dashboard/src')]) {
    for (const file of readdirSync(root, { recursive: true, encoding: 'utf8' })) {
      if (!/\.tsx?$/.test(file) || file.endsWith('.test.ts')) continue;
      const folder = relative(join(SRC, '..'), dirname(join(root, file)));
      counts.set(folder, (counts.get(folder) ?? 0) + 1);
    }
  }
  expect([...counts].filter(([, count]) => count > FILES_IN_A_ROOM)).toEqual([]);
});

test('relative imports have an extension and no file only re-exports', () => {
  const bare = edges().filter(({ target }) => target !== LAUNCHER && !/\.(ts|json)$/.test(target));
  expect(bare.map(({ file, target }) => `${file} → ${target}`)).toEqual([]);
  const barrels = sources().filter((file) => {
    const lines = readFileSync(join(SRC, file), 'utf8')
      .split('\n')
      .filter((line) => line.trim() !== '' && !line.trim().startsWith('//'));
    return lines.length > 0 && lines.every((line) => /^export .* from /.test(line));
  });
  expect(barrels).toEqual([]);
});

/** Additional files: tables that translate SQLSTATEs into the errors of one API. */
const SQLSTATE_FILES: ReadonlySet<string> = new Set([
  'postgres/pg-error.ts',
  'rest/respond/database-problem.ts',
  'storage/problem.ts',
]);

test('only one module uses import.meta, because the published bundle changes the paths of others', () => {
  // The second one generates code that uses it.
  const allowed = ['lib/package-files.ts', 'import/edge/shim.ts'];
  const matching = sources().filter((file) =>
    /^(?!\s*(?:\/\/|\*)).*import\.meta\b/m.test(readFileSync(join(SRC, file), 'utf8')),
  );
  expect(matching.filter((file) => !allowed.includes(file))).toEqual([]);
});

test('only pg-error and the named tables compare SQLSTATEs', () => {
  const comparison =
    /(?:[!=]==\s*|\bcase\s+|startsWith\(\s*)'(?:(?:[0-5]\w|F0|HV|P0|XX)[0-9A-Z]{3}|[02-5]\d|XX)'/;
  const found = sources()
    .filter((file) => !SQLSTATE_FILES.has(file) && comparison.test(readFileSync(join(SRC, file), 'utf8')))
    .sort();
  expect(found).toEqual([]);
});

test('advisory locks are acquired in one file, which lists their numbers', () => {
  const found = sources().filter(
    (file) =>
      file !== 'postgres/advisory-lock.ts' &&
      /pg_(?:try_)?advisory_(?!unlock_all)/.test(readFileSync(join(SRC, file), 'utf8')),
  );
  expect(found).toEqual([]);
});

/**
 * Files that may leave state on a session. They use direct connections to PostgreSQL, which `OwnerDatabase.session`
 * ensures. Elsewhere a pooler may assign the session to another client (docs/decisions/0085).
 */
const FILES_WITH_SESSION_STATE: ReadonlySet<string> = new Set([
  'import/changes.ts',
  'import/dump.ts',
  'import/rows.ts',
  'import/users.ts',
  'migrate/apply/background.ts',
  'migrate/apply/concurrent-index.ts',
  'migrate/checks/backfill-checks.ts',
  'migrate/checks/dry-run/dry-run.ts',
  'migrate/checks/partitions.ts',
  'migrate/checks/reference-types.ts',
  'migrate/commands/prune.ts',
  'migrate/locks.ts',
  'migrate/migrate.ts',
  'migrate/normalise/shadow/read-through-shadow.ts',
  'postgres/advisory-lock.ts',
  'postgres/generic-plan.ts',
  'postgres/listen.ts',
  'postgres/owner-database.ts',
  'provision/provision.ts',
  'storage/storage.ts',
]);

/** State that outlives its transaction: session locks, LISTEN, SET, temporary tables, open cursors, PREPARE. */
const SESSION_STATE = [
  /\b(?:tryLock|unlock)\(|\bpg_(?:try_)?advisory_(?:un)?lock/,
  /[`'";]\s*(?:un)?listen \$\{/,
  /[`'";]\s*set (?!local\b)(?:session |time zone |role |[a-z_.]+ ?= ?|[a-z_.]+ to )/,
  /set_config\(.*,\s*false\)/,
  /\bcreate (?:local )?temp(?:orary)? /i,
  /\bwith hold\b/i,
  /[`'";]\s*(?:deallocate|discard) /i,
  /[`'";]\s*prepare \S+ as /i,
];

test('only the listed files leave state on a session', () => {
  const found = sources()
    .filter((file) => !file.startsWith('functions/worker/'))
    .filter((file) => SESSION_STATE.some((form) => form.test(withoutComments(file))))
    .sort();
  expect(found).toEqual([...FILES_WITH_SESSION_STATE]);
});

function withoutComments(file: string): string {
  return readFileSync(join(SRC, file), 'utf8').replace(/^\s*(?:\/\/|\/?\*).*$/gm, '');
}

/** Stages of a migration, bottom to top: each imports only from earlier ones. */
const MIGRATE_STAGES = [
  'problem.ts',
  'locks.ts',
  'schema',
  'diff',
  'change',
  'plan',
  'state',
  'normalise',
  'checks',
  'apply',
  'state-after.ts',
  'make-plan.ts',
  'rollout.ts',
  'migrate.ts',
  'commands',
];

/** Stages of realtime, bottom to top. */
const REALTIME_STAGES = [
  'problem.ts',
  'counters.ts',
  'protocol',
  'tables',
  'access',
  'changes',
  'bus',
  'hub',
  'channel',
  'gateway',
  'http',
  'stored',
  'metrics.ts',
  'report.ts',
  'parts.ts',
  'realtime.ts',
];

test.each([
  ['migrate', MIGRATE_STAGES],
  ['realtime', REALTIME_STAGES],
])('stages of %s import downwards only', (name, stages) => {
  const stage = (file: string): number => stages.indexOf(file.split('/')[1] ?? '');
  const inside = edges().filter(({ file, target }) => room(file) === name && room(target) === name);
  expect(inside.length).toBeGreaterThan(0);
  expect(inside.filter(({ file }) => stage(file) === -1)).toEqual([]);
  const upwards = inside.filter(({ file, target }) => stage(target) > stage(file));
  expect(upwards.map(({ file, target }) => `${file} → ${target}`)).toEqual([]);
});

/** Comparisons of change kinds outside of the records by kind, such as `change/traits.ts`. Lower the numbers only. */
const MAX_KIND_COMPARISONS = { comparisons: 39, files: 14 };

test('few files compare the kind of a change', () => {
  const kinds = sources()
    .filter((file) => file.startsWith('migrate/change/'))
    .flatMap((file) => [...withoutComments(file).matchAll(/^  '?([a-z-]+)'?: (?:\{|[A-Z_]+,)/gm)])
    .map(([, kind]) => kind);
  expect(kinds.length).toBeGreaterThan(100);
  const comparison = new RegExp(`(?:case |[=!]== )'(?:${kinds.join('|')})'`, 'g');
  const found = sources()
    .filter((file) => file.startsWith('migrate/'))
    .map((file) => withoutComments(file).match(comparison)?.length ?? 0)
    .filter((count) => count > 0);
  expect(found.length).toBeLessThanOrEqual(MAX_KIND_COMPARISONS.files);
  expect(found.reduce((sum, count) => sum + count, 0)).toBeLessThanOrEqual(MAX_KIND_COMPARISONS.comparisons);
});

function allowed(file: string, target: string): boolean {
  const from = room(file);
  const to = room(target);
  if (target === LAUNCHER) return from === 'supervisor';
  if (file.startsWith(WORKER)) return target.startsWith(WORKER) || FLOORS[to] === 0;
  if (from === to) return true;
  if (ALLOWED_SIDEWAYS.some(([a, b]) => a === from && b === to)) return true;
  return (FLOORS[to] ?? Infinity) < (FLOORS[from] ?? -1);
}

function room(file: string): string {
  return file.split('/')[0] ?? '';
}

function edges(): Edge[] {
  return sources().flatMap((file) => {
    const text = readFileSync(join(SRC, file), 'utf8');
    const specifiers = [...text.matchAll(/(?:from|import)\s*\(?\s*'(\.[^']+)'/g)].map(
      (match) => match[1] ?? '',
    );
    return specifiers.map((specifier) => ({
      file,
      target: relative(SRC, join(SRC, dirname(file), specifier)).replaceAll('\\', '/'),
    }));
  });
}

function sources(): string[] {
  return readdirSync(SRC, { recursive: true, encoding: 'utf8' })
    .map((file) => file.replaceAll('\\', '/'))
    .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'));
}
