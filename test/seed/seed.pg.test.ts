// Seeds: users who can sign in, rows and files, each entry once and as a whole.
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createClient, type SupabaseClient } from '@supabase/supabase-js';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import type { Mode } from '../../src/config/mode.ts';
import { raw } from '../../src/postgres/sql.ts';
import { seed, type SeedResult } from '../../src/seed/seed.ts';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';

const SCHEMA = `
version: 1
storage:
  pictures: { public: true, types: [image/*, text/plain] }
tables:
  todos:
    fields:
      - { name: id, type: bigserial, primary_key: true }
      - { name: list_id, required: true, foreign_key: { references: lists.id } }
      - { name: title, type: text, required: true }
      - { name: done, type: boolean, required: true, default: false }
      - { name: tags, type: "text[]" }
      - { name: price, type: numeric }
    rls: [{ operations: [select], using: "list_id in (select id from lists)" }]
  lists:
    fields:
      - { name: id, type: bigint, primary_key: true }
      - { name: owner, required: true, foreign_key: { references: auth.users.id, on_delete: cascade } }
      - { name: title, type: text, required: true }
      - { name: settings, type: jsonb }
    rls: [{ operations: [select], using: owner = auth.uid() }]
  visits:
    fields: [{ name: page, type: text }, { name: details, type: jsonb }]
    rls: []
`;

const DEMO = `
seed:
  - name: demo
    users:
      - { as: ann, email: Ann@example.com, password: ann-password, metadata: { name: Ann } }
      - { as: ben, email: ben@example.com, password: ben-password, app_metadata: { team: red } }
    rows:
      todos:
        - { id: 7, list_id: 1, title: Milk, tags: [food, cold], price: 1.10 }
        - { id: 8, list_id: 2, title: Nails, done: true }
        - { list_id: 2, title: Without a key }
      lists:
        - { id: 1, owner: { user: ann }, title: Shopping, settings: { color: red, deep: [1, 2] } }
        - { id: 2, owner: { user: ben }, title: Tools }
      visits: [{ page: a }, { page: b }]
    objects: { pictures: seed/pictures }
    sql: seed/more.sql
`;

const FILES = {
  'seed/pictures/ann/face.png': 'not really a picture',
  'seed/pictures/note.txt': 'hello',
  'seed/pictures/.hidden': 'of the machine',
  'seed/more.sql': `insert into visits values ('c'); insert into visits values ('d');`,
};

let world: BackendWorld;
beforeEach(async () => {
  world = await startBackendWorld(SCHEMA, { files: FILES });
});
afterEach(async () => {
  await world.close();
});

type Options = {
  readonly mode?: Mode;
  readonly names?: string[];
  readonly again?: boolean;
  readonly files?: Record<string, string>;
};

async function run(
  seeds: string,
  { mode = 'development', files = {}, ...rest }: Options = {},
): Promise<readonly SeedResult[]> {
  const { directory, owner } = world;
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(directory, path)), { recursive: true });
    writeFileSync(join(directory, path), text);
  }
  const loaded = loadConfig(
    { name: 'svc.yaml', directory, text: SCHEMA + seeds },
    { variables: { PASSWORD: 'from outside' } },
  );
  if (!loaded.ok) throw new Error(loaded.mistakes.map(({ message }) => message).join('\n'));
  return await seed({ owner, config: loaded.config, mode, ...rest });
}

const client = (): SupabaseClient =>
  createClient(world.url, world.keys.publishable, { auth: { persistSession: false } });

async function signedIn(email: string, password: string): Promise<SupabaseClient> {
  const user = client();
  const { error } = await user.auth.signInWithPassword({ email, password });
  expect(error).toBeNull();
  return user;
}

const numbers = async (): Promise<unknown> =>
  (
    await world.owner.query(
      raw(`select (select count(*) from auth.users)::int as users, (select count(*) from lists)::int as lists,
        (select count(*) from todos)::int as todos, (select count(*) from visits)::int as visits,
        (select count(*) from storage.objects)::int as objects, (select count(*) from svc_meta.seed)::int as seeds`),
    )
  )[0];

test('users sign in, rows belong to them, files are served, and a second run has nothing to do', async () => {
  expect(await run(DEMO)).toEqual([{ name: 'demo', users: 2, rows: 7, objects: 2 }]);
  const all = { users: 2, lists: 2, todos: 3, visits: 4, objects: 2, seeds: 1 };
  expect(await numbers()).toEqual(all);

  const ann = await signedIn('ann@example.com', 'ann-password');
  const { data: lists } = await ann.from('lists').select('title, settings, todos(title, tags, price)');
  expect(lists).toEqual([
    {
      title: 'Shopping',
      settings: { color: 'red', deep: [1, 2] },
      todos: [{ title: 'Milk', tags: ['food', 'cold'], price: 1.1 }],
    },
  ]);
  const { data: user } = await ann.auth.getUser();
  expect(user.user?.user_metadata).toMatchObject({ name: 'Ann' });
  const ben = await signedIn('ben@example.com', 'ben-password');
  expect((await ben.auth.getUser()).data.user?.app_metadata).toMatchObject({
    team: 'red',
    provider: 'email',
  });

  const picture = await fetch(ann.storage.from('pictures').getPublicUrl('ann/face.png').data.publicUrl);
  expect([picture.status, picture.headers.get('content-type'), await picture.text()]).toEqual([
    200,
    'image/png',
    'not really a picture',
  ]);

  expect(await run(DEMO)).toEqual([]);
  // Rows without a key are known by nothing: only the SQL file, which is its author's business, runs again.
  expect(await run(DEMO, { again: true })).toEqual([{ name: 'demo', users: 0, rows: 0, objects: 0 }]);
  expect(await numbers()).toEqual({ ...all, visits: 6 });
});

test('the counter of a column continues after explicit ids', async () => {
  await run(DEMO);
  const admin = createClient(world.url, world.keys.secret);
  const { data, error } = await admin
    .from('todos')
    .insert({ list_id: 1, title: 'Next' })
    .select('id')
    .single();
  expect([error, Number(data?.id) > 8]).toEqual([null, true]);
});

test('a counter beyond the explicit ids does not change', async () => {
  const counter = `pg_get_serial_sequence('todos', 'id')`;
  await world.owner.query(raw(`select setval(${counter}, 100)`));
  await run(`
seed:
  - name: given
    users: [{ as: ann, email: ann@example.com, password: ann-password }]
    rows:
      lists: [{ id: 1, owner: { user: ann }, title: Shopping }]
      todos: [{ id: 7, list_id: 1, title: Milk }]
`);
  const next = await world.owner.query(raw(`select nextval(${counter})::int as id`));
  expect(next).toEqual([{ id: 101 }]);
});

test('an edited entry runs again: rows are kept, or brought up to date', async () => {
  const entry = (title: string, rest = ''): string => `
seed:
  - name: one
${rest}    users: [{ as: ann, email: ann@example.com, password: ann-password, metadata: { name: ${title} } }]
    rows: { lists: [{ id: 1, owner: { user: ann }, title: ${title} }] }
`;
  const title = async (): Promise<unknown> =>
    (
      await world.owner.query(
        raw(`select l.title, u.raw_user_meta_data ->> 'name' as name from lists l, auth.users u`),
      )
    )[0];
  await run(entry('First'));
  expect(await run(entry('Second'))).toMatchObject([{ users: 0, rows: 0 }]);
  expect(await title()).toEqual({ title: 'First', name: 'First' });
  expect(await run(entry('Third', '    on_conflict: update\n'))).toMatchObject([{ users: 1, rows: 1 }]);
  expect(await title()).toEqual({ title: 'Third', name: 'Third' });
  await signedIn('ann@example.com', 'ann-password');
});

test('a file whose bytes changed is replaced', async () => {
  await run(DEMO);
  expect(await run(DEMO, { files: { 'seed/pictures/note.txt': 'hello again' } })).toMatchObject([
    { objects: 1 },
  ]);
  const { data } = client().storage.from('pictures').getPublicUrl('note.txt');
  expect(await (await fetch(data.publicUrl)).text()).toBe('hello again');
});

test.each([
  [
    'csv',
    'id,owner_email,title\n',
    'list_id,title,done\n1,"Milk, cold",true\n1,NULL,false\n',
    'seed/todos.csv, row 2',
  ],
  ['json', '', '[{"list_id":1,"title":"Milk"},{"list_id":99,"title":"Nowhere"}]', 'seed/todos.json, row 2'],
  [
    'ndjson',
    '',
    '{"list_id":1,"title":"Milk"}\n\n{"list_id":1,"title":"Eggs","done":"perhaps"}\n',
    'seed/todos.ndjson, row 2',
  ],
])(
  'rows from %s; one that is refused is named, and nothing of its entry is left',
  async (kind, _header, text, place) => {
    const good = `
seed:
  - name: demo
    users: [{ as: ann, email: ann@example.com, password: ann-password }]
    rows:
      lists: [{ id: 1, owner: { user: ann }, title: Shopping }]
      todos: { file: seed/todos.${kind} }
    objects: { pictures: seed/pictures }
`;
    const path = `seed/todos.${kind}`;
    await expect(run(good, { files: { [path]: text } })).rejects.toThrow(place);
    expect(await numbers()).toEqual({ users: 0, lists: 0, todos: 0, visits: 0, objects: 0, seeds: 0 });
    const lines = text.split('\n').filter((line) => line !== '');
    const first =
      kind === 'csv'
        ? lines.slice(0, 2).join('\n')
        : kind === 'json'
          ? '[{"list_id":1,"title":"Milk, cold"}]'
          : lines[0];
    expect(await run(good, { files: { [path]: first ?? '' } })).toMatchObject([
      { users: 1, rows: 2, objects: 2 },
    ]);
  },
);

test('a CSV cell of a json column contains JSON, and empty lines are skipped', async () => {
  const entry = `
seed:
  - name: demo
    users: [{ as: ann, email: ann@example.com, password: ann-password }]
    rows:
      lists: [{ id: 1, owner: { user: ann }, title: Shopping }]
      visits: { file: seed/visits.csv }
`;
  const settings = async (): Promise<unknown> =>
    (await world.owner.query(raw('select page, details::text from visits order by page'))).map((row) =>
      Object.values(row),
    );
  const text = '\ufeffpage,details\r\na,"{""k"": [1, 2]}"\r\n\r\nb,\r\nc,null\r\n"",12\r\n\r\n';
  expect(await run(entry, { files: { 'seed/visits.csv': text } })).toMatchObject([{ rows: 5 }]);
  expect(await settings()).toEqual([
    ['', '12'],
    ['a', '{"k": [1, 2]}'],
    ['b', null],
    ['c', 'null'],
  ]);
  const broken = entry.replace('name: demo', 'name: broken');
  await expect(run(broken, { files: { 'seed/visits.csv': 'page,details\na,1\nb,{x' } })).rejects.toThrow(
    'seed/visits.csv, row 2: the row of visits is refused: invalid input syntax for type json',
  );
});

test('seed files may begin with a byte order mark', async () => {
  for (const [kind, text] of [
    ['json', '[{"page":"a"}]'],
    ['ndjson', '{"page":"b"}\n{"page":"c"}\n'],
  ] as const) {
    const entry = `
seed:
  - name: ${kind}
    rows: { visits: { file: seed/visits.${kind} } }
    sql: seed/again.sql
`;
    const files = { [`seed/visits.${kind}`]: `\ufeff${text}`, 'seed/again.sql': '\ufeffselect 1;' };
    expect(await run(entry, { files })).toHaveLength(1);
  }
  expect(await numbers()).toMatchObject({ visits: 3 });
});

test('a row of svc.yaml that is refused is named by its line', async () => {
  const lines = `${SCHEMA}${DEMO}`.replace('title: Nails', 'title: null').split('\n');
  const line = lines.findIndex((text) => text.includes('title: null')) + 1;
  await expect(run(DEMO.replace('title: Nails', 'title: null'))).rejects.toThrow(`svc.yaml:${line}`);
  expect(await numbers()).toMatchObject({ users: 0, lists: 0, seeds: 0 });
});

test('a SQL file that fails or ends the transaction leaves nothing behind', async () => {
  await expect(run(DEMO, { files: { 'seed/more.sql': 'select nothing_like_this' } })).rejects.toThrow(
    /seed\/more\.sql/,
  );
  await expect(run(DEMO, { files: { 'seed/more.sql': 'rollback; begin;' } })).rejects.toThrow(
    /ends the transaction/,
  );
  expect(await numbers()).toEqual({ users: 0, lists: 0, todos: 0, visits: 0, objects: 0, seeds: 0 });
});

test('entries run in their modes, or by name', async () => {
  const seeds = `
seed:
  - { name: always, rows: { visits: [{ page: a }] } }
  - name: admin
    modes: [production]
    users: [{ as: admin, email: admin@example.com, password: "\${PASSWORD}" }]
`;
  expect(await run(seeds, { mode: 'staging' })).toEqual([]);
  expect((await run(seeds, { mode: 'production' })).map(({ name }) => name)).toEqual(['admin']);
  await signedIn('admin@example.com', 'from outside');
  expect((await run(seeds, { mode: 'test', names: ['always'] })).map(({ name }) => name)).toEqual(['always']);
  await expect(run(seeds, { names: ['admin'] })).rejects.toThrow(/not for development/);
  await expect(run(seeds, { names: ['amin'] })).rejects.toThrow(/no seed amin/);
});

test('concurrent runs seed once', async () => {
  const seeds =
    'seed:\n  - { name: one, rows: { visits: [{ page: a }] }, ' +
    'users: [{ as: ann, email: ann@example.com, password: ann-password }] }\n';
  await Promise.all([run(seeds), run(seeds), run(seeds)]);
  expect(await numbers()).toMatchObject({ users: 1, visits: 1 });
});
