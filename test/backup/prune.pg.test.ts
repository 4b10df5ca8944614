// `svc backup prune` on a folder of backups: deleted and kept files, and files that wait for a running backup.
import { mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { waitForPruning } from '../../src/backup/prune.ts';
import { FolderTarget } from '../../src/backup/target/folder-target.ts';
import { runSvc } from '../support/svc-process.ts';

let target: string;
beforeEach(() => {
  target = mkdtempSync(join(tmpdir(), 'svc-prune-'));
});
afterEach(() => rmSync(target, { recursive: true, force: true }));

const MANIFEST = {
  format: 1,
  version: '0.1.0',
  takenAt: '2026-11-20T03:00:00Z',
  postgres: 180000,
  parts: {},
  rows: {},
  blobs: { count: 0, bytes: 0, missing: [] },
  keyCheck: 'x',
};

function backup(id: string, versions: readonly string[], whole = true): string {
  const folder = join(target, 'backups', id);
  mkdirSync(folder, { recursive: true });
  for (const version of versions) {
    mkdirSync(join(target, 'blobs', version.slice(0, 2)), { recursive: true });
    writeFileSync(join(target, 'blobs', version.slice(0, 2), version), version);
  }
  const lines = versions.map((version) => JSON.stringify({ version, bytes: version.length, sha256: '' }));
  writeFileSync(join(folder, 'blobs.jsonl'), `${lines.join('\n')}\n`);
  if (whole) writeFileSync(join(folder, 'manifest.json'), JSON.stringify(MANIFEST));
  return folder;
}

const prune = (...args: readonly string[]) => runSvc(['backup', 'prune', '--to', target, ...args]);
const backups = (): string[] => readdirSync(join(target, 'backups')).toSorted();
const blobs = (): string[] =>
  readdirSync(join(target, 'blobs'))
    .flatMap((shard) => readdirSync(join(target, 'blobs', shard)))
    .toSorted();

test('old backups are deleted with the files that only they contain', async () => {
  backup('2026-11-20T030000Z-aaaaaa', ['aa-old', 'bb-both']);
  backup('2026-11-21T030000Z-aaaaaa', ['bb-both', 'aa-new']);
  const dry = await prune('--keep', '1d', '--dry-run');
  expect([dry.code, dry.output]).toEqual([
    0,
    expect.stringMatching(/would be removed +2026-11-20.*1 stored files/s),
  ]);
  expect([backups().length, blobs().length]).toEqual([2, 3]);
  const pruned = await prune('--keep', '1d', '--json');
  expect(JSON.parse(pruned.output)).toMatchObject({
    ok: true,
    command: 'backup prune',
    data: {
      removed: ['2026-11-20T030000Z-aaaaaa'],
      kept: ['2026-11-21T030000Z-aaaaaa'],
      files: 1,
      bytes: 6,
      busy: false,
    },
  });
  expect([backups(), blobs()]).toEqual([['2026-11-21T030000Z-aaaaaa'], ['aa-new', 'bb-both']]);
  expect(readdirSync(join(target, 'pruning'))).toEqual([]);
});

test('files are kept while a backup runs; leftovers of a killed backup are deleted after a day', async () => {
  backup('2026-11-20T030000Z-aaaaaa', ['aa-old']);
  backup('2026-11-21T030000Z-aaaaaa', ['aa-new']);
  const made = backup('2026-11-21T040000Z-bbbbbb', ['cc-counted-on'], false);
  const busy = await prune('--keep', '1d');
  expect([busy.code, busy.output]).toEqual([0, expect.stringMatching(/A backup is running/)]);
  expect(blobs()).toEqual(['aa-new', 'aa-old', 'cc-counted-on']);
  const before = new Date(Date.now() - 2 * 86_400_000);
  utimesSync(join(made, 'blobs.jsonl'), before, before);
  expect((await prune('--keep', '1d')).code).toBe(0);
  expect([backups(), blobs()]).toEqual([['2026-11-21T030000Z-aaaaaa'], ['aa-new']]);
});

test('two prunes do not run at the same time, and a backup waits for a prune; an old mark is ignored', async () => {
  backup('2026-11-21T030000Z-aaaaaa', ['aa-new']);
  const mark = join(target, 'pruning', 'of-another');
  mkdirSync(join(target, 'pruning'));
  writeFileSync(mark, '');
  const refused = await prune('--keep', '1d');
  expect([refused.code, refused.output]).toEqual([1, expect.stringMatching(/are being removed already/)]);
  let begun = false;
  const waiting = waitForPruning(new FolderTarget(target)).then(() => (begun = true));
  expect(begun).toBe(false);
  const before = new Date(Date.now() - 3_600_000);
  utimesSync(mark, before, before);
  await waiting;
  expect((await prune('--keep', '1d')).code).toBe(0);
});

test('missing or invalid options delete nothing', async () => {
  backup('2026-11-20T030000Z-aaaaaa', []);
  backup('2026-11-21T030000Z-aaaaaa', []);
  for (const [args, said] of [
    [[], /--keep is missing/],
    [['--keep', 'all'], /is not a valid retention rule/],
  ] as const) {
    const { code, output } = await prune(...args);
    expect([code, output]).toEqual([2, expect.stringMatching(said)]);
  }
  expect(backups()).toHaveLength(2);
});
