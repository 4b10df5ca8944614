// Which settings of a request the database uses: what is not found here is not sent.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createDatabase, templateDatabase, type TestDatabase } from '../../test/support/database.ts';
import { OwnerDatabase } from '../postgres/owner-database.ts';
import { raw } from '../postgres/sql.ts';
import { provisionAt } from '../../test/support/provision.ts';
import { introspect } from './introspect.ts';
import { parseAddress } from '../postgres/address/parse-address.ts';

let database: TestDatabase;
let owner: OwnerDatabase;

beforeAll(async () => {
  const template = await templateDatabase('provisioned', async (url) => {
    await provisionAt(url);
  });
  database = await createDatabase({ template });
  const { ownerUrl } = await provisionAt(database.url);
  owner = new OwnerDatabase({
    address: parseAddress(ownerUrl),
    applicationName: 'test',
    max: 1,
    idleTimeoutMs: 1_000,
  });
});

afterAll(async () => {
  await owner.close();
  await database.drop();
});

const ALL = [
  'request.cookies',
  'request.headers',
  'request.method',
  'request.path',
  'response.headers',
  'response.status',
];

const EXPRESSIONS: readonly [string, string[]][] = [
  ['null', []],
  ["current_setting('app.tenant', true)", []],
  ["current_setting('request.jwt.claims', true)", []],
  ["current_setting('request.headers', true)", ['request.headers']],
  ["set_config('response.status', '201', true)", ['response.status']],
  ["current_setting('request' || '.headers', true)", ALL],
  ["current_setting('request.' || 'method', true)", ALL],
  ["current_setting(concat('req', 'uest.headers'), true)", ALL],
  ["CURRENT_SETTING ( lower('REQUEST.HEADERS'), true)", ALL],
  ["set_config(reverse('sutats.esnopser'), '201', true)", ALL],
];

test.each(EXPRESSIONS)('%s', async (expression, expected) => {
  for (const body of [`as $body$ select ${expression} $body$`, `return ${expression}`]) {
    await owner.query(raw(`create or replace function public.uses() returns text language sql ${body}`));
    const { usedSettings } = await introspect(owner, ['public']);
    expect([...usedSettings].sort(), body).toEqual(expected);
    await owner.query(raw('drop function public.uses()'));
  }
});

test.each(EXPRESSIONS)('in a policy, a default, a check and a view: %s', async (expression, expected) => {
  const text = `coalesce(${expression}, '')`;
  for (const [where, use] of [
    ['using', `create policy uses on public.things for select using (${text} <> 'x')`],
    ['check of a policy', `create policy uses on public.things for insert with check (${text} <> 'x')`],
    ['default', `alter table public.things alter column name set default ${text}`],
    ['check', `alter table public.things add constraint uses check (name <> ${text})`],
    ['view', `create view public.seen as select name from public.things where name <> ${text}`],
  ] as const) {
    await owner.query(raw('create table public.things (name text)'));
    await owner.query(raw(use));
    const { usedSettings } = await introspect(owner, ['public']);
    expect([...usedSettings].sort(), where).toEqual(expected);
    await owner.query(raw('drop table public.things cascade'));
  }
});
