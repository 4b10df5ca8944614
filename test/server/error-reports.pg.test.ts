// `SVC_ERROR_WEBHOOK`: the reports that a collector receives from failing functions and from an exiting service.
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { createDatabase } from '../support/database.ts';
import { startSvc } from '../support/svc-process.ts';

const FILES = {
  'svc.yaml': `version: 1
functions: { broken: { runtime: node, file: broken.js } }
`,
  'broken.js': `export default async () => { throw new TypeError('a mistake of the app'); };\n`,
  // Simulates a mistake of svc in a callback.
  'plant.mjs': `process.on('SIGURG', () => setImmediate(() => { throw new Error('uncaught on purpose'); }));\n`,
};

test('failures of functions are sent, and an uncaught exception before the process exits', async () => {
  const got: Array<Record<string, unknown>> = [];
  const collector = createServer((request, response) => {
    void text(request).then((body) => {
      got.push(JSON.parse(body) as Record<string, unknown>);
      response.end();
    });
  }).listen(0, '127.0.0.1');
  await once(collector, 'listening');
  const { port } = collector.address() as AddressInfo;
  const folder = mkdtempSync(join(tmpdir(), 'svc-errors-'));
  for (const [name, content] of Object.entries(FILES)) writeFileSync(join(folder, name), content);
  const database = await createDatabase();
  const svc = await startSvc({
    command: 'serve',
    config: join(folder, 'svc.yaml'),
    env: {
      SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaa',
      SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
      SVC_DATABASE_URL: database.url,
      SVC_ERROR_WEBHOOK: `http://127.0.0.1:${port}/errors`,
      NODE_OPTIONS: `--import ${join(folder, 'plant.mjs')}`,
    },
  });
  try {
    const answer = await fetch(`${svc.url}/functions/v1/broken`, {
      headers: { authorization: 'of a caller' },
    });
    expect(answer.status).toBeGreaterThanOrEqual(500);
    await expect.poll(() => got).toHaveLength(1);
    expect(got[0]).toMatchObject({
      function: 'broken',
      message: expect.stringContaining('a mistake of the app'),
      stack: expect.stringContaining('broken.js'),
      requestId: answer.headers.get('x-request-id'),
      release: expect.stringMatching(/^\d+\.\d+/),
      count: 1,
    });
    expect(JSON.stringify(got)).not.toContain('of a caller');

    const ended = once(svc.child, 'exit');
    svc.child.kill('SIGURG');
    expect((await ended)[0]).toBe(70);
    expect(got[1]).toMatchObject({ message: 'uncaught on purpose' });
    expect(svc.output()).toContain('uncaught exception, exiting');
  } finally {
    await svc.stop();
    await database.drop();
    collector.close();
    rmSync(folder, { recursive: true, force: true });
  }
});
