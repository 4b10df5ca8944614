// Broken files with one mistake each, and the complete report: place, code, message and hint.
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

/** Tables of these cases are as short as possible. */
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
      '"lb.internal" is not an address',
      'Write an address (192.0.2.1), a range (10.0.0.0/8, 2001:db8::/32), loopback or private.',
    ],
    [
      'an origin with a path',
      V + 'server: { cors: { origins: ["https://a.b/c"] } }',
      'server.cors.origins[0] 2:29',
      'bad-value',
      '"https://a.b/c" is not an origin',
      'An origin is scheme, host and port, without a path or a trailing slash.',
    ],
    [
      'an origin without a scheme',
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
      'a request timeout that ends before failover_wait',
      V + 'server: { timeouts: { request: 4s } }\ndatabase: { failover_wait: 4s }',
      'database.failover_wait 3:28',
      'conflict',
      'requests time out after 4s, before a failover_wait of 4s ends',
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
      'a timeout beyond the maximum delay of a timer',
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
      '"0" must be greater than 0',
      'Write a number and a unit, for example max_size: 500KB, 5MB or 1GB.',
    ],
    [
      'a key of another section',
      V + 'port: 8080',
      'port 2:1',
      'unknown-key',
      'there is no key "port" at the top level',
      'This key belongs elsewhere: server.port.',
    ],
    [
      's3 with half of its credentials',
      V + 'providers: { storage: { type: s3, s3: { bucket: b, access_key_id: x } } }',
      'providers.storage.s3 2:35',
      'missing-key',
      '"secret_access_key" is missing',
      'Write both, or neither to use the credentials of the environment.',
    ],
    [
      'an endpoint that is not a URL',
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
      'url is not the address of a mail server',
      'For example smtp://user:password@host:587; write / @ # ? and % in the password as %2F %40 %23 %3F %25.',
    ],
    [
      'an unknown mail template',
      V + 'auth: { email: { templates: { confrim: { subject: x } } } }',
      'auth.email.templates.confrim 2:31',
      'unknown-key',
      'there is no mail called "confrim"',
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
      'Name a file.',
    ],
    [
      'a provider that is not built in',
      V +
        'auth: { oauth: { gogle: { client_id: a, client_secret: b, redirect_url: ' +
        'https://x/auth/v1/callback/gogle } } }',
      'auth.oauth.gogle 2:18',
      'unknown-key',
      'there is no built-in provider called "gogle"',
      'Did you mean google?',
    ],
    [
      'keycloak without its realm',
      V +
        'auth: { oauth: { keycloak: { client_id: a, client_secret: b, redirect_url: ' +
        'https://x/auth/v1/callback/keycloak } } }',
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
      'Copy it from the registration of the application at the provider; write ${NAME} and set NAME.',
    ],
    [
      'an issuer that is not a URL',
      V +
        'auth: { oauth: { acme: { client_id: a, client_secret: b, issuer: acme, redirect_url: ' +
        'https://x/auth/v1/callback/acme } } }',
      'auth.oauth.acme.issuer 2:66',
      'bad-value',
      '"acme" is not a URL',
      'For example https://login.example.com.',
    ],
    [
      'a callback with a query',
      V +
        'auth: { oauth: { google: { client_id: a, client_secret: b, redirect_url: ' +
        '"https://x/?/auth/v1/callback/google" } } }',
      'auth.oauth.google.redirect_url 2:74',
      'bad-value',
      '"https://x/?/auth/v1/callback/google" is not the callback URL of this service',
      'Write {base_url}/auth/v1/callback/google.',
    ],
    [
      'a redirect that is not a URL',
      V + 'auth: { redirect_urls: [app.example.com] }',
      'auth.redirect_urls[0] 2:25',
      'bad-value',
      '"app.example.com" is not a URL such as https://app.example.com',
      'redirect_urls: URLs to which a browser may return after sign-in; the origin of the server is always allowed.',
    ],
    [
      'a system column',
      table('      - { name: ctid, type: text }'),
      'tables.t.fields[0].name 6:17',
      'reserved-name',
      'a column cannot be called ctid: PostgreSQL uses this name',
      'Choose another name.',
    ],
    [
      'a column of the migrations',
      table('      - { name: svc_n_a, type: text }'),
      'tables.t.fields[0].name 6:17',
      'reserved-name',
      'a column cannot be called svc_n_a: migrations use this name',
      'Choose another name.',
    ],
    [
      'a name called __proto__',
      V + 'tables: { __proto__: { rls: [], fields: [{ name: a, type: int }] } }',
      'tables.__proto__ 2:11',
      'reserved-name',
      '__proto__ is not allowed as a name',
      'Choose another name.',
    ],
    [
      'a name with a byte too many in a column',
      table(`      - { name: ${'x'.repeat(64)}, type: text }`),
      'tables.t.fields[0].name 6:17',
      'name-too-long',
      'the name has 64 bytes; PostgreSQL would truncate it to 63',
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
      'b is still declared here, so a cannot be renamed from it',
      'Remove the old declaration. To swap two names, deploy a third name first.',
    ],
    [
      'two functions with the same earlier name',
      V +
        'rpc:\n  f: { renamed_from: x, body: x, returns: { type: int } }\n  g: { renamed_from: x, body: x, ' +
        'returns: { type: int } }',
      'rpc.g.renamed_from 4:22',
      'conflict',
      'both f and g have renamed_from: x',
      'Only one of them can keep the data: remove renamed_from from the other.',
    ],
    [
      'bounds of text',
      table('      - { name: a, type: text, min: 1 }'),
      'tables.t.fields[0].min 6:32',
      'conflict',
      'min is only valid for numbers, and a has the type text',
      'For a length write check: length(…) <= ….',
    ],
    [
      'a pattern of a number',
      table('      - { name: a, type: integer, pattern: "^1" }'),
      'tables.t.fields[0].pattern 6:35',
      'conflict',
      'pattern is only valid for text, and a has the type integer',
      'Write a condition: check: ….',
    ],
    [
      'bounds that only differ in the last of many digits',
      table('      - { name: a, type: numeric, min: 9007199254740993, max: 9007199254740992 }'),
      'tables.t.fields[0].max 6:63',
      'conflict',
      'max (9007199254740992) is less than min (9007199254740993), so no value is valid',
      'Swap the two.',
    ],
    [
      'a default below min',
      table('      - { name: a, type: int, min: 5, default: 4 }'),
      'tables.t.fields[0].default 6:48',
      'conflict',
      'the default 4 is less than min',
      'Change the default, or min.',
    ],
    [
      'a default that is an unknown call',
      table('      - { name: a, type: uuid, default: auth.uid() }'),
      'tables.t.fields[0].default 6:41',
      'bad-value',
      'auth.uid() would be a text and not a call',
      'Write default: { sql: auth.uid() }.',
    ],
    [
      'a misspelt call',
      table('      - { name: a, type: uuid, default: uuid_v6() }'),
      'tables.t.fields[0].default 6:41',
      'bad-value',
      'uuid_v6() would be a text and not a call',
      'Did you mean uuid_v4()?',
    ],
    [
      'a call of the column’s inferred type',
      table('      - { name: a, default: auth.uid(), foreign_key: { references: auth.users.id } }'),
      'tables.t.fields[0].default 6:29',
      'bad-value',
      'auth.uid() would be a text and not a call',
      'Write default: { sql: auth.uid() }.',
    ],
    [
      'a word of SQL',
      table('      - { name: a, type: timestamptz, default: current_timestamp }'),
      'tables.t.fields[0].default 6:48',
      'bad-value',
      'current_timestamp would be a text and not a call',
      'Did you mean now()?',
    ],
    [
      'a default that is not a number',
      table('      - { name: a, type: integer, default: many }'),
      'tables.t.fields[0].default 6:44',
      'bad-value',
      '"many" is not a valid value of type integer',
      'Correct the type or the default.',
    ],
    [
      'a default that is not a uuid',
      table('      - { name: a, type: uuid, default: "1234" }'),
      'tables.t.fields[0].default 6:41',
      'bad-value',
      '"1234" is not a valid value of type uuid',
      'For a random UUID write uuid_v7().',
    ],
    [
      'a number for a boolean',
      table('      - { name: a, type: boolean, default: 1 }'),
      'tables.t.fields[0].default 6:44',
      'bad-value',
      '1 is not a valid value of type boolean',
      'Write true or false.',
    ],
    [
      'a boolean for a number',
      table('      - { name: a, type: integer, default: true }'),
      'tables.t.fields[0].default 6:44',
      'bad-value',
      'true is not a valid value of type integer',
      'Correct the type or the default.',
    ],
    [
      'a list for a text',
      table('      - { name: a, type: text, default: [x] }'),
      'tables.t.fields[0].default 6:41',
      'bad-value',
      'a list is not a valid value of type text',
      'Correct the type or the default.',
    ],
    [
      'a list with a hole',
      table('      - { name: a, type: "text[]", default: [x, null] }'),
      'tables.t.fields[0].default[1] 6:49',
      'bad-value',
      'the list contains null',
      'Write the default as { sql: … }.',
    ],
    [
      'a map for a text',
      table('      - { name: a, type: text, default: { x: 1 } }'),
      'tables.t.fields[0].default 6:41',
      'bad-value',
      'a map is not a valid value of type text',
      'For an expression write { sql: … }.',
    ],
    [
      'a number outside the enum',
      table('      - { name: a, type: int, enum: [1, 2], default: 3 }'),
      'tables.t.fields[0].default 6:54',
      'conflict',
      'the default 3 is not a value of enum',
      'Add it to enum, or choose another default.',
    ],
    [
      'a table in another schema',
      V +
        'tables:\n  a: { schema: app, rls: [], fields: [{ name: id, type: int, primary_key: true }] }\n  b: ' +
        '{ rls: [], fields: [{ name: x, foreign_key: { references: a.id } }] }',
      'tables.b.fields[0].foreign_key.references 4:64',
      'unknown-reference',
      'there is no table a',
      'Write app.a.id.',
    ],
    [
      'a reference to half of a key',
      V +
        'tables:\n  a: { rls: [], fields: [{ name: x, type: int, primary_key: true }, { name: y, type: int, ' +
        'primary_key: true }] }\n  b: { rls: [], fields: [{ name: x, foreign_key: { references: a.x } }] }',
      'tables.b.fields[0].foreign_key.references 4:64',
      'conflict',
      'a.x is not unique and cannot be referenced',
      'Give x unique: true, or refer to the primary key.',
    ],
    [
      'a reference to a column with a partial unique index',
      V +
        'tables:\n  a: { rls: [], fields: [{ name: id, type: int, primary_key: true }, { name: x, type: int ' +
        '}], indexes: [{ columns: [x], unique: true, where: x > 0 }] }\n  b: { rls: [], fields: [{ name: x, ' +
        'foreign_key: { references: a.x } }] }',
      'tables.b.fields[0].foreign_key.references 4:64',
      'conflict',
      'a.x is not unique and cannot be referenced',
      'Give x unique: true, or refer to the primary key.',
    ],
    [
      'on_delete next to a foreign key',
      table('      - { name: a, on_delete: cascade, foreign_key: { references: auth.users.id } }'),
      'tables.t.fields[0].on_delete 6:20',
      'conflict',
      'on_delete at this level requires ref',
      'For the foreign key write foreign_key: { references: …, on_delete: … }.',
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
      'now() is a time, and a has the type int',
      'Use a column of type timestamptz, or write { sql: … }.',
    ],
    [
      'a row for new users with a column that is not there',
      table('      - { name: a, type: int, unique: true }', '  on_new_user: { b: id }'),
      'tables.t.on_new_user.b 4:20',
      'unknown-reference',
      'the table t has no column b',
      'Columns: a.',
    ],
    [
      'a row for new users that lacks a required column',
      table(
        '      - { name: a, type: int, required: true }\n      - { name: b, type: uuid }',
        '  on_new_user: { b: id }',
      ),
      'tables.t.on_new_user 4:5',
      'missing-key',
      'every sign-up would fail, because on_new_user does not set a of t',
      'Add a: …, or add a default to the column.',
    ],
    [
      'a trigger at the top of the file',
      `version: 1\ntriggers: []\n`,
      'triggers 2:1',
      'unknown-key',
      'there is no key "triggers" at the top level',
      'Declare a trigger at its table: tables.<name>.triggers; triggers on users under auth.triggers.',
    ],
    [
      'a trigger that calls an unknown function',
      `version: 1\nrpc: { note: { returns: { type: trigger }, body: begin return new; end } }\ntables:\n  ` +
        `t:\n    rls: []\n    fields: [{ name: a, type: int, primary_key: true }]\n    triggers: [{ timing: ` +
        `after, events: insert, call: nte }]\n`,
      'tables.t.triggers[0].call 7:55',
      'unknown-reference',
      'there is no function nte under rpc',
      'Did you mean note?',
    ],
    [
      'a trigger that calls a function with another result',
      `version: 1\nrpc: { note: { returns: { type: void }, body: begin end } }\ntables:\n  t:\n    rls: ` +
        `[]\n    fields: [{ name: a, type: int, primary_key: true }]\n    triggers: [{ timing: after, events: ` +
        `insert, call: note }]\n`,
      'tables.t.triggers[0].call 7:55',
      'conflict',
      'the function note returns void, and a trigger function must return trigger',
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
      'truncate has no single rows, so its triggers run once per statement',
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
      'a constraint trigger that runs before the row is written',
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
      `version: 1\nauth:\n  triggers:\n    - { timing: after, events: insert, call: x.f }\n    - { timing: ` +
        `after, events: insert, call: x.f }\n`,
      'auth.triggers[1] 5:7',
      'duplicate',
      'triggers[0] has the same timing and events and calls the same function',
      'Give both a name.',
    ],
    [
      'a name that svc uses',
      `version: 1\nauth:\n  triggers: [{ name: svc_new_user_x, timing: after, events: insert, call: x.f }]\n`,
      'auth.triggers[0].name 3:22',
      'reserved-name',
      'a trigger cannot be called svc_new_user_x: svc uses names with this prefix',
      'Choose another name.',
    ],
    [
      'a function for triggers with arguments',
      `version: 1\nrpc: { f: { returns: { type: trigger }, args: [{ name: a, type: int }], body: begin ` +
        `return new; end } }\n`,
      'rpc.f.args 2:41',
      'conflict',
      'a trigger function cannot declare arguments',
      'Remove args: the function reads the arguments of the trigger from TG_ARGV.',
    ],
    [
      'auth_required on a function that is not served',
      `version: 1\nrpc: { f: { returns: { type: int }, auth_required: true, expose: false, body: begin ` +
        `return 1; end } }\n`,
      'rpc.f.auth_required 2:37',
      'conflict',
      'the function is not served, so auth_required has no effect',
      'Remove auth_required.',
    ],
    [
      'a part of an index with column and expression',
      table('      - { name: a, type: int }', '  indexes: [{ columns: [{ column: a, expression: a + 1 }] }]'),
      'tables.t.indexes[0].columns[0].expression 4:40',
      'conflict',
      'the entry is either a column or an expression',
      'Remove one of the two.',
    ],
    [
      'an order in an unordered index',
      table(
        '      - { name: a, type: int }',
        '  indexes: [{ columns: [{ column: a, order: desc }], using: gin }]',
      ),
      'tables.t.indexes[0].columns[0].order 4:40',
      'conflict',
      'an index of kind gin is not ordered',
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
      'service_role bypasses every policy',
      'Remove this role.',
    ],
    [
      'a policy for public and another role',
      table(
        '      - { name: a, type: int }',
        '  rls: [{ operations: [all], to: [public, anon], using: true }]',
      ),
      'tables.t.rls[0].to[0] 4:37',
      'conflict',
      'public includes every role, so the other roles have no effect',
      'Write to: public, or remove public.',
    ],
    [
      'roles in one word',
      table(
        '      - { name: a, type: int }',
        '  rls: [{ operations: [all], to: "anon, authenticated", using: true }]',
      ),
      'tables.t.rls[0].to 4:36',
      'bad-value',
      '"anon, authenticated" is not a role name',
      'Write a list: to: [first, second].',
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
      'select does not write rows, so with_check has no effect',
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
      'check replaces a missing using or with_check, and both are present',
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
      'rls[0] already has the name "p"',
      'Choose another name, or remove it.',
    ],
    [
      'rls without a value',
      table('      - { name: a, type: int }', '  rls:'),
      'tables.t.rls 4:5',
      'wrong-type',
      'null is not valid here',
      'Write a list of policies, rls: [{ operations: [select], using: … }], [] to close the table, or false ' +
        'to leave it open on purpose.',
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
      'the index contains a twice',
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
      'an index of t already has the name i',
      'Choose another name: names of indexes are unique in a schema.',
    ],
    [
      'a bucket with a slash',
      V + 'storage: { a/b: {} }',
      'storage.a/b 2:12',
      'bad-value',
      '"a/b" is not a bucket name',
      'Use letters, digits, - and _, at most 100 characters.',
    ],
    [
      'a policy of a bucket without a condition',
      V + 'storage: { pics: { rls: [{ operations: [select] }] } }',
      'storage.pics.rls[0] 2:26',
      'missing-key',
      'the policy has no condition',
      'Write using: and with_check:. The condition true allows every row.',
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
      'a default of an argument that is not a number',
      V + 'rpc: { f: { args: [{ name: a, type: int, default: x }], body: x, returns: { type: int } } }',
      'rpc.f.args[0].default 2:51',
      'bad-value',
      '"x" is not a valid value of type int',
      'Correct the type or the default.',
    ],
    [
      'a function name no URL carries',
      V + 'functions: { "a b": { runtime: node, file: hello.js } }',
      'functions.a b 2:14',
      'bad-value',
      '"a b" is not a function name',
      'Use letters, digits, - and _: the name is part of the URL.',
    ],
    [
      'a handler that is not a module',
      V + 'functions: { f: { runtime: node, file: hello.py } }',
      'functions.f.file 2:40',
      'bad-value',
      '"hello.py" is not an ES module',
      'The handler must be a .js, .mjs or .ts file.',
    ],
    [
      'a handler at the root of the machine',
      V + 'functions: { f: { runtime: node, file: /etc/hello.js } }',
      'functions.f.file 2:40',
      'bad-value',
      '/etc/hello.js is outside the directory of this file',
      'Write a path within the directory of svc.yaml, relative to it.',
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
      'there is no anchor &all before this alias',
      'Quote a value that starts with *, unless it is an alias.',
    ],
    [
      'an alias inside its own anchor',
      V + 'tables: &t { a: *t }',
      'tables.a 2:17',
      'yaml',
      'this alias refers to a value that contains it',
      'Write out the value.',
    ],
    [
      'a tag',
      V + 'project: { name: !!binary aGk= }',
      'project.name 2:27',
      'yaml',
      'tags such as !!binary are not supported',
      'Remove the tag.',
    ],
    [
      'a merge of a value that is not a map',
      V + 'project: { <<: [x], name: y }',
      'project.<< 2:17',
      'yaml',
      '<< requires a map or a list of maps that do not contain this map',
      'For example <<: *name.',
    ],
    [
      'a key that is a list',
      V + '? [a, b]\n: c',
      '2:3',
      'bad-value',
      'a key must be a plain word',
      'Quote a key that starts with {, [ or ?.',
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
      'Close open brackets, or check that this is the right file.',
    ],
    [
      'levels without end',
      V + 'project: ' + '['.repeat(150) + ']'.repeat(150),
      'project[0][0][0][0][0][0][0][0][0] 2:109',
      'yaml',
      'values are nested more than 100 levels deep',
      'Close open brackets.',
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
      'Start all lines of a map in the same column, and quote values that contain `: `.',
    ],
    [
      'an unclosed quote',
      V + 'project: { name: "x }',
      '2:22',
      'yaml',
      'missing closing "quote',
      'Quote values that contain : # { } [ ] , & * ! | > % or @.',
    ],
  ])('%s', (_what, text, at, code, message, hint) => {
    expect(
      listErrors(text).map((mistake) => [place(mistake), mistake.code, mistake.message, mistake.hint]),
    ).toEqual([[at, code, message, hint]]);
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
        'tables:\n  a:\n    rls: []\n    fields: [{ name: id, type: int, primary_key: ja }]\n    indexes: ' +
        '[{ columns: [id] }]\n  b: { rls: [], fields: [{ name: x, foreign_key: { references: a.id } }] }',
      ['tables.a.fields[0].primary_key'],
    ],
    [
      'a column without a readable name',
      V +
        'tables:\n  a:\n    rls: []\n    fields: [{ nam: id, type: int }]\n    indexes: [{ columns: [id] ' +
        '}]\n  b: { rls: [], fields: [{ name: x, foreign_key: { references: a.id } }] }',
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
  expect(listErrors(text).map((mistake) => `${place(mistake)} ${mistake.code}`)).toEqual([
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

test('a remote configuration cannot name a body_file', () => {
  const text = V + 'auth: { email: { templates: { confirm: { body_file: confirm.html } } } }';
  const loaded = loadConfig({ name: 's3://b/k', directory: undefined, text }, { variables: {} });
  expect(loaded.ok ? [] : loaded.mistakes).toMatchObject([
    { code: 'missing-file', hint: expect.stringMatching(/body:/) },
  ]);
});

describe('valid files have neither errors nor warnings', () => {
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
      'types that svc does not know',
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
        'tables:\n  a: { rls: [], fields: [{ name: id, type: int, primary_key: true }, { name: b, ' +
        'foreign_key: { references: b.id } }] }\n  b: { rls: [], fields: [{ name: id, type: int, ' +
        'primary_key: true }, { name: a, foreign_key: { references: public.a.id } }] }',
    ],
    [
      'a reference to a unique index',
      V +
        'tables:\n  a: { rls: [], fields: [{ name: x, type: int }], indexes: [{ columns: [x], unique: true ' +
        '}] }\n  b: { rls: [], fields: [{ name: x, foreign_key: { references: a.x } }] }',
    ],
    [
      'calls for the types they fit',
      table(
        '      - { name: a, type: timestamp(3) with time zone, default: now() }\n      - { name: b, type: ' +
          'date, default: current_date }\n      - { name: c, type: uuid, default: gen_random_uuid() }\n      ' +
          '- { name: d, type: time, default: current_time }',
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
        `tables:\n  'quo"te': { rls: [], fields: [{ name: a, type: int }] }\n` +
        `  'a.b': { schema: crm, rls: [], fields: [{ name: a, type: int }] }\n` +
        `rpc:\n  f: { body: x, returns: { type: 'setof "quo""te"' } }\n  g: { body: x, returns: { type: ` +
        `'setof crm."a.b"' } }`,
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
    ['tokens of three minutes', V + 'auth: { jwt_expiry: 3m }', 'auth.jwt_expiry', /very often/],
    [
      'a key that is unique twice',
      table('      - { name: a, type: int, primary_key: true, unique: true }'),
      'tables.t.fields[0].unique',
      /already unique/,
    ],
    [
      'an index on a unique column',
      table(
        '      - { name: a, type: int, unique: true }',
        '  rls: []\n    indexes: [{ columns: [a], unique: true }]',
      ),
      'tables.t.indexes[0]',
      /already unique/,
    ],
    [
      'using on an insert',
      table('      - { name: a, type: int }', '  rls: [{ operations: [insert], using: true }]'),
      'tables.t.rls[0].using',
      /applied as with_check/,
    ],
    [
      'a call as text',
      table('      - { name: a, type: text, default: now() }'),
      'tables.t.fields[0].default',
      /is a text and not a call/,
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
        loaded.warnings
          .filter(unlessKeyless)
          .map((warning) => [renderPath(warning.path), warning.severity, warning.message]),
    ).toEqual([[path, 'warning', expect.stringMatching(message)]]);
  });
});

test.each(['0.0.0.0/0', '::/0'])(
  'trusting every client (%s) is a warning, and an error in strict mode',
  (everybody) => {
    const text = `${V}server: { trusted_proxies: ["${everybody}"] }`;
    const loose = load(text);
    expect(loose.ok && loose.warnings.map(({ message }) => message)).toEqual([
      `"${everybody}" trusts every client: a client can then choose its own address`,
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

  test('have a unique name and one SQL text', () => {
    expect(mistakes({ name: 'fill', sql: 'select 1' })).toEqual([]);
    expect(mistakes({ name: 'Fill it', sql: 'select 1' })[0]).toContain('is not a valid step name');
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
  expect(loaded.warnings.map((warning) => warning.message)).toEqual([
    expect.stringContaining('90 seconds before expiry'),
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
  const text =
    `version: 1\ntables: { a: ${table('private')}, ` +
    `private.b: ${table('public')}, x.y: ${table('public')} }\n`;
  const loaded = loadConfig({ name: 'svc.yaml', directory: undefined, text }, { variables: {} });
  if (!loaded.ok) throw new Error('refused');
  expect(loaded.warnings.map(({ path, hint }) => [path[1], hint])).toEqual([
    ['private.b', 'Write b with schema: private.'],
  ]);
});
