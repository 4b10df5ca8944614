// Relationships of views: the data API embeds the same forms as PostgREST.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../../support/database.ts';
import { hasPostgrest, startPostgrest, type PostgrestProcess } from '../../support/peers/postgrest.ts';
import { createRestWorld, send, type RestWorld } from '../../support/rest-world.ts';

type Form = readonly [name: string, kind: '' | 'materialized', query: string, embeds: string];

const FORMS: readonly Form[] = [
  ['plain', '', 'select * from projects', 'tasks teams'],
  ['renamed', '', 'select id as number, team_id as crew, name as title from projects', 'tasks teams'],
  [
    'expressions',
    '',
    'select id, team_id, upper(name) as name, team_id + 1 as more from projects',
    'tasks teams',
  ],
  [
    'filtered',
    '',
    'select id, team_id from projects where id > 0 order by name desc, team_id limit 10',
    'tasks teams',
  ],
  [
    'distincts',
    '',
    'select distinct on (p.team_id) p.team_id, p.id from projects p order by p.team_id, p.name desc',
    'tasks teams',
  ],
  [
    'grouped',
    '',
    `select p.id, p.name, p.team_id, count(t.id) as n from projects p
      left join tasks t on t.project_id = p.id group by p.id`,
    'tasks teams',
  ],
  [
    'grouped_by_team',
    '',
    `select team_id, count(*) as n, max(name) filter (where id > 1) as last from projects group by team_id
      having count(*) > 0`,
    'teams',
  ],
  [
    'two_arguments',
    '',
    `select p.id, p.team_id, string_agg(t.title, ', ') as titles from projects p
      join tasks t on t.project_id = p.id group by p.id`,
    'tasks teams',
  ],
  [
    'ordered_aggregate',
    '',
    `select p.team_id, p.id, array_agg(t.title order by t.place desc, t.id) as titles from projects p
      join tasks t on t.project_id = p.id group by p.id`,
    'tasks teams',
  ],
  [
    'json_aggregate',
    '',
    `select p.id, p.team_id, jsonb_agg(jsonb_build_object('id', t.id, 'title', t.title)) as list
      from projects p join tasks t on t.project_id = p.id group by p.id, p.team_id`,
    'tasks teams',
  ],
  [
    'percentile',
    '',
    `select p.id, p.team_id, percentile_cont(0.5) within group (order by t.place) as middle from projects p
      join tasks t on t.project_id = p.id group by p.id`,
    'tasks teams',
  ],
  [
    'counted',
    '',
    'select p.id, p.team_id, (select count(*) from tasks t where t.project_id = p.id) as n from projects p',
    'tasks teams',
  ],
  [
    'member_filter',
    '',
    'select p.team_id, p.id from projects p where exists (select 1 from tasks t where t.project_id = p.id)',
    'tasks teams',
  ],
  [
    'in_filter',
    '',
    `select p.name, p.id, p.team_id from projects p
      where p.id in (select project_id from tasks) and p.team_id = any (array(select id from teams))`,
    'tasks teams',
  ],
  [
    'with_query',
    '',
    `with busy as (select project_id, count(*) as n from tasks group by project_id) select b.n, p.id,
      p.team_id from projects p join busy b on b.project_id = p.id`,
    'tasks teams',
  ],
  [
    'from_with_query',
    '',
    'with own as (select team_id, id from projects) select id, team_id from own',
    'tasks teams',
  ],
  [
    'windowed',
    '',
    'select row_number() over (partition by team_id order by name desc) as place, id, team_id from projects',
    'tasks teams',
  ],
  [
    'lateral_join',
    '',
    `select p.id, l.title, p.team_id from projects p
      left join lateral (select t.title from tasks t where t.project_id = p.id
      order by t.place desc limit 1) l on true`,
    'tasks teams',
  ],
  [
    'nested',
    '',
    'select s.id, s.team_id from (select name, id, team_id from (select * from projects) as deep) as s',
    'tasks teams',
  ],
  [
    'using_join',
    '',
    'select id, team_id from projects join (select id from teams) as t(team_id) using (team_id)',
    'tasks teams',
  ],
  [
    'two_tables',
    '',
    'select t.id as task, t.project_id, p.team_id from tasks t join projects p on p.id = t.project_id',
    'projects teams',
  ],
  ['over_view', '', 'select number, crew from renamed', 'tasks teams'],
  ['over_grouped', '', 'select n, id, team_id from grouped', 'tasks teams'],
  [
    'cased',
    '',
    `select case when exists (select from tasks t where t.project_id = p.id) then 'busy' else 'idle'
      end as state, coalesce(p.name, ' :targetList ({') as name, p.id, p.team_id from projects p`,
    'tasks teams',
  ],
  [
    'odd_names',
    '',
    'select name as ":resno 1", id as "a (b} \\c", team_id as "<>" from projects',
    'tasks teams',
  ],
  ['stored', 'materialized', 'select id, team_id from projects', 'tasks teams'],
  [
    'stored_counts',
    'materialized',
    'select p.id, p.team_id, count(t.id) as n from projects p left join tasks t on t.project_id = p.id group by p.id',
    'tasks teams',
  ],
  [
    'stored_filter',
    'materialized',
    `select id, team_id, (select max(place) from tasks t where t.project_id = p.id) as last from projects p
      where exists (select from teams)`,
    'tasks teams',
  ],
  ['united', '', 'select id, team_id from projects union all select id, team_id from projects', ''],
  [
    'recursive',
    '',
    `with recursive r(id, team_id) as (select id, team_id from projects where id = 1
      union select p.id, p.team_id from projects p join r on r.id + 1 = p.id) select id, team_id from r`,
    '',
  ],
  ['computed', '', 'select id + 0 as id, nullif(team_id, 0) as team_id from projects', ''],
];

const SQL = `
create table teams (id int primary key, name text);
create table projects (id int primary key, gone int, team_id int references teams, name text);
create table tasks (id int primary key, project_id int references projects, title text, place int);
alter table projects drop column gone;
insert into teams values (1, 'red'), (2, 'blue');
insert into projects values (1, 1, 'one'), (2, 1, 'two'), (3, 2, 'three');
insert into tasks values (1, 1, 'a', 1), (2, 1, 'b', 2), (3, 2, 'c', 1);
${FORMS.map(([name, kind, query]) => `create ${kind} view ${name} as ${query};`).join('\n')}
grant select on all tables in schema public to anon;
`;

let database: TestDatabase;
let world: RestWorld;
let postgrest: PostgrestProcess | undefined;

beforeAll(async () => {
  database = await createDatabase();
  world = await createRestWorld({
    url: database.url,
    sql: SQL,
    exposed: FORMS.map(([name]) => name),
  });
  if (hasPostgrest) postgrest = await startPostgrest(world.authenticatorUrl);
});

afterAll(async () => {
  await postgrest?.stop();
  await world.close();
  await database.drop();
});

test.each(FORMS)('a view embeds the tables behind it: %s', async (name, _kind, _query, embeds) => {
  for (const table of ['teams', 'projects', 'tasks']) {
    const path = `/${name}?select=*,embedded:${table}(id)&embedded.order=id`;
    const ours = await world.send(path);
    const expected = embeds.split(' ').includes(table);
    expect(`${table} ${ours.status}`, ours.text).toBe(`${table} ${expected ? 200 : 400}`);
    // The other direction, from the table to its view.
    const back = `/${table}?select=id,embedded:${name}(*)&order=id`;
    const oursBack = await world.send(back);
    expect(`${table} ${oursBack.status}`, oursBack.text).toBe(`${table} ${expected ? 200 : 400}`);
    if (!postgrest) continue;
    const theirs = await send(`${postgrest.url}${path}`, { apikey: null });
    if (expected) expect(inOrder(ours.json)).toEqual(inOrder(theirs.json));
    else expect(ours.json).toMatchObject({ code: 'PGRST200' });
    const theirsBack = await send(`${postgrest.url}${back}`, { apikey: null });
    expect([theirs.status, theirsBack.status]).toEqual([ours.status, oursBack.status]);
    if (expected) expect(inOrder(oursBack.json)).toEqual(inOrder(theirsBack.json));
  }
});

/** Sorts all lists, because views do not define an order. */
function inOrder(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(inOrder).toSorted((a, b) => (text(a) < text(b) ? -1 : 1));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .map(([key, inner]): [string, unknown] => [key, inOrder(inner)])
      .toSorted(([a], [b]) => (a < b ? -1 : 1)),
  );
}

function text(value: unknown): string {
  return JSON.stringify(value);
}
