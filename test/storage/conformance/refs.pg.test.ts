// Columns that reference objects: `ref: storage.<bucket>` with `on_delete`. The triggers are created like in the
// migration engine. Callers write the rows, because their rights decide which objects may be deleted.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { raw, sql } from '../../../src/postgres/sql.ts';
import { call, type Answer } from './http.ts';
import { aBucket, aPolicy, createWorld, OWN, type User, type World } from './world.ts';

let world: World;
const refTriggers = (table: string, column: string, onDelete: 'cascade' | 'keep'): string => `
  create trigger svc_ref_${column} after insert or delete or update of ${column}, id on ${table}
    for each row execute function storage.track_ref('${column}', 'files', '${onDelete}', 'id');
  create trigger svc_ref_${column}_truncate before truncate on ${table}
    for each statement execute function storage.truncate_refs('${column}');`;

beforeAll(async () => {
  world = await createWorld({
    buckets: [
      aBucket('files', {
        rls: [
          OWN,
          // Readable by everyone, so that another user can know the path.
          aPolicy({ operations: ['select'], using: 'true' }),
        ],
      }),
      aBucket('common', {
        rls: [
          aPolicy({ operations: ['select', 'insert', 'update', 'delete'], check: 'auth.is_authenticated()' }),
        ],
      }),
    ],
  });
  await world.owner.query(
    raw(`
    create table albums (id int primary key);
    create table posts (id int primary key, image text, kept text,
      album int references albums on delete cascade, by text default auth.uid()::text);
    create table galleries (id int primary key, images text[], first uuid);
    create table loose (id int primary key, image text);
    grant all on albums, posts, galleries, loose to anon, authenticated, service_role;
    ${refTriggers('posts', 'image', 'cascade')}
    ${refTriggers('posts', 'kept', 'keep')}
    ${refTriggers('galleries', 'images', 'cascade')}
    ${refTriggers('galleries', 'first', 'cascade')}
  `),
  );
});
afterAll(() => world?.stop());
beforeEach(() =>
  world.owner.query(raw('delete from posts; delete from galleries; delete from albums; delete from loose;')),
);

const as = (user: User, text: string): Promise<unknown> =>
  world.callers.run(
    { role: 'authenticated', claims: JSON.stringify({ role: 'authenticated', sub: user.id }) },
    [{ text, values: [] }],
  );
const upload = async (user = world.alice, bucket = 'files'): Promise<{ name: string; id: string }> => {
  const name = `f-${randomUUID().slice(0, 8)}.txt`;
  const answer = await call('POST', `${world.url}/object/${bucket}/${name}`, {
    headers: user.headers,
    body: 'content',
  });
  expect(answer.status).toBe(200);
  return { name, id: answer.json.Id };
};
const read = (name: string, bucket = 'files'): Promise<Answer> =>
  call('GET', `${world.url}/object/${bucket}/${name}`, { headers: world.service });
const gone = async (name: string): Promise<boolean> => {
  await world.sweep();
  return (await read(name)).json.code === 'NoSuchKey';
};

test('the object and its bytes are deleted with the row', async () => {
  const { name } = await upload();
  await as(world.alice, `insert into posts (id, image) values (1, '${name}')`);
  const before = (await world.storage.sweepOrphans({ minAgeMs: 0, dryRun: true })).blobs;
  await as(world.alice, 'delete from posts where id = 1');
  expect(await gone(name)).toBe(true);
  expect((await world.storage.sweepOrphans({ minAgeMs: 0, dryRun: true })).blobs).toBe(before - 1);
});

test('without cascade the object is kept', async () => {
  const { name } = await upload();
  await as(world.alice, `insert into posts (id, kept) values (1, '${name}')`);
  await as(world.alice, 'delete from posts where id = 1');
  expect(await gone(name)).toBe(false);
});

test('a deletion that is rolled back deletes nothing', async () => {
  const { name } = await upload();
  await as(world.alice, `insert into posts (id, image) values (1, '${name}')`);
  await world.owner
    .transaction(async (transaction) => {
      await transaction.query(raw('delete from posts'));
      throw new Error('changed my mind');
    })
    .catch(() => {});
  expect(await gone(name)).toBe(false);
});

test('the object is deleted with a row deleted by a foreign key', async () => {
  const { name } = await upload();
  await as(world.alice, `insert into albums values (1)`);
  await as(world.alice, `insert into posts (id, image, album) values (1, '${name}', 1)`);
  await as(world.bob, 'delete from albums');
  expect(await gone(name)).toBe(true);
});

test('takeover: a reference to an object of another user deletes nothing', async () => {
  const { name } = await upload(world.alice);
  await as(world.bob, `insert into posts (id, image) values (1, '${name}')`);
  await as(world.bob, 'delete from posts where id = 1');
  expect(await gone(name)).toBe(false);
  // Also not by an update, by id, in a list, or before the object exists.
  const { name: second, id } = await upload(world.alice);
  await as(world.bob, `insert into posts (id) values (2)`);
  await as(world.bob, `update posts set image = '${second}' where id = 2`);
  await as(world.bob, `insert into galleries values (1, array['${second}', 'other'], '${id}')`);
  await as(world.bob, 'delete from posts where id = 2');
  await as(world.bob, 'delete from galleries');
  expect(await gone(second)).toBe(false);
  const later = `later-${randomUUID()}`;
  await as(world.bob, `insert into posts (id, image) values (3, '${later}')`);
  await call('POST', `${world.url}/object/files/${later}`, { headers: world.alice.headers, body: 'x' });
  await as(world.bob, 'delete from posts where id = 3');
  expect(await gone(later)).toBe(false);
});

test('a reference to a former object deletes no object of the new owner of the name', async () => {
  const { name } = await upload(world.alice);
  const again = (user: User) =>
    call('POST', `${world.url}/object/files/${name}`, { headers: user.headers, body: 'x' });
  const remove = (user: User) =>
    call('DELETE', `${world.url}/object/files/${name}`, { headers: user.headers });
  await as(world.alice, `insert into posts (id, image) values (1, '${name}')`);
  expect((await remove(world.alice)).status).toBe(200);
  expect((await again(world.bob)).status).toBe(200);
  await as(world.alice, 'delete from posts where id = 1');
  expect(await gone(name)).toBe(false);
  // Also not if the object changed its owner in place, by truncation, or through the foreign key.
  expect((await remove(world.bob)).status).toBe(200);
  expect((await again(world.alice)).status).toBe(200);
  await as(world.alice, 'insert into albums values (1)');
  await as(world.alice, `insert into posts (id, image, album) values (2, '${name}', 1)`);
  await as(world.alice, `insert into galleries (id, images) values (2, array['${name}'])`);
  await world.owner.query(sql`update storage.objects set owner_id = ${world.bob.id} where name = ${name}`);
  await as(world.alice, 'delete from albums');
  await world.owner.query(raw('truncate galleries'));
  expect(await gone(name)).toBe(false);
  // A new object of the same user under the same name is deleted as before.
  expect((await remove(world.bob)).status).toBe(200);
  expect((await again(world.alice)).status).toBe(200);
  await as(world.alice, `insert into posts (id, image) values (3, '${name}')`);
  await remove(world.alice);
  await again(world.alice);
  await as(world.alice, 'delete from posts where id = 3');
  expect(await gone(name)).toBe(true);
});

test('the takeover through an elevated function is prevented too', async () => {
  const { name } = await upload(world.alice);
  await world.owner.query(
    raw(`create function post(image text) returns void language sql security definer
      as $$ insert into posts (id, image) values (9, image) $$;
      grant execute on function post(text) to authenticated`),
  );
  await as(world.bob, `select post('${name}')`);
  await as(world.bob, 'delete from posts where id = 9');
  expect(await gone(name)).toBe(false);
  await as(world.alice, `select post('${name}')`);
  await as(world.bob, 'delete from posts where id = 9');
  expect(await gone(name)).toBe(true);
});

test('an object that its owner uploaded after the reference is deleted with it', async () => {
  const later = `later-${randomUUID()}`;
  await as(world.alice, `insert into posts (id, image) values (1, '${later}')`);
  await call('POST', `${world.url}/object/files/${later}`, { headers: world.alice.headers, body: 'x' });
  await as(world.alice, 'delete from posts');
  expect(await gone(later)).toBe(true);
});

test('the last reference decides', async () => {
  const { name } = await upload();
  await as(world.alice, `insert into posts (id, image) values (1, '${name}'), (2, '${name}')`);
  await as(world.alice, 'delete from posts where id = 1');
  expect(await gone(name)).toBe(false);
  await as(world.alice, 'delete from posts where id = 2');
  expect(await gone(name)).toBe(true);
});

test('the object is deleted when its table is truncated', async () => {
  const { name } = await upload();
  await as(world.alice, `insert into posts (id, image) values (1, '${name}')`);
  await world.owner.query(raw('truncate posts'));
  expect(await gone(name)).toBe(true);
});

test('an update neither deletes the old object nor forgets the new one', async () => {
  const [one, two] = [await upload(), await upload()];
  await as(world.alice, `insert into posts (id, image) values (1, '${one.name}')`);
  await as(world.alice, `update posts set image = '${two.name}' where id = 1`);
  expect(await gone(one.name)).toBe(false);
  await as(world.alice, 'update posts set id = 5 where id = 1');
  await as(world.alice, 'delete from posts');
  expect([await gone(one.name), await gone(two.name)]).toEqual([false, true]);
});

test('lists and ids', async () => {
  const [one, two, three] = [await upload(), await upload(), await upload()];
  await as(
    world.alice,
    `insert into galleries values (1, array['${one.name}', '${two.name}', '${one.name}'], '${three.id}')`,
  );
  await as(world.alice, 'delete from galleries');
  expect([await gone(one.name), await gone(two.name), await gone(three.name)]).toEqual([true, true, true]);
});

test('a delete policy has the same effect as ownership', async () => {
  const { name } = await upload(world.alice, 'common');
  await world.owner.query(
    raw(`create trigger svc_ref_image after insert or delete or update of image, id on loose
      for each row execute function storage.track_ref('image', 'common', 'cascade', 'id')`),
  );
  await as(world.bob, `insert into loose values (1, '${name}')`);
  await as(world.bob, 'delete from loose');
  await world.sweep();
  expect((await read(name, 'common')).json.code).toBe('NoSuchKey');
});

test('references of earlier rows, and of a column that is no longer a reference', async () => {
  const [one, two] = [await upload(), await upload()];
  await world.owner.query(raw(`alter table posts disable trigger svc_ref_image`));
  await as(world.alice, `insert into posts (id, image) values (1, '${one.name}'), (2, '${two.name}')`);
  await world.owner.query(raw(`alter table posts enable trigger svc_ref_image`));
  await world.owner.query(
    sql`select storage.adopt_refs('posts'::regclass, 'image', 'files', 'cascade', '{id}')`,
  );
  await as(world.bob, 'delete from posts where id = 1');
  expect(await gone(one.name)).toBe(true);
  await world.owner.query(sql`select storage.forget_refs('posts'::regclass, 'image')`);
  await as(world.alice, 'delete from posts where id = 2');
  expect(await gone(two.name)).toBe(false);
});

test('callers cannot write the bookkeeping themselves', async () => {
  for (const statement of [
    `select storage.put_ref('files', 'x', 'posts'::regclass, 'image', '[1]', 'cascade', true, null)`,
    `select storage.drop_refs('posts'::regclass, 'image', '[1]', true)`,
    `select storage.adopt_refs('posts'::regclass, 'image', 'files', 'cascade', '{id}')`,
    `select storage.forget_refs('posts'::regclass, 'image')`,
    `insert into storage.ref_deletions (bucket_id, object_key, granted) values ('files', 'x', true)`,
    `insert into storage.object_refs values ('files', 'x', 1, 'c', '[1]', 'cascade', true, null)`,
    'select * from storage.blob_gc',
    'select * from storage.settings',
    'select * from storage.resumable_uploads',
    'select * from storage.pending_blobs',
    'truncate storage.objects',
  ]) {
    await expect(as(world.bob, statement), statement).rejects.toMatchObject({ code: '42501' });
  }
});
