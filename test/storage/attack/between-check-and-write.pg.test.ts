// A right at the start of a write may be gone at its end: another caller may have written, or the right may have
// ended. Each kind of write is paused after each of its checks.
import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { raw, sql } from '../../../src/postgres/sql.ts';
import { call, openRaw, until, type Answer } from '../conformance/http.ts';
import { aBucket, createWorld, OWN, type World } from '../conformance/world.ts';

let world: World;
beforeAll(async () => {
  world = await createWorld({
    buckets: [aBucket('own', { rls: [OWN] }), aBucket('team')],
  });
  await world.owner.query(raw('create table public.members (user_id text primary key)'));
  await world.owner.query(raw('grant select on public.members to anon, authenticated, service_role'));
  await world.owner.query(
    raw(`create policy team on storage.objects to anon, authenticated using (bucket_id = 'team' and exists (
      select from public.members where user_id = auth.uid()::text))`),
  );
});
afterAll(async () => {
  await world?.stop();
});
afterEach(() => void vi.restoreAllMocks());

const upsert = { 'x-upsert': 'true' };
const at = (name: string): string => `${world.url}/object/own/${name}`;
const post = (path: string, body: object, more: Record<string, string> = {}): Promise<Answer> =>
  call('POST', `${world.url}${path}`, { headers: { ...world.alice.headers, ...more }, body });
const tusHeaders = (bucket: string, name: string): Record<string, string> => ({
  'tus-resumable': '1.0.0',
  'upload-length': '5',
  'upload-metadata': `bucketName ${btoa(bucket)},objectName ${btoa(name)}`,
});
const CHUNK = { 'content-type': 'application/offset+octet-stream' };
const link = async (bucket: string, name: string, headers = world.alice.headers): Promise<string> => {
  const made = await call('POST', `${world.url}/object/upload/sign/${bucket}/${name}`, {
    headers: { ...headers, ...upsert },
  });
  expect(made.status, made.text).toBe(200);
  return made.json.token;
};

/** Each one writes to `own/<name>` as Alice. `needs`: what must exist before. */
const WAYS: ReadonlyArray<{
  readonly way: string;
  readonly needs: 'nothing' | 'object';
  readonly act: (name: string) => Promise<Pick<Answer, 'status'>>;
}> = [
  ...(['nothing', 'object'] as const).flatMap((needs) => [
    {
      way: 'upload',
      needs,
      act: (name: string) =>
        call('POST', at(name), { headers: { ...world.alice.headers, ...upsert }, body: 'alice' }),
    },
    {
      way: 'form',
      needs,
      act: (name: string) => {
        const form = new FormData();
        form.append('', new Blob(['alice']), 'x');
        return call('POST', at(name), { headers: { ...world.alice.headers, ...upsert }, body: form });
      },
    },
    {
      way: 'update',
      needs,
      act: (name: string) => call('PUT', at(name), { headers: world.alice.headers, body: 'alice' }),
    },
    {
      way: 'upload link',
      needs,
      act: async (name: string) => {
        const token = await link('own', name);
        return await call('PUT', `${world.url}/object/upload/sign/own/${name}?token=${token}`, {
          body: 'alice',
        });
      },
    },
    {
      way: 'resumable upload',
      needs,
      act: (name: string) =>
        call('POST', `${world.url}/upload/resumable`, {
          headers: { ...world.alice.headers, ...upsert, ...tusHeaders('own', name), ...CHUNK },
          body: 'alice',
        }),
    },
    {
      way: 'resumable upload with a link',
      needs,
      act: async (name: string) => {
        const headers = { 'x-signature': await link('own', name), 'tus-resumable': '1.0.0' };
        const begun = await call('POST', `${world.url}/upload/resumable/sign`, {
          headers: { ...headers, ...tusHeaders('own', name) },
        });
        if (begun.status !== 201) return begun;
        return await call('PATCH', begun.headers.get('location') ?? '', {
          headers: { ...headers, ...CHUNK, 'upload-offset': '0' },
          body: 'alice',
        });
      },
    },
    {
      way: 'copy',
      needs,
      act: async (name: string) => {
        await call('POST', at(`src-${name}`), { headers: world.alice.headers, body: 'alice' });
        return await post(
          '/object/copy',
          { bucketId: 'own', sourceKey: `src-${name}`, destinationKey: name },
          upsert,
        );
      },
    },
  ]),
  {
    way: 'move away',
    needs: 'object',
    act: (name) =>
      post('/object/move', { bucketId: 'own', sourceKey: name, destinationKey: `${name}-moved` }),
  },
  {
    way: 'delete one',
    needs: 'object',
    act: (name) => call('DELETE', at(name), { headers: world.alice.headers }),
  },
  {
    way: 'delete many',
    needs: 'object',
    act: async (name) => {
      const answer = await call('DELETE', `${world.url}/object/own`, {
        headers: world.alice.headers,
        body: { prefixes: [name] },
      });
      return { ...answer, status: answer.json.length === 0 ? 400 : answer.status };
    },
  },
];

const current = (name: string): Promise<Answer> => call('GET', at(name), { headers: world.bob.headers });

/** Runs `then` once, after the given check of the next requests, and counts the checks. */
function behindCheck(wanted: number, then: () => Promise<void>): { readonly done: () => boolean } {
  const run = world.callers.run.bind(world.callers);
  let seen = 0;
  let busy = false;
  vi.spyOn(world.callers, 'run').mockImplementation(async (caller, statements, options) => {
    const results = await run(caller, statements, options);
    if (busy || statements[0]?.text !== 'begin') return results;
    seen += 1;
    if (seen === wanted) {
      busy = true;
      await then();
      busy = false;
    }
    return results;
  });
  return { done: () => seen >= wanted };
}

describe.each(WAYS)('$way over $needs', ({ needs, act }) => {
  test('does not change an object that another user has written in the meantime', async () => {
    let check = 0;
    for (;;) {
      check += 1;
      const name = `o-${randomUUID()}`;
      if (needs === 'object') await call('POST', at(name), { headers: world.alice.headers, body: 'bob' });
      const { done } = behindCheck(check, async () => {
        if (needs === 'object') {
          await world.owner.query(
            sql`update storage.objects set owner_id = ${world.bob.id} where name = ${name}`,
          );
        } else {
          const made = await call('POST', at(name), { headers: world.bob.headers, body: 'bob' });
          expect(made.status).toBe(200);
        }
      });
      const answer = await act(name);
      vi.restoreAllMocks();
      // Fewer checks than that: the request passed all of them without interference.
      if (!done()) break;
      expect(answer.status, `behind check ${check}`).toBeGreaterThanOrEqual(400);
      expect((await current(name)).text, `behind check ${check}`).toBe('bob');
    }
    expect(check).toBeGreaterThan(1);
  });

  test('succeeds if the caller wrote the object in the meantime', async () => {
    const name = `o-${randomUUID()}`;
    if (needs === 'object') await call('POST', at(name), { headers: world.alice.headers, body: 'x' });
    behindCheck(1, async () => {
      if (needs === 'object') {
        await world.owner.query(
          sql`update storage.objects set last_accessed_at = now() where name = ${name}`,
        );
      } else {
        const made = await call('POST', at(name), { headers: world.alice.headers, body: 'x' });
        expect(made.status).toBe(200);
      }
    });
    const { status } = await act(name);
    expect(status).toBeLessThan(300);
  });
});

describe('a slow upload', () => {
  const begin = async (path: string, headers: Record<string, string>, method = 'POST') => {
    const request = await openRaw(world.url, method, `/storage/v1${path}`, {
      ...headers,
      'content-length': '10',
    });
    request.socket.write('alice');
    return request;
  };
  const pending = (name: string) =>
    until(
      async () =>
        (await world.owner.query(sql`select from storage.pending_blobs where name = ${name}`)).length > 0,
    );

  test('is rejected if the name was taken during the transfer', async () => {
    for (const signed of [false, true]) {
      const name = `slow-${randomUUID()}`;
      const path = signed
        ? `/object/upload/sign/own/${name}?token=${await link('own', name)}`
        : `/object/own/${name}`;
      const request = await begin(
        path,
        signed ? {} : { ...world.alice.headers, ...upsert },
        signed ? 'PUT' : 'POST',
      );
      await pending(name);
      await call('POST', at(name), { headers: world.bob.headers, body: 'bob' });
      request.socket.write('again');
      expect(await request.answered()).toBe(400);
      await until(() => request.received().includes('"403"'));
      expect((await current(name)).text).toBe('bob');
      request.socket.destroy();
    }
  });

  test('is rejected if the right ended during the transfer, also with a link', async () => {
    for (const signed of [false, true]) {
      const name = `slow-${randomUUID()}`;
      await world.owner.query(
        sql`insert into public.members values (${world.alice.id}) on conflict do nothing`,
      );
      const path = signed
        ? `/object/upload/sign/team/${name}?token=${await link('team', name)}`
        : `/object/team/${name}`;
      const request = await begin(path, signed ? {} : world.alice.headers, signed ? 'PUT' : 'POST');
      await pending(name);
      await world.owner.query(raw('delete from public.members'));
      request.socket.write('again');
      expect(await request.answered()).toBe(400);
      await until(() => request.received().includes('"403"'));
      request.socket.destroy();
      expect(await world.owner.query(sql`select from storage.objects where name = ${name}`)).toEqual([]);
    }
    await world.sweep();
  });
});

describe('an upload link', () => {
  test('has the rights of its creator, and is rejected when they end', async () => {
    await world.owner.query(
      sql`insert into public.members values (${world.alice.id}) on conflict do nothing`,
    );
    const first = `l-${randomUUID()}`;
    const token = await link('team', first);
    const use = (name: string, using: string) =>
      call('PUT', `${world.url}/object/upload/sign/team/${name}?token=${using}`, { body: 'x' });
    expect((await use(first, token)).status).toBe(200);
    const second = `l-${randomUUID()}`;
    const later = await link('team', second);
    await world.owner.query(raw('delete from public.members'));
    expect((await use(second, later)).json.statusCode).toBe('403');
  });

  test('of the service can write without a policy', async () => {
    const name = `l-${randomUUID()}`;
    const token = await link('team', name, world.service);
    const done = await call('PUT', `${world.url}/object/upload/sign/team/${name}?token=${token}`, {
      body: 'x',
    });
    expect(done.status).toBe(200);
  });

  test('is checked with the type of the uploaded content', async () => {
    await world.owner.query(
      raw(`create policy texts on storage.objects as restrictive to authenticated
        using (true) with check (bucket_id <> 'own' or metadata->>'mimetype' is distinct from 'image/png')`),
    );
    try {
      const name = `l-${randomUUID()}`;
      const token = await link('own', name);
      const put = (type: string) =>
        call('PUT', `${world.url}/object/upload/sign/own/${name}?token=${token}`, {
          headers: { 'content-type': type },
          body: 'x',
        });
      expect((await put('image/png')).json.statusCode).toBe('403');
      expect((await put('text/plain')).status).toBe(200);
    } finally {
      await world.owner.query(raw('drop policy texts on storage.objects'));
    }
  });

  test('reveals nothing about its creator', async () => {
    const token = await link('own', `l-${randomUUID()}`);
    const payload = Buffer.from(token.split('.')[1] ?? '', 'base64url').toString();
    const { by = '', ...rest } = JSON.parse(payload) as Record<string, string>;
    expect(Object.keys(rest).sort()).toEqual(['exp', 'iat', 'owner', 'scope', 'upsert', 'url']);
    expect(Buffer.from(by, 'base64url').toString('latin1')).not.toContain('authenticated');
  });

  test('without upsert cannot finish a resumable upload with upsert', async () => {
    const name = `l-${randomUUID()}`;
    const begun = await call('POST', `${world.url}/upload/resumable`, {
      headers: { ...world.alice.headers, ...upsert, ...tusHeaders('own', name) },
    });
    const made = await call('POST', `${world.url}/object/upload/sign/own/${name}`, {
      headers: world.alice.headers,
    });
    await call('POST', at(name), { headers: world.alice.headers, body: 'first' });
    const location = (begun.headers.get('location') ?? '').replace('/resumable/', '/resumable/sign/');
    const patched = await call('PATCH', location, {
      headers: { 'x-signature': made.json.token, 'tus-resumable': '1.0.0', ...CHUNK, 'upload-offset': '0' },
      body: 'alice',
    });
    expect(patched.status).toBe(409);
    expect((await call('GET', at(name), { headers: world.alice.headers })).text).toBe('first');
  });
});

test('of many concurrent uploads for one name each gets a response, and one is stored', async () => {
  const name = `m-${randomUUID()}`;
  const bodies = Array.from({ length: 24 }, (_, n) => `body ${n}`);
  const answers = await Promise.all(
    bodies.map((body) => call('PUT', at(name), { headers: world.alice.headers, body })),
  );
  expect(answers.map((answer) => answer.status)).toEqual(bodies.map(() => 200));
  expect(bodies).toContain((await call('GET', at(name), { headers: world.alice.headers })).text);
});
