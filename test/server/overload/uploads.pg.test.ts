// Slots for uploads: they are acquired after the policy has agreed, and no address gets more than its share.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { raw } from '../../../src/postgres/sql.ts';
import { startBackendWorld, type BackendWorld } from '../../support/backend-world.ts';
import { sendRaw, type RawExchange } from '../../support/network/raw-http.ts';

const FILE = `
version: 1
server:
  trusted_proxies: [loopback]
  timeouts: { body_idle: 60s }
storage:
  drop: { rls: [{ operations: [insert], with_check: "true" }] }
`;

let world: BackendWorld;
let count = 0;
beforeAll(async () => {
  world = await startBackendWorld(FILE);
});
afterAll(() => world.close());

/** Sends the head of an upload, and only `begun` of its body. */
function begin(from: string, type: string, begun = ''): RawExchange {
  const head = [
    `POST /storage/v1/object/drop/${count++} HTTP/1.1`,
    'Host: x',
    `apikey: ${world.keys.publishable}`,
    `X-Forwarded-For: ${from}`,
    `Content-Type: ${type}`,
    'Content-Length: 100000',
  ];
  return sendRaw(world.url, `${head.join('\r\n')}\r\n\r\n${begun}`);
}

async function upload(from: string, body: string | FormData): Promise<number> {
  const answer = await fetch(`${world.url}/storage/v1/object/drop/${count++}`, {
    method: 'POST',
    headers: { apikey: world.keys.publishable, 'x-forwarded-for': from },
    body,
  });
  return answer.status;
}

function form(): FormData {
  const made = new FormData();
  made.append('cacheControl', '3600');
  made.append('', new Blob(['x']), 'x');
  return made;
}

test('two hundred idle uploads of one address do not block uploads of others', async () => {
  const idle = Array.from({ length: 200 }, () => begin('10.0.0.1', 'multipart/form-data; boundary=x'));
  const plain = Array.from({ length: 40 }, () => begin('10.0.0.1', 'text/plain', 'x'));
  // Uploads beyond the share of the address.
  const refused = (): number =>
    plain.filter((exchange) => exchange.received().startsWith('HTTP/1.1 429')).length;
  await expect.poll(refused).toBe(15);
  for (let n = 0; n < 3; n++) {
    expect(await upload('10.0.0.2', form())).toBe(200);
    expect(await upload('10.0.0.2', 'x')).toBe(200);
  }
  expect(await upload('10.0.0.1', 'x')).toBe(429);
  for (const { socket } of [...idle, ...plain]) socket.destroy();
  await expect.poll(() => upload('10.0.0.1', 'x')).toBe(200);
});

test('an upload with a broken body releases its slot', async () => {
  const head =
    `POST /storage/v1/object/drop/broken HTTP/1.1\r\nHost: x\r\napikey: ${world.keys.publishable}\r\n` +
    'X-Forwarded-For: 10.0.0.3\r\nTransfer-Encoding: chunked\r\n\r\n';
  for (let n = 0; n < 5; n++) {
    const broken = sendRaw(world.url, `${head}1\r\nx\r\n`);
    // Wait until the upload occupies its slot.
    await expect.poll(pending).toBe(1);
    broken.socket.write('zz\r\n');
    expect((await broken.closed).text).toMatch(/^HTTP\/1\.1 400 /);
    await expect.poll(pending).toBe(0);
  }
  expect(await upload('10.0.0.3', 'x')).toBe(200);
});

async function pending(): Promise<number> {
  return (await world.owner.query(raw('select from storage.pending_blobs where expires_at > now()'))).length;
}
