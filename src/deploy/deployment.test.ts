// The probation of a new release. A stub takes the place of the release and of its process.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { silentLog } from '../log/log.ts';
import { Deployment } from './deployment.ts';
import { LiveRelease } from './live-release.ts';
import type { Release } from './release.ts';
import { ReleaseStore } from './release-store.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'svc-deployment-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

/** Answers the probes with these, then with true. */
async function deploy(answers: boolean[]): Promise<Pick<Deployment, 'status' | 'message'>> {
  const release = {
    id: 'new',
    running: true,
    output: '',
    build: () => Promise.resolve(),
    start: () => Promise.resolve(),
    stop: () => Promise.resolve(),
    remove: () => Promise.resolve(),
    isReady: () => Promise.resolve(answers.shift() ?? true),
  } as unknown as Release;
  const deployment = new Deployment({
    id: 'new',
    release: () => release,
    live: new LiveRelease(silentLog),
    store: await ReleaseStore.open(directory),
    log: silentLog,
    probationMs: 3_000,
  });
  await deployment.run(join(directory, 'archive'));
  const { status, message } = deployment;
  return { status, message };
}

test('a release that misses four probes in a row is rolled back', async () => {
  expect(await deploy([false, false, false, false])).toEqual({
    status: 'failed',
    message: 'The release did not stay healthy',
  });
});

test('a release that answers again after three missed probes passes its probation', async () => {
  expect(await deploy([false, false, false, true, false])).toEqual({ status: 'live', message: undefined });
});
