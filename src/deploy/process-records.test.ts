import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createLog } from '../log/log.ts';
import { ProcessRecords } from './process-records.ts';

const log = createLog({ level: 'silent' });
let directory: string;
let children: ChildProcess[] = [];
beforeEach(() => void (directory = mkdtempSync(join(tmpdir(), 'svc-records-'))));
afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
  rmSync(directory, { recursive: true });
});

async function aProcess(script: string): Promise<ChildProcess & { readonly pid: number }> {
  const child = spawn(process.execPath, ['-e', `${script};setInterval(() => {}, 1e6);console.log('up')`]);
  children.push(child);
  await once(child.stdout, 'data');
  return child as ChildProcess & { readonly pid: number };
}

const DEAF = `process.on('SIGTERM', () => {})`;

// Other systems report no start times, and processes end only with the pipe to their receiver.
test.runIf(['linux', 'darwin'].includes(process.platform))(
  'what a killed receiver has left running is ended, and nothing else',
  async () => {
    const former = await ProcessRecords.open(directory);
    const [polite, deaf, stranger] = await Promise.all([aProcess(''), aProcess(DEAF), aProcess('')]);
    await former.add('polite', polite.pid);
    await former.add('deaf', deaf.pid);
    // The id of a process that has ended, given to another one since.
    const record = JSON.stringify({ pid: stranger.pid, startedAt: 'another boot:1' });
    writeFileSync(join(directory, 'processes/reused.json'), record);
    writeFileSync(join(directory, 'processes/torn.json'), '{"pid":');
    const ends = Promise.all([once(polite, 'exit'), once(deaf, 'exit')]);
    await (await ProcessRecords.open(directory)).endLeftOver(log, 300);
    expect(await ends).toEqual([
      [null, 'SIGTERM'],
      [null, 'SIGKILL'],
    ]);
    expect(stranger.exitCode ?? stranger.signalCode).toBeNull();
    expect(readdirSync(join(directory, 'processes'))).toEqual(['receiver.json']);
  },
);

test('a directory belongs to one receiver that runs', async () => {
  const otherProcess = await aProcess('');
  await (await ProcessRecords.open(directory)).add('receiver', otherProcess.pid);
  await expect(ProcessRecords.open(directory)).rejects.toThrow(
    `(process ${otherProcess.pid}) uses ${directory}`,
  );
  otherProcess.kill('SIGKILL');
  await once(otherProcess, 'exit');
  const next = await ProcessRecords.open(directory);
  await next.close();
  expect(readdirSync(join(directory, 'processes'))).toEqual([]);
});
