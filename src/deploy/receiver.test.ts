import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { silentLog } from '../log/log.ts';
import { PREFIX, SHA256_HEADER } from './api.ts';
import { Receiver } from './receiver.ts';

const TOKEN = 'a-deploy-token-that-only-tests-know';

let directory: string;
let receiver: Receiver;
let url: string;
beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'svc-receiver-'));
  receiver = await Receiver.open({
    directory,
    token: TOKEN,
    env: {},
    launcher: '',
    log: silentLog,
    onOutput: () => {},
    trustedProxies: [],
  });
  const port = await receiver.listen(0, '127.0.0.1');
  url = `http://127.0.0.1:${port}${PREFIX}/projects/${receiver.projectId}/deployments`;
});
afterEach(async () => {
  await receiver.close();
  rmSync(directory, { recursive: true, force: true });
});

test('an upload that fails leaves nothing behind and does not block the next one', async () => {
  for (let upload = 1; upload <= 2; upload++) {
    const answer = await fetch(url, {
      method: 'POST',
      headers: { authorization: `Bearer ${TOKEN}`, [SHA256_HEADER]: 'another' },
      body: 'half of an archive',
    });
    expect([answer.status, await answer.json()]).toEqual([
      400,
      expect.objectContaining({ code: 'hash_mismatch' }),
    ]);
    expect(readdirSync(join(directory, 'releases'))).toEqual([]);
  }
});
