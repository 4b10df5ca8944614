// The floors of the house: an import goes to a lower floor or stays in its own room. Reads the import lines
// of src/ and names every forbidden edge; cycles between files are the linter's (import/no-cycle).
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

/** Rooms of one floor that may still know each other, with the reason. */
const ALLOWED_SIDEWAYS: ReadonlyArray<readonly [from: string, to: string]> = [
  // The log masks secrets with the same tool as everything else.
  ['log', 'lib'],
  // It asks the server that it started.
  ['embedded-postgres', 'postgres'],
  // The picture of the catalog is read through the connection next door.
  ['catalog', 'postgres'],
  // The context every feature gets names the caller and the keys.
  ['http', 'identity'],
  // The server mounts what the dashboard asks for.
  ['server', 'dashboard-api'],
  // The generator of TypeScript types reads what the migration engine reads.
  ['typegen', 'migrate'],
];

/** The parent of several processes hides from them what the launcher hides from it. */
const LAUNCHER = '../bin/private-environment.js';

/** The worker runs in a child process and must not carry the server into it. */
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

/** A room is read by its names; with more of them it wants rooms of its own. */
const FILES_IN_A_ROOM = 20;

test('no folder holds more files than a reader takes in', () => {
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

test('relative imports carry their extension and no file only re-exports', () => {
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

/** Beside the one reader: tables that translate SQLSTATEs into the dialect of one API. */
const KNOW_SQLSTATES: ReadonlySet<string> = new Set([
  'postgres/pg-error.ts',
  'rest/respond/database-problem.ts',
  'storage/problem.ts',
]);

test('only one module asks where it stands: merged into a published package, the others stand elsewhere', () => {
  // The second writes code that asks.
  const allowed = ['lib/own-files.ts', 'import/edge/shim.ts'];
  const asking = sources().filter((file) =>
    /^(?!\s*(?:\/\/|\*)).*import\.meta\b/m.test(readFileSync(join(SRC, file), 'utf8')),
  );
  expect(asking.filter((file) => !allowed.includes(file))).toEqual([]);
});

test('only pg-error and the named tables compare SQLSTATEs', () => {
  const comparison =
    /(?:[!=]==\s*|\bcase\s+|startsWith\(\s*)'(?:(?:[0-5]\w|F0|HV|P0|XX)[0-9A-Z]{3}|[02-5]\d|XX)'/;
  const found = sources()
    .filter((file) => !KNOW_SQLSTATES.has(file) && comparison.test(readFileSync(join(SRC, file), 'utf8')))
    .sort();
  expect(found).toEqual([]);
});

test('advisory locks are taken in one place, where each has its number', () => {
  const found = sources().filter(
    (file) =>
      file !== 'postgres/advisory-lock.ts' &&
      /pg_(?:try_)?advisory_/.test(readFileSync(join(SRC, file), 'utf8')),
  );
  expect(found).toEqual([]);
});

/**
 * Where something may be left on a session: on connections that lead to PostgreSQL itself, which `OwnerDatabase.session`
 * makes sure of. Anywhere else a pooler may lend the session to somebody else next (docs/decisions/0085).
 */
const OWN_SESSIONS: ReadonlySet<string> = new Set([
  'import/changes.ts',
  'import/dump.ts',
  'import/rows.ts',
  'import/users.ts',
  'migrate/apply/background.ts',
  'migrate/apply/concurrent-index.ts',
  'migrate/checks/backfill-checks.ts',
  'migrate/checks/dry-run.ts',
  'migrate/checks/partitions.ts',
  'migrate/checks/reference-types.ts',
  'migrate/commands/prune.ts',
  'migrate/locks.ts',
  'migrate/migrate.ts',
  'migrate/normalise/shadow-schema.ts',
  'postgres/advisory-lock.ts',
  'postgres/generic-plan.ts',
  'postgres/listen.ts',
  'provision/provision.ts',
  'storage/storage.ts',
]);

/** What outlives its transaction: locks of a session, LISTEN, SET, temporary tables, open cursors, PREPARE. */
const STAYS_ON_SESSION = [
  /\b(?:tryLock|unlock)\(|\bpg_(?:try_)?advisory_(?:un)?lock/,
  /[`'";]\s*(?:un)?listen \$\{/,
  /[`'";]\s*set (?!local\b)(?:session |time zone |role |[a-z_.]+ ?= ?|[a-z_.]+ to )/,
  /set_config\(.*,\s*false\)/,
  /\bcreate (?:local )?temp(?:orary)? /i,
  /\bwith hold\b/i,
  /[`'";]\s*(?:deallocate|discard) /i,
  /[`'";]\s*prepare \S+ as /i,
];

test('nothing is left on a session outside of those that are our own', () => {
  const found = sources()
    .filter((file) => !file.startsWith('functions/worker/'))
    .filter((file) => STAYS_ON_SESSION.some((form) => form.test(withoutComments(file))))
    .sort();
  expect(found).toEqual([...OWN_SESSIONS]);
});

function withoutComments(file: string): string {
  return readFileSync(join(SRC, file), 'utf8').replace(/^\s*(?:\/\/|\/?\*).*$/gm, '');
}

/** Stages of a migration, from the bottom: each imports only from those before it. */
const MIGRATE_STAGES = [
  'problem.ts',
  'locks.ts',
  'schema',
  'diff',
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

test("migrate's stages import downwards only", () => {
  const stage = (file: string): number => MIGRATE_STAGES.indexOf(file.split('/')[1] ?? '');
  const inside = edges().filter(({ file, target }) => room(file) === 'migrate' && room(target) === 'migrate');
  expect(inside.filter(({ file }) => stage(file) === -1)).toEqual([]);
  const upwards = inside.filter(({ file, target }) => stage(target) > stage(file));
  expect(upwards.map(({ file, target }) => `${file} → ${target}`)).toEqual([]);
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
