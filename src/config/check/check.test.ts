// Broken files, one mistake each, with everything that is said about it: place, code, words, what to do.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { loadConfig, type Loaded } from '../load.ts';
import { renderPath, type Mistake } from '../mistakes/mistake.ts';

const directory = mkdtempSync(join(tmpdir(), 'svc-check-'));
writeFileSync(join(directory, 'hello.js'), '');
afterAll(() => rmSync(directory, { recursive: true }));

const V = 'version: 1\n';
const table = (fields: string, more = '  rls: []'): string =>
  `version: 1\ntables:\n  t:\n  ${more}\n    fields:\n${fields}\n`;

function load(text: string, variables: Record<string, string> = {}): Loaded {
  return loadConfig({ name: 'svc.yaml', directory, text }, { variables });
}

/** Tables of these cases are as short as can be. */
const unlessKeyless = ({ code }: Mistake): boolean => code !== 'no-primary-key';

function listErrors(text: string, variables: Record<string, string> = {}): readonly Mistake[] {
  const loaded = load(text, variables);
  return loaded.ok ? [] : loaded.mistakes.filter(({ severity }) => severity === 'error');
}

const place = ({ path, position }: Mistake): string =>
  `${renderPath(path)} ${position.line}:${position.column}`.trim();

test.each([
  ['a policy', 'tables: { t: { rls: [{ operations: [select], using: true, owner_id = auth.uid() }] } }'],
  ['a view', 'views: { v: { query: select id, owner_id from t } }'],
  ['a function', 'rpc: { f: { returns: int, body: select 1, 2 } }'],
  ['a seed', 'seed: { rows: { t: [{ a: one, two }] } }'],
  ['an index', 'tables: { t: { indexes: [{ columns: [a], where: b in (1, 2) }] } }'],
])('SQL or text in %s that a comma cuts is a mistake', (_name, text) => {
  expect(listErrors(V + text).map(({ message }) => message)).toContainEqual(
    expect.stringContaining('has no colon'),
  );
});

test('a condition whose quoted text has a comma and a colon is not read as another key', () => {
  const text = `tables: { t: { rls: [{ operations: [select], using: x = 'a, b: c' }] } }`;
  expect(listErrors(V + text).map(({ code }) => code)).toContain('unknown-key');
});

test('a policy without a condition stays a mistake', () => {
  const policy = (using: string): string =>
    `tables: { t: { rls: [{ operations: [select], using: ${using} }], fields: [{ name: id, type: int }] } }`;
  for (const empty of ['', '~', 'null', '""'])
    expect(listErrors(V + policy(empty)).map(({ path }) => renderPath(path))).toContain(
      'tables.t.rls[0].using',
    );
});

describe('one mistake, one message', () => {
  test.each<[string, string, string, string, string, string | undefined]>([
    [
      'a trusted proxy that is a name',
      V + 'server: { trusted_proxies: [10.0.0.0/8, lb.internal] }',
      'server.trusted_proxies[1] 2:41',
      'bad-value',
      '"lb.internal" is no address',
      'Write an address (192.0.2.1), a range (10.0.0.0/8, 2001:db8::/32), loopback or private.',
    ],
    [
      'an origin with a path',
      V + 'server: { cors: { origins: ["https://a.b/c"] } }',
      'server.cors.origins[0] 2:29',
      'bad-value',
      '"https://a.b/c" is not an origin',
      'An origin is scheme, host and port, with nothing behind: no path and no slash.',
    ],
    [
      'an origin that is none',
      V + 'server: { cors: { origins: [app.example.com] } }',
      'server.cors.origins[0] 2:29',
      'bad-value',
      '"app.example.com" is not an origin',
      'An origin is scheme and host: https://app.example.com; "*" allows all.',
    ],
    [
      'a timeout of nothing',
      V + 'server: { timeouts: { request: 0s } }',
      'server.timeouts.request 2:32',
      'bad-value',
      '"0s" must be at least 1ms',
      'Write request: 1ms or more.',
    ],
    [
      'requests that end before they have been held as long as they may',
      V + 'server: { timeouts: { request: 4s } }\ndatabase: { failover_wait: 4s }',
      'database.failover_wait 3:28',
      'conflict',
      'requests end after 4s, before they would have been held for 4s',
      'Write less than server.timeouts.request.',
    ],
    [
      'requests held for too long',
      V + 'database: { failover_wait: 21s }',
      'database.failover_wait 2:28',
      'bad-value',
      '"21s" must be at most 20s',
      'Write failover_wait: 20s or less.',
    ],
    [
      'a timeout no timer can wait',
      V + 'server: { timeouts: { upload: 30d } }',
      'server.timeouts.upload 2:31',
      'bad-value',
      '"30d" must be at most 24d',
      'Write upload: 24d or less.',
    ],
    [
      'a size of nothing',
      V + 'storage: { pics: { max_size: 0 } }',
      'storage.pics.max_size 2:30',
      'bad-value',
      '"0" must be more than nothing',
      'A size is a number and a unit, as in max_size: 500KB, 5MB or 1GB.',
    ],
    [
      'a key of another section',
      V + 'port: 8080',
      'port 2:1',
      'unknown-key',
      'there is no key "port" at the top level',
      'It belongs elsewhere: server.port.',
    ],
    [
      's3 with half of its credentials',
      V + 'providers: { storage: { type: s3, s3: { bucket: b, access_key_id: x } } }',
      'providers.storage.s3 2:35',
      'missing-key',
      '"secret_access_key" is missing',
      'Give both, or neither to take the credentials of the environment.',
    ],
    [
      'an endpoint that is no URL',
      V + 'providers: { storage: { type: s3, s3: { bucket: b, endpoint: "minio:9000" } } }',
      'providers.storage.s3.endpoint 2:62',
      'bad-value',
      '"minio:9000" is not a URL',
      'For example https://store.example.com:9000.',
    ],
    [
      'smtp without a url',
      V + 'providers: { email: { type: smtp, default_from_email: a@b.c } }',
      'providers.email 2:14',
      'missing-key',
      '"url" is missing',
      'Write url: ${SMTP_URL}, for example smtp://user:password@host:587.',
    ],
    [
      'an smtp url with a slash in its password',
      V + 'providers: { email: { type: smtp, url: "smtp://me:a/b@host", default_from_email: a@b.c } }',
      'providers.email.url 2:40',
      'bad-value',
      'this is not the address of a mail server',
      'For example smtp://user:password@host:587; write / @ # ? and % in the password as %2F %40 %23 %3F %25.',
    ],
    [
      'a mail nobody sends',
      V + 'auth: { email: { templates: { confrim: { subject: x } } } }',
      'auth.email.templates.confrim 2:31',
      'unknown-key',
      'no mail is called "confrim"',
      'Did you mean confirm?',
    ],
    [
      'one mail under two names',
      V + 'auth: { email: { templates: { confirm: { subject: x }, signup: { subject: y } } } }',
      'auth.email.templates.signup 2:56',
      'duplicate',
      'confirm and signup are the same mail',
      'Merge the two.',
    ],
    [
      'a body_file that is a directory',
      V + 'auth: { email: { templates: { confirm: { body_file: . } } } }',
      'auth.email.templates.confirm.body_file 2:53',
      'missing-file',
      '. is not a file',
      'Name the file itself.',
    ],
    [
      'a provider that is not built in',
      V +
        'auth: { oauth: { gogle: { client_id: a, client_secret: b, redirect_url: https://x/auth/v1/callback/gogle } } }',
      'auth.oauth.gogle 2:18',
      'unknown-key',
      'no provider called "gogle" is built in',
      'Did you mean google?',
    ],
    [
      'keycloak without its realm',
      V +
        'auth: { oauth: { keycloak: { client_id: a, client_secret: b, redirect_url: https://x/auth/v1/callback/keycloak } } }',
      'auth.oauth.keycloak 2:18',
      'missing-key',
      '"url" is missing',
      'Write the realm: url: https://host/realms/<realm>.',
    ],
    [
      'a provider without a secret',
      V + 'auth: { oauth: { google: { client_id: a, redirect_url: https://x/auth/v1/callback/google } } }',
      'auth.oauth.google.client_secret 2:18',
      'missing-key',
      '"client_secret" is missing',
      'The provider shows it where the application is registered; write ${NAME} and set NAME.',
    ],
    [
      'an issuer that is no URL',
      V +
        'auth: { oauth: { acme: { client_id: a, client_secret: b, issuer: acme, redirect_url: https://x/auth/v1/callback/acme } } }',
      'auth.oauth.acme.issuer 2:66',
      'bad-value',
      '"acme" is not a URL',
      'For example https://login.example.com.',
    ],
    [
      'a callback with a query',
      V +
        'auth: { oauth: { google: { client_id: a, client_secret: b, redirect_url: "https://x/?/auth/v1/callback/google" } } }',
      'auth.oauth.google.redirect_url 2:74',
      'bad-value',
      '"https://x/?/auth/v1/callback/google" is not this service’s callback',
      'It ends in /auth/v1/callback/google: {base_url}/auth/v1/callback/google.',
    ],
    [
      'a redirect that is no URL',
      V + 'auth: { redirect_urls: [app.example.com] }',
      'auth.redirect_urls[0] 2:25',
      'bad-value',
      '"app.example.com" is not a URL such as https://app.example.com',
      'redirect_urls: Where a browser may be sent after sign-in; the server’s own origin always.',
    ],
    [
      'a system column',
      table('      - { name: ctid, type: text }'),
      'tables.t.fields[0].name 6:17',
      'reserved-name',
      'a column cannot be called ctid: PostgreSQL has columns of that name',
      'Choose another name.',
    ],
    [
      'a column of the migrations',
      table('      - { name: svc_n_a, type: text }'),
      'tables.t.fields[0].name 6:17',
      'reserved-name',
      'a column cannot be called svc_n_a: migrations use columns of that name',
      'Choose another name.',
    ],
    [
      'a name called __proto__',
      V + 'tables: { __proto__: { rls: [], fields: [{ name: a, type: int }] } }',
      'tables.__proto__ 2:11',
      'reserved-name',
      'nothing can be called __proto__',
      'Choose another name.',
    ],
    [
      'a name with a byte too many in a column',
      table(`      - { name: ${'x'.repeat(64)}, type: text }`),
      'tables.t.fields[0].name 6:17',
      'name-too-long',
      'the name is 64 bytes long; PostgreSQL keeps 63 and would cut the rest',
      'Choose a shorter name.',
    ],
    [
      'a column renamed from itself',
      table('      - { name: a, type: text, renamed_from: a }'),
      'tables.t.fields[0].renamed_from 6:46',
      'conflict',
      'a cannot be renamed from itself',
      'Remove renamed_from.',
    ],
    [
      'a column renamed from one that is still there',
      table('      - { name: a, type: text, renamed_from: b }\n      - { name: b, type: text }'),
      'tables.t.fields[0].renamed_from 6:46',
      'conflict',
      'b is still declared here, so a cannot have been it',
      'Remove the old declaration. To swap two names, deploy a third name first.',
    ],
    [
      'two functions of one origin',
      V +
        'rpc:\n  f: { renamed_from: x, body: x, returns: { type: int } }\n  g: { renamed_from: x, body: x, returns: { type: int } }',
      'rpc.g.renamed_from 4:22',
      'conflict',
      'both f and g claim to have been x',
      'Only one can keep its data: remove renamed_from from the other.',
    ],
    [
      'bounds of text',
      table('      - { name: a, type: text, min: 1 }'),
      'tables.t.fields[0].min 6:32',
      'conflict',
      'min bounds numbers, and a holds text',
      'For a length write check: length(…) <= ….',
    ],
    [
      'a pattern of a number',
      table('      - { name: a, type: integer, pattern: "^1" }'),
      'tables.t.fields[0].pattern 6:35',
      'conflict',
      'pattern is for text, and a holds integer',
      'Write it as check: ….',
    ],
    [
      'bounds that only differ in the last of many digits',
      table('      - { name: a, type: numeric, min: 9007199254740993, max: 9007199254740992 }'),
      'tables.t.fields[0].max 6:63',
      'conflict',
      'max (9007199254740992) is less than min (9007199254740993): no value fits',
      'Swap the two.',
    ],
    [
      'a default below min',
      table('      - { name: a, type: int, min: 5, default: 4 }'),
      'tables.t.fields[0].default 6:48',
      'conflict',
      'the default 4 is less than min allows',
      'Change the default, or min.',
    ],
    [
      'a default that is a call to nobody',
      table('      - { name: a, type: uuid, default: auth.uid() }'),
      'tables.t.fields[0].default 6:41',
      'bad-value',
      'auth.uid() would be taken as text, not called',
      'Write default: { sql: auth.uid() }.',
    ],
    [
      'a call that is nearly right',
      table('      - { name: a, type: uuid, default: uuid_v6() }'),
      'tables.t.fields[0].default 6:41',
      'bad-value',
      'uuid_v6() would be taken as text, not called',
      'Did you mean uuid_v4()?',
    ],
    [
      'a call of the column’s inferred type',
      table('      - { name: a, default: auth.uid(), foreign_key: { references: auth.users.id } }'),
      'tables.t.fields[0].default 6:29',
      'bad-value',
      'auth.uid() would be taken as text, not called',
      'Write default: { sql: auth.uid() }.',
    ],
    [
      'a word of SQL',
      table('      - { name: a, type: timestamptz, default: current_timestamp }'),
      'tables.t.fields[0].default 6:48',
      'bad-value',
      'current_timestamp would be taken as text, not called',
      'Did you mean now()?',
    ],
    [
      'a default that is no number',
      table('      - { name: a, type: integer, default: many }'),
      'tables.t.fields[0].default 6:44',
      'bad-value',
      '"many" is no value of integer',
      'Correct one of the two.',
    ],
    [
      'a default that is no uuid',
      table('      - { name: a, type: uuid, default: "1234" }'),
      'tables.t.fields[0].default 6:41',
      'bad-value',
      '"1234" is no value of uuid',
      'For a random one write uuid_v7().',
    ],
    [
      'a number for a truth value',
      table('      - { name: a, type: boolean, default: 1 }'),
      'tables.t.fields[0].default 6:44',
      'bad-value',
      '1 is no value of boolean',
      'Write true or false.',
    ],
    [
      'a truth value for a number',
      table('      - { name: a, type: integer, default: true }'),
      'tables.t.fields[0].default 6:44',
      'bad-value',
      'true is no value of integer',
      'Correct one of the two.',
    ],
    [
      'a list for a text',
      table('      - { name: a, type: text, default: [x] }'),
      'tables.t.fields[0].default 6:41',
      'bad-value',
      'a list is no value of text',
      'Correct one of the two.',
    ],
    [
      'a list with a hole',
      table('      - { name: a, type: "text[]", default: [x, null] }'),
      'tables.t.fields[0].default[1] 6:49',
      'bad-value',
      'a list default holds no null',
      'Write { sql: … } for that.',
    ],
    [
      'a map for a text',
      table('      - { name: a, type: text, default: { x: 1 } }'),
      'tables.t.fields[0].default 6:41',
      'bad-value',
      'a map is no value of text',
      'For an expression write { sql: … }.',
    ],
    [
      'a number outside the enum',
      table('      - { name: a, type: int, enum: [1, 2], default: 3 }'),
      'tables.t.fields[0].default 6:54',
      'conflict',
      'the default 3 is not among the values of enum',
      'Add it to enum, or choose another default.',
    ],
    [
      'a table in another schema',
      V +
        'tables:\n  a: { schema: app, rls: [], fields: [{ name: id, type: int, primary_key: true }] }\n  b: { rls: [], fields: [{ name: x, foreign_key: { references: a.id } }] }',
      'tables.b.fields[0].foreign_key.references 4:64',
      'unknown-reference',
      'there is no table a',
      'Write app.a.id.',
    ],
    [
      'a reference to half of a key',
      V +
        'tables:\n  a: { rls: [], fields: [{ name: x, type: int, primary_key: true }, { name: y, type: int, primary_key: true }] }\n  b: { rls: [], fields: [{ name: x, foreign_key: { references: a.x } }] }',
      'tables.b.fields[0].foreign_key.references 4:64',
      'conflict',
      'a.x is not unique, so nothing can refer to it',
      'Give x unique: true, or refer to the primary key.',
    ],
    [
      'a reference to what is unique among some rows only',
      V +
        'tables:\n  a: { rls: [], fields: [{ name: id, type: int, primary_key: true }, { name: x, type: int }], indexes: [{ columns: [x], unique: true, where: x > 0 }] }\n  b: { rls: [], fields: [{ name: x, foreign_key: { references: a.x } }] }',
      'tables.b.fields[0].foreign_key.references 4:64',
      'conflict',
      'a.x is not unique, so nothing can refer to it',
      'Give x unique: true, or refer to the primary key.',
    ],
    [
      'on_delete beside the foreign key',
      table('      - { name: a, on_delete: cascade, foreign_key: { references: auth.users.id } }'),
      'tables.t.fields[0].on_delete 6:20',
      'conflict',
      'on_delete here belongs to ref',
      'For the foreign key write it inside: foreign_key: { references: …, on_delete: … }.',
    ],
    [
      'an operation twice',
      table('      - { name: a, type: int }', '  rls: [{ operations: [select, select], using: true }]'),
      'tables.t.rls[0].operations[1] 4:34',
      'duplicate',
      'select is listed twice',
      'Remove one of the two.',
    ],
    [
      'a time for a column of another type',
      table('      - { name: a, type: int, on_update: now() }'),
      'tables.t.fields[0].on_update 6:42',
      'conflict',
      'now() is a time, and a holds int',
      'Use a column of type timestamptz, or write { sql: … }.',
    ],
    [
      'a row for new users with a column that is not there',
      table('      - { name: a, type: int, unique: true }', '  on_new_user: { b: id }'),
      'tables.t.on_new_user.b 4:20',
      'unknown-reference',
      'the table t has no column b',
      'Its columns: a.',
    ],
    [
      'a row for new users that lacks a required column',
      table(
        '      - { name: a, type: int, required: true }\n      - { name: b, type: uuid }',
        '  on_new_user: { b: id }',
      ),
      'tables.t.on_new_user 4:5',
      'missing-key',
      'a of t must have a value, so nobody could sign up',
      'Add a: …, or give the column a default.',
    ],
    [
      'a trigger at the top of the file',
      `version: 1\ntriggers: []\n`,
      'triggers 2:1',
      'unknown-key',
      'there is no key "triggers" at the top level',
      'A trigger belongs to its table: tables.<name>.triggers; those of the users to auth.triggers.',
    ],
    [
      'a trigger that calls nothing',
      `version: 1\nrpc: { note: { returns: { type: trigger }, body: begin return new; end } }\ntables:\n  t:\n    rls: []\n    fields: [{ name: a, type: int, primary_key: true }]\n    triggers: [{ timing: after, events: insert, call: nte }]\n`,
      'tables.t.triggers[0].call 7:55',
      'unknown-reference',
      'there is no function nte under rpc',
      'Did you mean note?',
    ],
    [
      'a trigger that calls what returns something else',
      `version: 1\nrpc: { note: { returns: { type: void }, body: begin end } }\ntables:\n  t:\n    rls: []\n    fields: [{ name: a, type: int, primary_key: true }]\n    triggers: [{ timing: after, events: insert, call: note }]\n`,
      'tables.t.triggers[0].call 7:55',
      'conflict',
      'the function note returns void, and a trigger calls what returns trigger',
      'Write rpc.note: { returns: { type: trigger }, … }.',
    ],
    [
      'a trigger of a column that is not there',
      table(
        '      - { name: name, type: text, primary_key: true }',
        '  triggers: [{ timing: after, events: update, of: nmae, call: x.f }]',
      ),
      'tables.t.triggers[0].of 4:53',
      'unknown-reference',
      'the table t has no column nmae',
      'Did you mean name?',
    ],
    [
      'a trigger for each row of a truncate',
      table(
        '      - { name: a, type: int, primary_key: true }',
        '  triggers: [{ timing: after, events: truncate, call: x.f }]',
      ),
      'tables.t.triggers[0].events 4:41',
      'conflict',
      'truncate removes all rows at once: a trigger at it runs once for the statement',
      'Add each: statement.',
    ],
    [
      'a trigger in other words',
      table(
        '      - { name: a, type: int, primary_key: true }',
        '  triggers: [{ timing: after, events: delete, for: statement, call: x.f }]',
      ),
      'tables.t.triggers[0].for 4:49',
      'unknown-key',
      'there is no key "for" here',
      'Did you mean each?',
    ],
    [
      'a trigger that cannot be put off',
      table(
        '      - { name: a, type: int, primary_key: true }',
        '  triggers: [{ timing: before, events: delete, constraint: {}, call: x.f }]',
      ),
      'tables.t.triggers[0].constraint 4:50',
      'conflict',
      'a constraint trigger runs after each row',
      'Write timing: after and each: row, or remove constraint.',
    ],
    [
      'the same trigger of the users twice',
      `version: 1\nauth:\n  triggers:\n    - { timing: after, events: insert, call: x.f }\n    - { timing: after, events: insert, call: x.f }\n`,
      'auth.triggers[1] 5:7',
      'duplicate',
      'triggers[0] is at the same moment and calls the same function',
      'Give both a name.',
    ],
    [
      'a name that svc uses',
      `version: 1\nauth:\n  triggers: [{ name: svc_new_user_x, timing: after, events: insert, call: x.f }]\n`,
      'auth.triggers[0].name 3:22',
      'reserved-name',
      'a trigger cannot be called svc_new_user_x: svc has triggers of such names',
      'Choose another name.',
    ],
    [
      'a function for triggers with arguments',
      `version: 1\nrpc: { f: { returns: { type: trigger }, args: [{ name: a, type: int }], body: begin return new; end } }\n`,
      'rpc.f.args 2:41',
      'conflict',
      'a function for triggers has no arguments',
      'Remove args: it finds what the trigger passes in TG_ARGV.',
    ],
    [
      'a sign-in for what nobody can call',
      `version: 1\nrpc: { f: { returns: { type: int }, auth_required: true, expose: false, body: begin return 1; end } }\n`,
      'rpc.f.auth_required 2:37',
      'conflict',
      'the function is not served, so nobody is asked to sign in',
      'Remove auth_required.',
    ],
    [
      'two ways to say a part of an index',
      table('      - { name: a, type: int }', '  indexes: [{ columns: [{ column: a, expression: a + 1 }] }]'),
      'tables.t.indexes[0].columns[0].expression 4:40',
      'conflict',
      'the entry is either a column or an expression',
      'Remove one of the two.',
    ],
    [
      'an order where there is none',
      table(
        '      - { name: a, type: int }',
        '  indexes: [{ columns: [{ column: a, order: desc }], using: gin }]',
      ),
      'tables.t.indexes[0].columns[0].order 4:40',
      'conflict',
      'an index of kind gin has no order',
      'Remove order.',
    ],
    [
      'a policy for the secret key',
      table(
        '      - { name: a, type: int }',
        '  rls: [{ operations: [all], to: [anon, service_role], using: true }]',
      ),
      'tables.t.rls[0].to[1] 4:43',
      'conflict',
      'service_role passes every policy, so none can be for it',
      'Leave it out.',
    ],
    [
      'a policy for everybody and one more',
      table(
        '      - { name: a, type: int }',
        '  rls: [{ operations: [all], to: [public, anon], using: true }]',
      ),
      'tables.t.rls[0].to[0] 4:37',
      'conflict',
      'public is every role, so the others say nothing',
      'Write to: public, or leave it out.',
    ],
    [
      'roles in one word',
      table(
        '      - { name: a, type: int }',
        '  rls: [{ operations: [all], to: "anon, authenticated", using: true }]',
      ),
      'tables.t.rls[0].to 4:36',
      'bad-value',
      '"anon, authenticated" is not one role',
      'Write a list: to: [one, other].',
    ],
    [
      'operations as one word',
      table('      - { name: a, type: int }', '  rls: [{ operations: select, using: true }]'),
      'tables.t.rls[0].operations 4:25',
      'wrong-type',
      'expected a list, found "select"',
      'Write a list: ["select"].',
    ],
    [
      'with_check where nothing is written',
      table(
        '      - { name: a, type: int }',
        '  rls: [{ operations: [select], using: true, with_check: true }]',
      ),
      'tables.t.rls[0].with_check 4:48',
      'conflict',
      'select writes no row that with_check could look at',
      'Remove with_check, or add insert or update to operations.',
    ],
    [
      'one condition too many',
      table(
        '      - { name: a, type: int }',
        '  rls: [{ operations: [update], using: true, with_check: true, check: true }]',
      ),
      'tables.t.rls[0].check 4:66',
      'conflict',
      'check stands for an absent using or with_check, and both are here',
      'Remove check.',
    ],
    [
      'an empty condition',
      table('      - { name: a, type: int }', '  rls: [{ operations: [select], using: "  " }]'),
      'tables.t.rls[0].using 4:42',
      'bad-value',
      '"  " must not be empty',
      'using: SQL condition on rows that a statement reads or changes.',
    ],
    [
      'two policies of one name',
      table(
        '      - { name: a, type: int }',
        '  rls: [{ name: p, operations: [select], using: true }, { name: p, operations: [delete], using: true }]',
      ),
      'tables.t.rls[1].name 4:67',
      'duplicate',
      'rls[0] has the name "p" already',
      'Choose another name, or leave it out.',
    ],
    [
      'rls without a value',
      table('      - { name: a, type: int }', '  rls:'),
      'tables.t.rls 4:5',
      'wrong-type',
      'nothing (null) does not fit here',
      'Write a list of policies, rls: [{ operations: [select], using: … }], [] to close the table, or false to leave it open on purpose.',
    ],
    [
      'an index on an expression',
      table('      - { name: a, type: text }', '  rls: []\n    indexes: [{ columns: [lower(a)] }]'),
      'tables.t.indexes[0].columns[0] 5:27',
      'unknown-reference',
      'the table t has no column lower(a)',
      'For an expression write { expression: lower(a) }.',
    ],
    [
      'an index with a column twice',
      table('      - { name: a, type: text }', '  rls: []\n    indexes: [{ columns: [a, a] }]'),
      'tables.t.indexes[0].columns[1] 5:30',
      'duplicate',
      'the index has a twice',
      'Remove one of the two.',
    ],
    [
      'two indexes of one name',
      table(
        '      - { name: a, type: text }',
        '  rls: []\n    indexes: [{ columns: [a], name: i }, { columns: [a], unique: true, name: i }]',
      ),
      'tables.t.indexes[1].name 5:78',
      'duplicate',
      'an index of t is called i already',
      'Names of indexes are unique in their schema: choose another.',
    ],
    [
      'a bucket with a slash',
      V + 'storage: { a/b: {} }',
      'storage.a/b 2:12',
      'bad-value',
      '"a/b" is not a bucket name',
      'Use letters, digits, - and _; 100 characters are the most.',
    ],
    [
      'a policy of a bucket without a condition',
      V + 'storage: { pics: { rls: [{ operations: [select] }] } }',
      'storage.pics.rls[0] 2:26',
      'missing-key',
      'the policy has no condition',
      'Write using: and with_check: (using: true lets everybody).',
    ],
    [
      'an rpc without a body',
      V + 'rpc: { f: { returns: { type: int } } }',
      'rpc.f.body 2:11',
      'missing-key',
      '"body" is missing',
      'The body is the text between the dollar quotes of CREATE FUNCTION; body_file names a file with it.',
    ],
    [
      'a default of an argument that is no number',
      V + 'rpc: { f: { args: [{ name: a, type: int, default: x }], body: x, returns: { type: int } } }',
      'rpc.f.args[0].default 2:51',
      'bad-value',
      '"x" is no value of int',
      'Correct one of the two.',
    ],
    [
      'a function name no URL carries',
      V + 'functions: { "a b": { runtime: node, file: hello.js } }',
      'functions.a b 2:14',
      'bad-value',
      '"a b" is not a function name',
      'Use letters, digits, - and _: it is part of the URL.',
    ],
    [
      'a handler that is no module',
      V + 'functions: { f: { runtime: node, file: hello.py } }',
      'functions.f.file 2:40',
      'bad-value',
      '"hello.py" is not an ES module',
      'The handler is a .js, .mjs or .ts file.',
    ],
    [
      'a handler at the root of the machine',
      V + 'functions: { f: { runtime: node, file: /etc/hello.js } }',
      'functions.f.file 2:40',
      'bad-value',
      '/etc/hello.js is outside the directory of this file',
      'Paths start from the directory of svc.yaml and stay in it.',
    ],
    [
      'a variable name for a function that is none',
      V + 'functions: { f: { runtime: node, file: hello.js, env: { A-B: x } } }',
      'functions.f.env.A-B 2:57',
      'bad-value',
      '"A-B" is not a variable name',
      'env: Values of `ctx.env`: literals or `${SVC_ENV_NAME}` references.',
    ],
    [
      'an unknown way to drop',
      V + 'migrations: { drop: delete }',
      'migrations.drop 2:21',
      'bad-value',
      '"delete" must be one of retire, refuse, drop',
      'Write drop: retire | refuse | drop.',
    ],
    [
      'an alias without an anchor',
      V + 'tables: *all',
      'tables 2:9',
      'yaml',
      'there is no anchor &all before this',
      'A value that starts with * needs quotes, unless it is an alias.',
    ],
    [
      'an alias inside of itself',
      V + 'tables: &t { a: *t }',
      'tables.a 2:17',
      'yaml',
      'this alias stands inside of what it stands for',
      'Write the value out.',
    ],
    [
      'a tag',
      V + 'project: { name: !!binary aGk= }',
      'project.name 2:27',
      'yaml',
      'tags such as !!binary mean nothing here',
      'Remove it.',
    ],
    [
      'a merge of no map',
      V + 'project: { <<: [x], name: y }',
      'project.<< 2:17',
      'yaml',
      '<< takes a map, or a list of maps, that does not contain this one',
      'For example <<: *name.',
    ],
    [
      'a key that is a list',
      V + '? [a, b]\n: c',
      '2:3',
      'bad-value',
      'a key is a plain word here',
      'A key that starts with { or [ or ? needs quotes.',
    ],
    [
      'a NUL character',
      V + 'project: { name: "a\0" }',
      '2:20',
      'yaml',
      'the file contains a NUL character',
      'Save it as plain UTF-8 text.',
    ],
    [
      'brackets without end',
      V + 'project: ' + '['.repeat(2000),
      '2:510',
      'yaml',
      'values are nested more than 100 levels deep',
      'Is a bracket left open, or is this the right file?',
    ],
    [
      'levels without end',
      V + 'project: ' + '['.repeat(150) + ']'.repeat(150),
      'project[0][0][0][0][0][0][0][0][0] 2:109',
      'yaml',
      'values are nested more than 100 levels deep',
      'Is a bracket left open?',
    ],
    [
      'a reference outside of quotes in braces',
      V + 'server: { port: ${PORT} }',
      '2:18',
      'yaml',
      'unexpected flow-map-start at node end',
      'Inside { … } and [ … ] a reference needs quotes: "${NAME}".',
    ],
    [
      'a plain colon in a value',
      V + 'project:\n  name: a: b',
      '3:9',
      'yaml',
      'nested mappings are not allowed in compact mappings',
      'Lines of one map start in the same column; a value with `: ` in it needs quotes.',
    ],
    [
      'an unclosed quote',
      V + 'project: { name: "x }',
      '2:22',
      'yaml',
      'missing closing "quote',
      'Values with : # { } [ ] , & * ! | > % @ in them usually need quotes.',
    ],
  ])('%s', (_what, text, at, code, message, hint) => {
    expect(listErrors(text).map((one) => [place(one), one.code, one.message, one.hint])).toEqual([
      [at, code, message, hint],
    ]);
  });
});

describe('a mistake does not become two', () => {
  test.each<[string, string, string[]]>([
    [
      'a broken table that others refer to',
      V +
        'tables:\n  a: { rls: [] }\n  b: { rls: [], fields: [{ name: x, foreign_key: { references: a.id } }] }',
      ['tables.a.fields'],
    ],
    [
      'a broken column that an index and a foreign key name',
      V +
        'tables:\n  a:\n    rls: []\n    fields: [{ name: id, type: int, primary_key: ja }]\n    indexes: [{ columns: [id] }]\n  b: { rls: [], fields: [{ name: x, foreign_key: { references: a.id } }] }',
      ['tables.a.fields[0].primary_key'],
    ],
    [
      'a column without a readable name',
      V +
        'tables:\n  a:\n    rls: []\n    fields: [{ nam: id, type: int }]\n    indexes: [{ columns: [id] }]\n  b: { rls: [], fields: [{ name: x, foreign_key: { references: a.id } }] }',
      ['tables.a.fields[0].nam'],
    ],
    [
      'a mail provider that is broken, not absent',
      V +
        'providers: { email: { type: resnd, default_from_email: a@b.c } }\nauth: { email: { verify_email: true } }',
      ['providers.email.type'],
    ],
    [
      'a bucket that is broken, not absent',
      table('      - { name: a, type: text, ref: storage.pics }') + 'storage: { pics: { max_size: big } }',
      ['storage.pics.max_size'],
    ],
    [
      'a table that is broken, as the result of a function',
      V + 'tables: { a: 5 }\nrpc: { f: { body: x, returns: { type: setof a } } }',
      ['tables.a'],
    ],
    [
      'rls that is misspelt, and would be open if it were absent',
      V + 'tables: { a: { rls: open, fields: [{ name: x, type: int }] } }',
      ['tables.a.rls'],
    ],
    [
      'a variable without a value',
      V + 'auth: { jwt_expiry: "${EXPIRY}" }\nproviders: { storage: { type: "${STORE}" } }',
      ['auth.jwt_expiry', 'providers.storage.type'],
    ],
    [
      'a section of the wrong kind',
      V + 'tables: []\nrpc: { f: { body: x, returns: { type: setof a } } }',
      ['tables'],
    ],
  ])('%s', (_what, text, paths) => {
    expect(listErrors(text).map(({ path }) => renderPath(path))).toEqual(paths);
  });
});

test('mistakes of every stage are reported together, in the order of the file', () => {
  const text = `version: 1
serverr: {}
auth: { jwt_expiry: 1s, allow_signup: "\${OPEN}" }
server: { port: http }
tables:
  a:
    rls: []
    fields:
      - { name: x, type: int, min: 2, max: 1 }
      - { name: x, type: int }
  a: {}
rpc:
  f: { body: "\${BODY}", returns: { type: setof b } }
`;
  expect(listErrors(text).map((one) => `${place(one)} ${one.code}`)).toEqual([
    'serverr 2:1 unknown-key',
    'auth.allow_signup 3:40 missing-variable',
    'server.port 4:17 wrong-type',
    'tables.a.fields[0].max 9:44 conflict',
    'tables.a.fields[1].name 10:17 duplicate',
    'tables.a 11:3 duplicate',
    'rpc.f.body 13:15 missing-variable',
    'rpc.f.returns.type 13:42 unknown-reference',
  ]);
});

test('a configuration that is read from elsewhere cannot name a body_file', () => {
  const text = V + 'auth: { email: { templates: { confirm: { body_file: confirm.html } } } }';
  const loaded = loadConfig({ name: 's3://b/k', directory: undefined, text }, { variables: {} });
  expect(loaded.ok ? [] : loaded.mistakes).toMatchObject([
    { code: 'missing-file', hint: expect.stringMatching(/body:/) },
  ]);
});

describe('what is right is not complained about', () => {
  test.each<[string, string]>([
    [
      'conditions and enums without quotes',
      table(
        '      - { name: a, type: int, enum: [1, 2], default: 2, check: true }',
        '  rls: [{ operations: [select], using: true }]',
      ),
    ],
    [
      'sections with everything in them commented out',
      V + 'auth:\nserver:\ntables:\nstorage:\nrpc:\nfunctions:\nproviders:\nmigrations:',
    ],
    ['mail that is switched off', V + 'providers: { email: null }'],
    ['a bucket without settings', V + 'storage: { pics: }'],
    [
      'types nobody here knows',
      table('      - { name: a, type: "geometry(point, 4326)", default: POINT(0 0), min: 1 }'),
    ],
    [
      'a self reference',
      table(
        '      - { name: id, type: int, primary_key: true }\n      - { name: up, foreign_key: { references: t.id } }',
      ),
    ],
    [
      'tables that refer to each other',
      V +
        'tables:\n  a: { rls: [], fields: [{ name: id, type: int, primary_key: true }, { name: b, foreign_key: { references: b.id } }] }\n  b: { rls: [], fields: [{ name: id, type: int, primary_key: true }, { name: a, foreign_key: { references: public.a.id } }] }',
    ],
    [
      'a reference to a unique index',
      V +
        'tables:\n  a: { rls: [], fields: [{ name: x, type: int }], indexes: [{ columns: [x], unique: true }] }\n  b: { rls: [], fields: [{ name: x, foreign_key: { references: a.x } }] }',
    ],
    [
      'calls for the types they fit',
      table(
        '      - { name: a, type: timestamp(3) with time zone, default: now() }\n      - { name: b, type: date, default: current_date }\n      - { name: c, type: uuid, default: gen_random_uuid() }\n      - { name: d, type: time, default: current_time }',
      ),
    ],
    ['any expression', table('      - { name: a, type: int, default: { sql: "(1 + 1)" } }')],
    [
      'sets of scalars and of records',
      V +
        'rpc:\n  f: { body: x, returns: { type: setof text } }\n  g: { body: x, returns: { type: SETOF record } }',
    ],
    [
      'sets of tables with quotes and dots in their names',
      V +
        `tables:\n  'quo"te': { rls: [], fields: [{ name: a, type: int }] }\n  'a.b': { schema: crm, rls: [], fields: [{ name: a, type: int }] }\n` +
        `rpc:\n  f: { body: x, returns: { type: 'setof "quo""te"' } }\n  g: { body: x, returns: { type: 'setof crm."a.b"' } }`,
    ],
    [
      'function sources that are in a bundle',
      V + `functions: { f: { runtime: node, file: gone.js } }\nfunctions_bundle: s3://b/k#${'0'.repeat(64)}`,
    ],
    ['all origins', V + 'server: { cors: { origins: ["*"] } }'],
    [
      'an app of a phone as an origin and a redirect',
      V +
        'server: { cors: { origins: [capacitor://localhost] } }\nauth: { redirect_urls: [myapp://signed-in] }',
    ],
    [
      'names with spaces, dots and umlauts',
      V + 'tables:\n  "my täble.x": { rls: [], fields: [{ name: "a b", type: int }] }',
    ],
    ['a name of 63 bytes', table(`      - { name: ${'x'.repeat(63)}, type: text }`)],
    ['infinity', table('      - { name: a, type: float8, default: -.inf }')],
    ['hexadecimal', table('      - { name: a, type: int, min: 0x10, default: 0x11 }')],
    [
      'YAML 1.1, read as 1.2',
      '%YAML 1.1\n---\n' + table('      - { name: a, type: text, enum: [yes, no], default: yes }'),
    ],
  ])('%s', (_what, text) => {
    const loaded = load(text);
    expect(loaded.ok ? loaded.warnings.filter(unlessKeyless) : loaded.mistakes).toEqual([]);
  });
});

describe('warnings leave the file valid', () => {
  test.each<[string, string, string, RegExp]>([
    ['an open table', V + 'tables: { a: { fields: [{ name: x, type: int }] } }', 'tables.a', /no rls key/],
    ['a deprecated key', V + 'auth: { refresh_tokens: false }', 'auth.refresh_tokens', /ignored/],
    ['tokens of three minutes', V + 'auth: { jwt_expiry: 3m }', 'auth.jwt_expiry', /all the time/],
    [
      'a key that is unique twice',
      table('      - { name: a, type: int, primary_key: true, unique: true }'),
      'tables.t.fields[0].unique',
      /unique already/,
    ],
    [
      'an index beside unique',
      table(
        '      - { name: a, type: int, unique: true }',
        '  rls: []\n    indexes: [{ columns: [a], unique: true }]',
      ),
      'tables.t.indexes[0]',
      /unique already/,
    ],
    [
      'using on an insert',
      table('      - { name: a, type: int }', '  rls: [{ operations: [insert], using: true }]'),
      'tables.t.rls[0].using',
      /taken as with_check/,
    ],
    [
      'a call as text',
      table('      - { name: a, type: text, default: now() }'),
      'tables.t.fields[0].default',
      /the text itself/,
    ],
    [
      'a time without a zone',
      table('      - { name: a, type: timestamptz, default: "2020-01-01 10:00" }'),
      'tables.t.fields[0].default',
      /read as UTC/,
    ],
    [
      'a default that is never used',
      V +
        'rpc: { f: { args: [{ name: a, type: int, required: true, default: 1 }], body: x, returns: { type: int } } }',
      'rpc.f.args[0].default',
      /never used/,
    ],
  ])('%s', (_what, text, path, message) => {
    const loaded = load(text);
    expect(
      loaded.ok &&
        loaded.warnings.filter(unlessKeyless).map((one) => [renderPath(one.path), one.severity, one.message]),
    ).toEqual([[path, 'warning', expect.stringMatching(message)]]);
  });
});

test.each(['0.0.0.0/0', '::/0'])(
  'trusting everybody (%s) is a warning, and refused in strict mode',
  (everybody) => {
    const text = `${V}server: { trusted_proxies: ["${everybody}"] }`;
    const loose = load(text);
    expect(loose.ok && loose.warnings.map(({ message }) => message)).toEqual([
      `"${everybody}" trusts everybody: any client can choose the address it is counted by`,
    ]);
    const strict = loadConfig({ name: 'svc.yaml', directory, text }, { variables: {}, strict: true });
    expect(strict.ok).toBe(false);
  },
);

describe('data steps', () => {
  const mistakes = (...steps: object[]): string[] => {
    const text = `version: 1\nmigrations: { steps: ${JSON.stringify(steps)} }\n`;
    const loaded = loadConfig({ name: 'svc.yaml', directory: tmpdir(), text }, { variables: {} });
    return loaded.ok ? [] : loaded.mistakes.map(({ path, message }) => `${path.join('.')}: ${message}`);
  };

  test('have a name of their own and one SQL text', () => {
    expect(mistakes({ name: 'fill', sql: 'select 1' })).toEqual([]);
    expect(mistakes({ name: 'Fill it', sql: 'select 1' })[0]).toContain('is not a name of a step');
    expect(mistakes({ name: 'a', sql: 'select 1' }, { name: 'a', sql: 'select 2' })[0]).toContain('twice');
    expect(mistakes({ name: 'a' })[0]).toContain('"run" is missing');
    expect(mistakes({ name: 'a', run: 'a.sql', sql: 'select 1' })[0]).toContain('either run or sql');
    expect(mistakes({ name: 'a', run: 'steps/a.ts' })[0]).toContain('is not an SQL file');
    expect(mistakes({ name: 'a', run: 'steps/not-there.sql' })[0]).toContain('there is no file');
  });
});

test('a short access token is accepted with a warning', () => {
  const loaded = loadConfig(
    { name: 'svc.yaml', directory: undefined, text: 'version: 1\nauth: { jwt_expiry: 30s }\n' },
    { variables: {} },
  );
  if (!loaded.ok) throw new Error('refused');
  expect(loaded.config.auth.jwtExpirySeconds).toBe(30);
  expect(loaded.warnings.map((one) => one.message)).toEqual([
    expect.stringContaining('90 seconds before the end'),
  ]);
});

test.each([
  [
    'tables',
    'auth.users',
    '{ fields: [{ name: id, type: int, primary_key: true }], rls: [] }',
    /on_new_user/,
  ],
  [
    'tables',
    'storage.objects',
    '{ fields: [{ name: id, type: int, primary_key: true }], rls: [] }',
    /buckets/,
  ],
  [
    'tables',
    'realtime.messages',
    '{ fields: [{ name: id, type: int, primary_key: true }], rls: [] }',
    /channels/,
  ],
  [
    'tables',
    'pg_catalog.x',
    '{ fields: [{ name: id, type: int, primary_key: true }], rls: [] }',
    /without this prefix/,
  ],
  ['views', 'auth.mine', '{ query: select 1 as one }', /without this prefix/],
])('%s: %s is refused with advice', (kind, name, body, hint) => {
  const [first] = listErrors(`version: 1\n${kind}: { ${name}: ${body} }\n`);
  expect(first).toMatchObject({ code: 'reserved-name', path: [kind, name] });
  expect(first?.message).toMatch(/belongs to (svc|PostgreSQL)/);
  expect(first?.hint).toMatch(hint);
});

test('a dot after the name of a declared schema is a warning, any other dot is part of the name', () => {
  const table = (schema: string) =>
    `{ schema: ${schema}, fields: [{ name: id, type: int, primary_key: true }], rls: [] }`;
  const text = `version: 1\ntables: { a: ${table('private')}, private.b: ${table('public')}, x.y: ${table('public')} }\n`;
  const loaded = loadConfig({ name: 'svc.yaml', directory: undefined, text }, { variables: {} });
  if (!loaded.ok) throw new Error('refused');
  expect(loaded.warnings.map(({ path, hint }) => [path[1], hint])).toEqual([
    ['private.b', 'Write b with schema: private.'],
  ]);
});
