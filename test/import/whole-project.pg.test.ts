// A whole project: the output of `prepare` is served unchanged, every caller sees the same rows and files as before,
// and the calls of the application return the results of the source database.
import { createClient, type SupabaseClient } from '@supabase/supabase-js';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openBoxes } from '../../src/auth/auth-context.ts';
import { Keyring } from '../../src/identity/keyring.ts';
import { copy } from '../../src/import/copy.ts';
import { storageApi } from '../../src/import/bytes/storage-api.ts';
import { copyFiles } from '../../src/import/files.ts';
import { cutOver, verify } from '../../src/import/finish.ts';
import { prepare } from '../../src/import/prepare.ts';
import { isChange } from '../../src/import/write-users.ts';
import { parseAddress } from '../../src/postgres/address/parse-address.ts';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';
import { provisionAt } from '../support/provision.ts';
import {
  addFile,
  fileContent,
  createCommunity,
  PASSWORD,
  serveFiles,
  userId,
  USERS,
  type FileApi,
} from './community-project.ts';
import { addUser, type SupabaseProject } from './supabase-project.ts';

let project: SupabaseProject;
let api: FileApi;
let text: string;
let world: BackendWorld;
let target: pg.Client;

beforeAll(async () => {
  project = await createCommunity();
  api = await serveFiles();
  text = await prepare(parseAddress(project.url));
  world = await startBackendWorld(text, { importPreview: true, files: { 'note.txt': '' } });
  target = new pg.Client({ connectionString: world.databaseUrl });
  await target.connect();
  await startImport();
});
afterAll(async () => {
  await target?.end();
  await world?.close();
  api?.close();
  await project?.drop();
});

async function options() {
  const { ownerUrl } = await provisionAt(world.databaseUrl);
  const keyring = await Keyring.open(world.owner, { current: world.keys.secret, previous: [] });
  return {
    source: parseAddress(project.url),
    target: parseAddress(ownerUrl),
    secrets: { sourceKeys: new Map<string, Buffer>(), boxes: openBoxes(keyring) },
  };
}

async function startImport() {
  const changes = await copy(await options());
  const files = await copyFiles({
    source: parseAddress(project.url),
    owner: world.owner,
    config: world.options.config,
    bytes: storageApi(api),
  });
  return { changes: changes.filter(isChange), files };
}

type Who = { readonly role: 'anon' | 'authenticated'; readonly id: string | undefined };

const GUEST: Who = { role: 'anon', id: undefined };
const SAMPLED: readonly Who[] = Array.from({ length: 20 }, (_, index) => ({
  role: 'authenticated',
  id: userId(index + 1),
}));

type Database = { query(text: string, values?: unknown[]): Promise<pg.QueryResult> };

/** Returns the database's result under the role and claims of a caller. */
async function runAs(database: Database, { role, id }: Who, query: string, values?: unknown[]) {
  const claims = id === undefined ? { role } : { role, sub: id };
  await database.query('begin read only');
  try {
    await database.query(`set local role ${role}`);
    await database.query(
      `select set_config('request.jwt.claims', $1, true), set_config('timezone', 'UTC', true)`,
      [JSON.stringify(claims)],
    );
    const { rows } = await database.query(query, values);
    return rows;
  } finally {
    await database.query('rollback');
  }
}

test('a policy for one bucket is written under that bucket, a policy for all buckets under each', () => {
  const { storage } = world.options.config;
  const readRules = (name: string): string[] =>
    (storage.find((bucket) => bucket.name === name)?.rls ?? []).map(
      ({ operations, using, withCheck }) =>
        `${operations.join('+')} ${using ?? '-'}${withCheck === undefined ? '' : ` / ${withCheck}`}`,
    );
  const board = "select (storage.foldername(name))[1] = 'board'::text";
  expect(readRules('avatars')).toEqual([
    expect.stringContaining("bucket_id = 'avatars'::text) OR"),
    expect.any(String),
    'select true',
    board,
  ]);
  expect(readRules('papers').join('\n')).not.toContain("bucket_id = 'papers'");
  expect(text).toContain('max_size: 2MB');
});

describe('the same rows are visible before and after', () => {
  const TABLES = ['public.profiles', 'public.teams', 'public.members', 'public.posts', 'public.comments'];
  test.each([...TABLES, 'storage.objects'])('of %s, to a guest and 20 users', async (table) => {
    const key = table === 'public.members' ? `team_id || ' ' || user_id` : 'id::text';
    const query = `select ${key} as key from ${table} order by 1`;
    const seen = new Set<number>();
    for (const who of [GUEST, ...SAMPLED]) {
      const before = await runAs(project, who, query);
      expect(await runAs(target, who, query)).toEqual(before);
      seen.add(before.length);
    }
    // Policies that show everything to everyone would prove nothing.
    expect(seen.size).toBeGreaterThan(1);
  });
});

type Call = {
  readonly name: string;
  /** Query that returns one row with one column `answer`. */
  readonly sql: string;
  readonly values?: unknown[];
  readonly ask: (client: SupabaseClient) => Promise<unknown>;
};

const rowsQuery = (query: string): string => `select coalesce(json_agg(r), '[]') as answer from (${query}) r`;

async function data<T>(answer: PromiseLike<{ data: T; error: unknown }>): Promise<T> {
  const { data: found, error } = await answer;
  expect(error).toBeNull();
  return found;
}

/** Result of a query that may be rejected. */
async function download(client: SupabaseClient, bucket: string, name: string): Promise<string | null> {
  const { data: file } = await client.storage.from(bucket).download(name);
  return file === null ? null : await file.text();
}

async function names(client: SupabaseClient, bucket: string, folder: string): Promise<string[]> {
  const found = await data(client.storage.from(bucket).list(folder, { limit: 1000 }));
  return (found ?? []).map(({ name }) => name).sort();
}

const MAX_ROWS = 1000;
const VISIBLE = `select case when exists (select from storage.objects where bucket_id = $1 and name = $2)
  then to_json($3::text) else 'null' end as answer`;
const LISTED = `select coalesce(json_agg(distinct path_tokens[$3::int] order by path_tokens[$3::int]), '[]') as answer
  from storage.objects where bucket_id = $1 and starts_with(name, $2)`;

const downloading = (bucket: string, name: string): Call => ({
  name: `download ${bucket}/${name}`,
  sql: VISIBLE,
  values: [bucket, name, fileContent(`${bucket}/${name}`).toString()],
  ask: async (client) => await download(client, bucket, name),
});

const listing = (bucket: string, folder: string): Call => ({
  name: `list ${bucket}/${folder}`,
  sql: LISTED,
  values: [bucket, folder === '' ? '' : `${folder}/`, folder === '' ? 1 : folder.split('/').length + 1],
  ask: async (client) => await names(client, bucket, folder),
});

/** The application's calls for a user. `number` varies the calls between users. */
function listCalls({ id }: Who, number: number): Call[] {
  return [
    {
      name: 'profiles',
      sql: rowsQuery('select * from public.profiles order by username'),
      ask: async (client) => await data(client.from('profiles').select().order('username').limit(MAX_ROWS)),
    },
    {
      name: 'profiles by a pattern, a page',
      sql: rowsQuery(
        `select username from public.profiles where username ilike 'USER1%' order by username limit 4 offset 2`,
      ),
      ask: async (client) =>
        await data(
          client
            .from('profiles')
            .select('username')
            .ilike('username', 'USER1%')
            .order('username')
            .range(2, 5),
        ),
    },
    {
      name: 'posts with their authors',
      sql: rowsQuery(`select p.id, p.title, (select row_to_json(a) from
        (select username from public.profiles f where f.id = p.author) a) as writer from public.posts p
          order by id desc`),
      ask: async (client) =>
        await data(
          client
            .from('posts')
            .select('id,title,writer:profiles(username)')
            .order('id', { ascending: false })
            .limit(MAX_ROWS),
        ),
    },
    {
      name: 'posts with their comments',
      sql: rowsQuery(`select p.id, p.rating, (select coalesce(json_agg(c order by c.id), '[]') from
        (select c.id, c.body from public.comments c where c.post_id = p.id) c) as comments
        from public.posts p where p.likes > ${number % 10} order by id`),
      ask: async (client) =>
        await data(
          client
            .from('posts')
            .select('id,rating,comments(id,body)')
            .gt('likes', number % 10)
            .order('id')
            .order('id', { referencedTable: 'comments' })
            .limit(MAX_ROWS),
        ),
    },
    {
      name: 'posts by tag and by a value in JSON',
      sql: rowsQuery(`select id, tags, meta, created_at from public.posts
        where tags @> '{news}' and meta ->> 'kind' = '${'abc'[number % 3]}' order by created_at`),
      ask: async (client) =>
        await data(
          client
            .from('posts')
            .select('id,tags,meta,created_at')
            .contains('tags', ['news'])
            .eq('meta->>kind', 'abc'[number % 3] ?? '')
            .order('created_at')
            .limit(MAX_ROWS),
        ),
    },
    {
      name: 'how many posts are liked or published',
      sql: `select to_json(count(*)) as answer from public.posts where likes > 10 or published is true`,
      ask: async (client) => {
        const { count, error } = await client
          .from('posts')
          .select('*', { count: 'exact', head: true })
          .or('likes.gt.10,published.is.true');
        expect(error).toBeNull();
        return count;
      },
    },
    {
      name: 'own memberships with their teams',
      sql: rowsQuery(`select m.role,
        (select row_to_json(t) from (select name from public.teams t where t.id = m.team_id) t)
        as teams from public.members m where user_id = '${id ?? userId(1)}' and exists
        (select from public.teams t where t.id = m.team_id) order by team_id`),
      ask: async (client) =>
        await data(
          client
            .from('members')
            .select('role,teams!inner(name)')
            .eq('user_id', id ?? userId(1))
            .order('team_id'),
        ),
    },
    {
      name: 'rpc search_posts',
      sql: rowsQuery(`select * from public.search_posts('news')`),
      ask: async (client) => await data(client.rpc('search_posts', { term: 'news' }).limit(MAX_ROWS)),
    },
    {
      name: 'rpc team_size',
      sql: `select to_json(public.team_size(${(number % 6) + 1})) as answer`,
      ask: async (client) => await data(client.rpc('team_size', { team: (number % 6) + 1 })),
    },
    {
      name: 'rpc whoami',
      sql: `select public.whoami() as answer`,
      ask: async (client) => await data(client.rpc('whoami')),
    },
    {
      name: 'a view',
      sql: rowsQuery('select * from public.post_stats where comments > 2 order by id'),
      ask: async (client) =>
        await data(client.from('post_stats').select().gt('comments', 2).order('id').limit(MAX_ROWS)),
    },
    listing('papers', ''),
    listing('shared', 'notes'),
    downloading('papers', `${userId(number || 1)}/letter.txt`),
    downloading('shared', 'notes/3.txt'),
    downloading('papers', `team-${(number % 6) + 1}/plan.txt`),
  ];
}

test('more than 200 calls of the application return the results of the source database', async () => {
  let calls = 0;
  const answers = new Set<string>();
  for (const [number, who] of [GUEST, ...SAMPLED].entries()) {
    const client = createClient(world.url, world.keys.publishable, { auth: { persistSession: false } });
    if (who.id !== undefined) {
      const { data: signedIn, error } = await client.auth.signInWithPassword({
        email: `user${number}@example.com`,
        password: PASSWORD,
      });
      expect(error).toBeNull();
      const [row] = (
        await project.query(
          'select id, email, raw_user_meta_data as user_metadata from auth.users where id = $1',
          [who.id],
        )
      ).rows;
      expect(signedIn.user).toMatchObject(row);
      expect((await client.auth.getUser()).data.user).toMatchObject(row);
      calls += 2;
    }
    for (const { name, sql, values, ask } of listCalls(who, number)) {
      const [expected] = await runAs(project, who, sql, values);
      const answer = await ask(client);
      expect(answer, `${name}, asked by ${who.id ?? 'a guest'}`).toEqual(expected.answer);
      answers.add(`${name} ${JSON.stringify(answer)}`);
      calls += 1;
    }
    await client.auth.stopAutoRefresh();
  }
  console.info(`${calls} calls, ${answers.size} different answers`);
  expect(calls).toBeGreaterThanOrEqual(200);
  // Many callers see different rows.
  expect(answers.size).toBeGreaterThan(100);
});

test('a second import copies only new rows and files', async () => {
  expect(await startImport()).toMatchObject({ changes: [], files: { copied: 0, removed: 0, missing: [] } });
  await addUser(project, { id: userId(99), email: 'user99@example.com' });
  await addFile(project, 'shared', 'board/new.txt', userId(99));
  await project.query(`
    insert into public.posts (author, title, published) values ('${userId(99)}', 'The newest', true);
    update public.comments set body = 'mended' where id = 7; delete from public.comments where id = 8`);
  const { changes, files } = await startImport();
  expect(
    Object.fromEntries(changes.map(({ kind, added, changed, removed }) => [kind, [added, changed, removed]])),
  ).toEqual({
    user: [1, 0, 0],
    identity: [1, 0, 0],
    'public.profiles': [1, 0, 0],
    'public.posts': [1, 0, 0],
    'public.comments': [0, 1, 1],
    sequence: [0, 1, 0],
  });
  expect(files).toMatchObject({ copied: 1, removed: 0, missing: [] });
  expect(await verify(await options())).toEqual([]);
});

test('after the cut-over triggers fire and policies apply to writes', async () => {
  await cutOver({ ...(await options()), dropFactors: false });
  const client = createClient(world.url, world.keys.publishable, { auth: { persistSession: false } });
  const { data: signedUp } = await client.auth.signUp({ email: 'newcomer@example.com', password: PASSWORD });
  const author = signedUp.user?.id;
  expect((await client.from('profiles').select('username').eq('id', author)).data).toEqual([
    { username: 'newcomer' },
  ]);
  const written = await client.from('posts').insert({ author, title: 'Mine' }).select('id,title');
  expect(written.error).toBeNull();
  const foreign = await client.from('posts').insert({ author: userId(USERS), title: 'Not mine' });
  expect(foreign.error?.code).toBe('42501');
  const touched = await client
    .from('posts')
    .update({ title: 'Still mine' })
    .eq('title', 'Mine')
    .select('updated_at');
  expect(touched.data?.[0]?.updated_at).not.toBeNull();
  const own = await client.storage.from('papers').upload(`${author}/mine.txt`, 'mine');
  expect(own.error).toBeNull();
  expect(
    (await client.storage.from('papers').upload(`${userId(1)}/no.txt`, 'not mine')).error,
  ).not.toBeNull();
  await client.auth.stopAutoRefresh();
});
