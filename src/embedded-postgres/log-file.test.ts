import { appendFileSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openLogFile, type LogFile } from './log-file.ts';

let folder: string;
let path: string;
let log: LogFile;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'svc-log-'));
  path = join(folder, 'postgres.log');
  writeFileSync(path, 'an earlier start\n');
  log = await openLogFile(path, undefined);
});
afterEach(async () => {
  await log.close();
  rmSync(folder, { recursive: true, force: true });
});

test('the tail begins where this start began', async () => {
  appendFileSync(path, 'ready\n');
  expect(await log.tail()).toBe('ready\n');
});

test('a log that was truncated between reads has an empty tail', async () => {
  truncateSync(path);
  expect(await log.tail()).toBe('');
});
