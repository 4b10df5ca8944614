// Upload slots are scarce. Callers without the right use none, others at most a share, and all protocols count
// together.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { raw } from '../../../src/postgres/sql.ts';
import { call, openRaw, until, type Answer, type RawRequest } from '../conformance/http.ts';
import { aBucket, aPolicy, createWorld, OWN, type User, type World } from '../conformance/world.ts';

const LIMITS = { concurrentUploads: 6, uploadsPerCaller: 3, uploadsPerAddress: 6, anonymousUploads: 4 };
const BUCKETS = [
  aBucket('own', { rls: [OWN] }),
  aBucket('drop', { rls: [aPolicy({ operations: ['insert'], check: 'true' })] }),
];
/** Uploads that send nothing keep their slot. */
let patient: World;
/** Uploads that send nothing are closed early. */
let strict: World;
let world: World;
beforeAll(async () => {
  [patient, strict] = await Promise.all([
    createWorld({ buckets: BUCKETS, storage: { limits: LIMITS }, bodyIdleMs: 100_000 }),
    createWorld({ buckets: BUCKETS, storage: { limits: LIMITS }, bodyIdleMs: 1_500 }),
  ]);
});
beforeEach(() => {
  world = patient;
});
afterAll(async () => {
  await Promise.all([patient?.stop(), strict?.stop()]);
});

const FORM = 'multipart/form-data; boundary=x';
const pending = async (): Promise<number> =>
  (await world.owner.query(raw('select from storage.pending_blobs where expires_at > now()'))).length;
const LENGTH = { 'content-length': '100000' };
const idle = (bucket: string, headers: Record<string, string>): Promise<RawRequest> =>
  openRaw(world.url, 'POST', `/storage/v1/object/${bucket}/${randomUUID()}`, { ...headers, ...LENGTH });
const tusHeaders = (headers: Record<string, string>): Record<string, string> => ({
  ...headers,
  'tus-resumable': '1.0.0',
  'upload-length': '100000',
  'upload-metadata': `bucketName ${btoa('own')},objectName ${btoa(randomUUID())}`,
  'content-type': 'application/offset+octet-stream',
});
const upload = (user: User): Promise<Answer> =>
  call('POST', `${world.url}/object/own/${randomUUID()}`, { headers: user.headers, body: 'x' });
const uploadForm = (headers: Record<string, string>, bucket = 'own'): Promise<Answer> => {
  const form = new FormData();
  form.append('cacheControl', '3600');
  form.append('', new Blob(['x']), 'x');
  return call('POST', `${world.url}/object/${bucket}/${randomUUID()}`, { headers, body: form });
};
/** Closes everything and waits until its slots are free. */
const release = async (requests: readonly RawRequest[]): Promise<void> => {
  for (const { socket } of requests) socket.destroy();
  await until(async () => (await pending()) === 0);
};

test('forms without a file use no slot and are closed', async () => {
  world = strict;
  const forms = await Promise.all(
    Array.from({ length: 40 }, () => idle('own', { ...world.anonymous, 'content-type': FORM })),
  );
  // Some of them have started, with a field and no file.
  for (const { socket } of forms.slice(0, 20))
    socket.write('--x\r\ncontent-disposition: form-data; name="cacheControl"\r\n\r\n1');
  for (let round = 0; round < 3; round++) {
    expect((await upload(world.alice)).status).toBe(200);
    expect((await uploadForm(world.alice.headers)).status).toBe(200);
    expect((await uploadForm(world.anonymous, 'drop')).status).toBe(200);
  }
  for (const form of forms) expect([429, 408]).toContain(await form.answered());
  // The connection is closed too: a client that stalls will not send the rest either.
  await until(() => forms.every(({ socket }) => socket.destroyed || socket.readableEnded));
  expect(forms.some((form) => form.received().includes('"408"'))).toBe(true);
  await release(forms);
});

test('an incomplete form is closed', async () => {
  world = strict;
  const form = await idle('own', { ...world.alice.headers, 'content-type': FORM });
  form.socket.write(
    '--x\r\ncontent-disposition: form-data; name=""; filename="x"\r\n\r\nx\r\n--x\r\ncontent-dis',
  );
  expect(await form.answered()).toBe(408);
  await release([form]);
});

test('callers without the right use no slot', async () => {
  const refused = await Promise.all(Array.from({ length: 10 }, () => idle('own', world.anonymous)));
  for (const request of refused) {
    expect(await request.answered()).toBe(400);
    expect(request.received()).toContain('"403"');
  }
  expect(await pending()).toBe(0);
  await release(refused);
});

test('callers without a user have a share, each and together', async () => {
  const open = await Promise.all(Array.from({ length: 3 }, () => idle('drop', world.anonymous)));
  for (const { socket } of open) socket.write('x');
  await until(async () => (await pending()) === 3);
  const more = await uploadForm(world.anonymous, 'drop');
  expect([more.status, more.json.code, more.headers.get('retry-after')]).toEqual([429, 'SlowDown', '1']);
  expect((await upload(world.alice)).status).toBe(200);
  expect((await uploadForm(world.bob.headers)).status).toBe(200);
  await release(open);
});

test('a user has a share, counted over all protocols', async () => {
  const open = [await idle('own', world.alice.headers), await idle('own', world.alice.headers)];
  open.push(
    await openRaw(world.url, 'POST', '/storage/v1/upload/resumable', {
      ...tusHeaders(world.alice.headers),
      ...LENGTH,
    }),
  );
  for (const { socket } of open) socket.write('x');
  await until(async () => (await pending()) === 3);
  await until(async () => (await upload(world.alice)).status === 429);
  const more = await call('POST', `${world.url}/upload/resumable`, {
    headers: tusHeaders(world.alice.headers),
    body: 'x',
  });
  expect(more.status).toBe(429);
  expect((await upload(world.bob)).status).toBe(200);
  // All of them together are limited to the total.
  const before = await pending();
  const idleUploads = await Promise.all(Array.from({ length: 3 }, () => idle('own', world.bob.headers)));
  for (const { socket } of idleUploads) socket.write('x');
  await until(async () => (await pending()) === before + 3);
  const service = await call('POST', `${world.url}/object/own/${randomUUID()}`, {
    headers: world.service,
    body: 'x',
  });
  expect(service.status).toBe(429);
  for (const { socket } of [...open, ...idleUploads]) socket.destroy();
  await until(async () => (await upload(world.alice)).status === 200);
  await until(async () => (await upload(world.bob)).status === 200);
});
