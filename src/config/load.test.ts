import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Config } from './config.ts';
import type { Source } from './read/source.ts';
import { loadConfig, type Loaded } from './load.ts';
import { renderPath } from './mistakes/mistake.ts';
import { renderMistakes } from './mistakes/report.ts';

const directory = mkdtempSync(join(tmpdir(), 'svc-config-'));
writeFileSync(join(directory, 'hello.js'), '');
writeFileSync(join(directory, 'confirm.html'), '<p>hello</p>');

function source(text: string): Source {
  return { name: 'svc.yaml', directory, text };
}

function load(text: string, options: { variables?: Record<string, string>; strict?: boolean } = {}): Loaded {
  return loadConfig(source(text), { variables: options.variables ?? {}, strict: options.strict });
}

function good(text: string, variables: Record<string, string> = {}): Config {
  const loaded = load(text, { variables });
  if (!loaded.ok) throw new Error(renderMistakes(loaded.mistakes, { file: 'svc.yaml', text }));
  return loaded.config;
}

const table = (fields: string, more = '  rls: []'): string =>
  `version: 1\ntables:\n  t:\n  ${more}\n    fields:\n${fields}\n`;

describe('each mistake has a place, a path, a message and a hint', () => {
  // name, file, path, line:column, part of the message, part of the hint
  test.each<[string, string, string, string, RegExp, RegExp?]>([
    ['empty file', '', '', '1:1', /empty/, /svc init/],
    ['only a comment', '# nothing\n', '', '1:1', /empty|not a map/],
    ['a list at the top', '- a\n', '', '1:1', /not a map/],
    ['a scalar at the top', 'hello', '', '1:1', /not a map/],
    ['no version', 'project: { name: x }', 'version', '1:1', /"version" is missing/, /version: 1/],
    ['another version', 'version: 2', 'version', '1:10', /2 must be 1/],
    ['version as text', 'version: "1"', 'version', '1:10', /must be 1/],
    ['unknown top-level key', 'version: 1\ntabels: {}', 'tabels', '2:1', /no key "tabels"/, /mean tables/],
    [
      'unknown nested key',
      'version: 1\nserver: { prot: 1 }',
      'server.prot',
      '2:11',
      /no key "prot"/,
      /mean port/,
    ],
    [
      'unknown key without a neighbour',
      'version: 1\nserver: { zzzzzz: 1 }',
      'server.zzzzzz',
      '2:11',
      /no key/,
      /Known keys: port/,
    ],
    [
      'a word of another product',
      table('      - { name: a, type: text, nullable: true }'),
      'tables.t.fields[0].nullable',
      '6:32',
      /no key "nullable"/,
      /unless it has required: true/,
    ],
    [
      'a duplicate key',
      'version: 1\nserver: { port: 1 }\nserver: { port: 2 }',
      'server',
      '3:1',
      /twice, first in line 2/,
      /Merge/,
    ],
    [
      'a duplicate table',
      'version: 1\ntables:\n  a: { fields: [{ name: x, type: int }], rls: [] }\n' +
        '  a: { fields: [{ name: y, type: int }], rls: [] }',
      'tables.a',
      '4:3',
      /twice/,
    ],
    ['a tab as indentation', 'version: 1\nserver:\n\tport: 1', '', '3:1', /tab/i, /spaces/],
    ['bad indentation', 'version: 1\n  project: x', '', '1:10', /./],
    ['a second document', 'version: 1\n---\nversion: 1', '', '2:1', /second YAML document/, /---/],
    ['an unclosed bracket', 'version: 1\ntables: { a: ', '', '2:14', /./],
    [
      'a port that is text',
      'version: 1\nserver: { port: abc }',
      'server.port',
      '2:17',
      /expected a number, found "abc"/,
    ],
    ['a port out of range', 'version: 1\nserver: { port: 99999 }', 'server.port', '2:17', /at most 65535/],
    ['a fraction of a port', 'version: 1\nserver: { port: 80.5 }', 'server.port', '2:17', /whole number/],
    [
      'a duration without a unit',
      'version: 1\nauth: { jwt_expiry: "15" }',
      'auth.jwt_expiry',
      '2:21',
      /not a duration/,
    ],
    [
      'a duration as a number',
      'version: 1\nauth: { jwt_expiry: 15 }',
      'auth.jwt_expiry',
      '2:21',
      /expected text, found 15/,
      /a unit: 30s/,
    ],
    [
      'a bad size',
      'version: 1\nserver: { max_body_size: 1XB }',
      'server.max_body_size',
      '2:26',
      /not a size/,
    ],
    [
      'yes instead of true',
      'version: 1\nauth: { allow_signup: yes }',
      'auth.allow_signup',
      '2:23',
      /expected true or false/,
      /true and false/,
    ],
    [
      'origins that are not a list',
      'version: 1\nserver: { cors: { origins: "*" } }',
      'server.cors.origins',
      '2:28',
      /expected a list/,
      /\["\*"\]/,
    ],
    [
      'more idle connections than connections',
      'version: 1\ndatabase: { pool: { max: 2, min: 3 } }',
      'database.pool.min',
      '2:34',
      /greater than max/,
    ],
    [
      'verification without a mail provider',
      'version: 1\nauth: { email: { verify_email: true } }',
      'auth.email.verify_email',
      '2:32',
      /without a mail provider/,
      /providers\.email/,
    ],
    [
      'body and body_file',
      'version: 1\nauth: { email: { templates: { confirm: { body: x, body_file: confirm.html } } } }',
      'auth.email.templates.confirm.body_file',
      '2:51',
      /either body or body_file/,
    ],
    [
      'a missing body_file',
      'version: 1\nauth: { email: { templates: { confirm: { body_file: nope.html } } } }',
      'auth.email.templates.confirm.body_file',
      '2:53',
      /no file nope.html/,
    ],
    [
      'a callback with another path',
      'version: 1\nauth: { oauth: { google: { client_id: a, client_secret: b, redirect_url: https://x/cb } } }',
      'auth.oauth.google.redirect_url',
      '2:74',
      /callback/,
      /\/auth\/v1\/callback\/google/,
    ],
    [
      'resend without a key',
      'version: 1\nproviders: { email: { type: resend, default_from_email: a@b.c } }',
      'providers.email',
      '2:14',
      /"api_key" is missing/,
    ],
    [
      's3 without its block',
      'version: 1\nproviders: { storage: { type: s3 } }',
      'providers.storage',
      '2:14',
      /"s3" is missing/,
    ],
    [
      'an unknown mail provider',
      'version: 1\nproviders: { email: { type: resnd, default_from_email: a@b.c } }',
      'providers.email.type',
      '2:29',
      /must be one of resend, ses, smtp/,
      /mean resend/,
    ],
    [
      'a table without fields',
      'version: 1\ntables: { t: { rls: [] } }',
      'tables.t.fields',
      '2:11',
      /"fields" is missing/,
    ],
    ['tables as a list', 'version: 1\ntables:\n  - t', 'tables', '2:1', /expected a map/, /dashes/],
    [
      'no columns',
      'version: 1\ntables: { t: { fields: [], rls: [] } }',
      'tables.t.fields',
      '2:24',
      /at least one column/,
    ],
    [
      'a column without a type',
      table('      - { name: a }'),
      'tables.t.fields[0]',
      '6:9',
      /no type/,
      /foreign_key/,
    ],
    [
      'a column without a name',
      table('      - { type: text }'),
      'tables.t.fields[0].name',
      '6:9',
      /"name" is missing/,
    ],
    [
      'the same column twice',
      table('      - { name: a, type: int }\n      - { name: a, type: int }'),
      'tables.t.fields[1].name',
      '7:17',
      /declared twice/,
    ],
    [
      'min above max',
      table('      - { name: a, type: int, min: 5, max: 1 }'),
      'tables.t.fields[0].max',
      '6:44',
      /less than min/,
    ],
    [
      'a bound that is not a number',
      table('      - { name: a, type: int, min: low }'),
      'tables.t.fields[0].min',
      '6:36',
      /not a number/,
    ],
    [
      'a default outside the enum',
      table('      - { name: a, type: text, enum: [on, off], default: onn }'),
      'tables.t.fields[0].default',
      '6:58',
      /not a value of enum/,
      /mean on/,
    ],
    [
      'a repeated enum value',
      table('      - { name: a, type: text, enum: [x, x] }'),
      'tables.t.fields[0].enum[1]',
      '6:42',
      /listed twice/,
    ],
    [
      'a serial with a default',
      table('      - { name: a, type: bigserial, default: 1 }'),
      'tables.t.fields[0].default',
      '6:46',
      /already has a default/,
    ],
    [
      'an unknown table',
      table('      - { name: a, foreign_key: { references: tt.id } }'),
      'tables.t.fields[0].foreign_key.references',
      '6:47',
      /no table tt/,
      /mean t/,
    ],
    [
      'an unknown column',
      table(
        '      - { name: id, type: int, primary_key: true }\n      - { name: a, foreign_key: { references: t.idd } }',
      ),
      'tables.t.fields[1].foreign_key.references',
      '7:47',
      /no column idd/,
      /mean id/,
    ],
    [
      'a reference to a column that is not unique',
      table('      - { name: id, type: int }\n      - { name: a, foreign_key: { references: t.id } }'),
      'tables.t.fields[1].foreign_key.references',
      '7:47',
      /not unique/,
    ],
    [
      'a reference without a column',
      table('      - { name: a, foreign_key: { references: users } }'),
      'tables.t.fields[0].foreign_key.references',
      '6:47',
      /does not name a column/,
    ],
    [
      'a reference into auth',
      table('      - { name: a, foreign_key: { references: auth.sessions.id } }'),
      'tables.t.fields[0].foreign_key.references',
      '6:47',
      /cannot be referenced/,
      /auth\.users\.id/,
    ],
    [
      'a misspelt on_delete',
      table('      - { name: a, foreign_key: { references: auth.users.id, on_delete: cascde } }'),
      'tables.t.fields[0].foreign_key.on_delete',
      '6:73',
      /must be one of/,
      /mean cascade/,
    ],
    [
      'types that depend on each other',
      table(
        '      - { name: a, unique: true, foreign_key: { references: t.b } }\n' +
          '      - { name: b, unique: true, foreign_key: { references: t.a } }',
      ),
      'tables.t.fields[0]',
      '6:9',
      /depends on itself/,
    ],
    [
      'an unknown bucket',
      table('      - { name: a, type: text, ref: storage.pics }') + 'storage: { pic: {} }',
      'tables.t.fields[0].ref',
      '6:37',
      /no bucket pics/,
      /mean pic/,
    ],
    [
      'an invalid ref',
      table('      - { name: a, type: text, ref: pics }'),
      'tables.t.fields[0].ref',
      '6:37',
      /not a storage reference/,
    ],
    [
      'on_delete without ref',
      table('      - { name: a, type: text, on_delete: cascade }'),
      'tables.t.fields[0].on_delete',
      '6:32',
      /requires ref/,
    ],
    [
      'an unknown operation',
      table('      - { name: a, type: int }', '  rls: [{ operations: [selct], using: "true" }]'),
      'tables.t.rls[0].operations[0]',
      '4:26',
      /must be one of/,
      /mean select/,
    ],
    [
      'a policy without a condition',
      table('      - { name: a, type: int }', '  rls: [{ operations: [select] }]'),
      'tables.t.rls[0]',
      '4:11',
      /no condition/,
    ],
    [
      'a policy without a condition on existing rows',
      table('      - { name: a, type: int }', '  rls: [{ operations: [select], with_check: "true" }]'),
      'tables.t.rls[0]',
      '4:11',
      /existing rows/,
      /using/,
    ],
    [
      'rls: true',
      table('      - { name: a, type: int }', '  rls: true'),
      'tables.t.rls',
      '4:10',
      /not valid here/,
      /list of policies/,
    ],
    [
      'an index on an unknown column',
      table('      - { name: abc, type: int }', '  rls: []\n    indexes: [{ columns: [abd] }]'),
      'tables.t.indexes[0].columns[0]',
      '5:27',
      /no column abd/,
      /mean abc/,
    ],
    [
      'the same index twice',
      table('      - { name: a, type: int }', '  rls: []\n    indexes: [{ columns: [a] }, { columns: [a] }]'),
      'tables.t.indexes[1]',
      '5:33',
      /declared twice/,
    ],
    [
      'a reserved schema',
      table('      - { name: a, type: int }', '  rls: []\n    schema: auth'),
      'tables.t.schema',
      '5:13',
      /is reserved/,
    ],
    [
      'a long name',
      `version: 1\ntables:\n  ${'ä'.repeat(32)}:\n    rls: []\n    fields: [{ name: a, type: int }]`,
      `tables.${'ä'.repeat(32)}`,
      '3:3',
      /64 bytes/,
    ],
    [
      'two renames from the same name',
      'version: 1\ntables:\n  a: { rls: [], renamed_from: x, fields: [{ name: i, type: int }] }\n' +
        '  b: { rls: [], renamed_from: x, fields: [{ name: i, type: int }] }',
      'tables.b.renamed_from',
      '4:31',
      /both a and b/,
    ],
    [
      'a bucket with a reserved name',
      'version: 1\nstorage: { sign: {} }',
      'storage.sign',
      '2:12',
      /cannot be called sign/,
    ],
    [
      'a bad MIME type',
      'version: 1\nstorage: { pics: { types: [image] } }',
      'storage.pics.types[0]',
      '2:28',
      /not a MIME type/,
    ],
    [
      'a bucket size with an unknown unit',
      'version: 1\nstorage: { pics: { max_size: 5 parsecs } }',
      'storage.pics.max_size',
      '2:30',
      /not a size/,
    ],
    [
      'an rpc without a result',
      'version: 1\nrpc: { f: { body: select 1 } }',
      'rpc.f.returns',
      '2:11',
      /"returns" is missing/,
    ],
    [
      'a result next to arguments that are the result',
      'version: 1\nrpc: { f: { language: sql, body: select 1, returns: { type: int }, ' +
        'args: [{ name: a, type: int, mode: out }, { name: b, type: int, mode: out }] } }',
      'rpc.f.returns',
      '2:44',
      /are the result/,
      /Remove returns/,
    ],
    [
      'a procedure with a result',
      'version: 1\nrpc: { f: { kind: procedure, language: sql, body: select 1, returns: { type: int } } }',
      'rpc.f.returns',
      '2:61',
      /a procedure cannot have returns/,
      /inout/,
    ],
    [
      'a served procedure',
      'version: 1\nrpc: { f: { kind: procedure, language: sql, body: select 1, expose: true } }',
      'rpc.f.expose',
      '2:61',
      /a procedure cannot have expose/,
      /CALL/,
    ],
    [
      'an unnamed argument of a served function',
      'version: 1\nrpc: { f: { language: sql, body: select 1, returns: { type: int }, args: [{ type: int }] } }',
      'rpc.f.args[0].name',
      '2:75',
      /"name" is missing/,
      /expose: false/,
    ],
    [
      'a default of a result',
      'version: 1\nrpc: { f: { language: sql, body: select 1, ' +
        'args: [{ name: a, type: int, mode: out, default: 1 }] } }',
      'rpc.f.args[0].default',
      '2:84',
      /callers do not pass/,
      /Remove default/,
    ],
    [
      'a variadic argument before others',
      'version: 1\nrpc: { f: { language: sql, body: select 1, returns: { type: int }, ' +
        'args: [{ name: a, type: "int[]", mode: variadic }, { name: b, type: int }] } }',
      'rpc.f.args[0].mode',
      '2:107',
      /receives all remaining values/,
      /Put it last/,
    ],
    [
      'a result with type and table',
      'version: 1\nrpc: { f: { language: sql, body: select 1, ' +
        'returns: { type: int, table: [{ name: a, type: int }] } } }',
      'rpc.f.returns',
      '2:53',
      /either type or table/,
    ],
    [
      'an rpc of an unknown language',
      'version: 1\nrpc: { f: { language: sqll, body: x, returns: { type: int } } }',
      'rpc.f.language',
      '2:23',
      /must be one of sql, plpgsql/,
      /mean sql/,
    ],
    [
      'an argument twice',
      'version: 1\nrpc: { f: { args: [{ name: a, type: int }, { name: a, type: int }], ' +
        'body: x, returns: { type: int } } }',
      'rpc.f.args[1].name',
      '2:52',
      /declared twice/,
    ],
    [
      'a set of an unknown table',
      'version: 1\nrpc: { f: { body: x, returns: { type: setof todoz } } }\n' +
        'tables: { todos: { rls: [], fields: [{ name: a, type: int }] } }',
      'rpc.f.returns.type',
      '2:39',
      /no table todoz/,
      /mean todos/,
    ],
    [
      'an unknown runtime',
      'version: 1\nfunctions: { f: { runtime: deno, file: hello.js } }',
      'functions.f.runtime',
      '2:28',
      /must be node/,
    ],
    [
      'a missing function file',
      'version: 1\nfunctions: { f: { runtime: node, file: nope.js } }',
      'functions.f.file',
      '2:40',
      /no file nope.js/,
    ],
    [
      'a function file outside',
      'version: 1\nfunctions: { f: { runtime: node, file: ../x.js } }',
      'functions.f.file',
      '2:40',
      /outside/,
    ],
    [
      'a plain variable in a function env',
      'version: 1\nfunctions: { f: { runtime: node, file: hello.js, env: { A: "${HOME}" } } }',
      'functions.f.env.A',
      '2:61',
      /SVC_ENV_/,
      /SVC_ENV_HOME/,
    ],
    [
      'a bundle pointer without a hash',
      'version: 1\nfunctions_bundle: s3://b/k',
      'functions_bundle',
      '2:19',
      /sha256/,
    ],
    [
      'a missing variable',
      'version: 1\nproject: { name: "${APP_NAME}" }',
      'project.name',
      '2:19',
      /no variable APP_NAME/,
      /\$\{APP_NAME:-…\}/,
    ],
    [
      'an invalid reference',
      'version: 1\nproject: { name: "${a b}" }',
      'project.name',
      '2:19',
      /not a reference/,
    ],
  ])('%s', (_what, text, path, position, message, hint) => {
    const loaded = load(text);
    const mistakes = loaded.ok ? [] : loaded.mistakes.filter((mistake) => mistake.severity === 'error');
    const seen = mistakes.map((mistake) => ({
      path: renderPath(mistake.path),
      position: `${mistake.position.line}:${mistake.position.column}`,
      message: mistake.message,
      hint: mistake.hint ?? '',
    }));
    expect(seen).toHaveLength(1);
    expect(seen[0]).toEqual({
      path,
      position,
      message: expect.stringMatching(message),
      hint: expect.stringMatching(hint ?? /^/),
    });
  });
});

test('all mistakes of a file are reported at once', () => {
  const loaded = load(`version: 1
tabels: {}
server: { port: x }
tables:
  a:
    rls: []
    fields:
      - { name: id, type: int, primary_key: true, on_delete: cascade }
storage: { list: {} }
`);
  const paths = loaded.ok ? [] : loaded.mistakes.map((mistake) => renderPath(mistake.path));
  expect(paths.sort()).toEqual(['server.port', 'storage.list', 'tabels', 'tables.a.fields[0].on_delete']);
});

test('an alias bomb ends in an error, not in memory', () => {
  const levels = Array.from(
    { length: 12 },
    (_, n) => `x${n + 1}: &x${n + 1} [${Array(10).fill(`*x${n}`).join(', ')}]`,
  );
  const loaded = load(`version: 1\nx0: &x0 [1, 1]\n${levels.join('\n')}`);
  expect(loaded.ok ? [] : loaded.mistakes.map((mistake) => mistake.message)).toEqual([
    expect.stringMatching(/aliases/),
  ]);
});

test('a file of six megabytes ends in an error', () => {
  const loaded = load(`version: 1\n# ${'x'.repeat(6 * 1024 * 1024)}`);
  expect(loaded.ok ? [] : loaded.mistakes).toMatchObject([
    { code: 'too-large', message: expect.stringMatching(/maximum is 5MB/) },
  ]);
});

test('a table without rls is a warning that names it, and an error when strict', () => {
  const text = 'version: 1\ntables: { open: { fields: [{ name: a, type: int, primary_key: true }] } }';
  const loose = load(text);
  expect(loose.ok && loose.warnings).toMatchObject([
    { code: 'open-table', severity: 'warning', message: expect.stringMatching(/open/) },
  ]);
  expect(load(text, { strict: true }).ok).toBe(false);
  for (const key of ['rls: []', 'rls: false', 'grants: { anon: [], authenticated: [] }']) {
    const closed = load(text.replace('{ fields', `{ ${key}, fields`), { strict: true });
    expect(closed.ok).toBe(true);
  }
});

test('numbers of a default and of bounds keep their digits', () => {
  const [{ fields } = { fields: [] }] = good(
    table(
      '      - { name: a, type: numeric, default: 1.10, min: -9007199254740993, max: 1e30 }\n' +
        '      - { name: b, type: text, default: "1" }',
    ),
  ).tables;
  expect(fields[0]).toMatchObject({
    min: '-9007199254740993',
    max: '1e30',
    default: { kind: 'scalar', text: '1.10', type: 'number' },
  });
  expect(fields[1]?.default).toEqual({ kind: 'scalar', text: '1', type: 'string', quoted: true });
});

test('variables are substituted, and an unquoted value gets its YAML type', () => {
  const config = good('version: 1\nproject: { name: "${NAME} ${X:-a b}" }\nserver: { port: "${PORT}" }', {
    NAME: 'App',
    PORT: '9000',
  });
  expect(config.project.name).toBe('App a b');
  expect(config.server.port).toBe(9000);
  expect(config.source.text).toContain('${PORT}');
});

test('dollar signs of SQL are not changed, and $${ is a literal', () => {
  const body = "execute $q$ select $1 $q$ using '$${x}';";
  expect(
    good(`version: 1\nrpc: { f: { returns: { type: int }, body: ${JSON.stringify(body)} } }`).rpc[0]?.body,
  ).toBe("execute $q$ select $1 $q$ using '${x}';");
});

test('the value of a secret variable is in no mistake', () => {
  const loaded = load(
    'version: 1\nauth: { oauth: { google: { client_id: a, client_secret: "${S}", redirect_url: nowhere } } }',
    {
      variables: { S: 'hunter2-secret' },
    },
  );
  expect(loaded.ok).toBe(false);
  expect(JSON.stringify(loaded)).not.toContain('hunter2-secret');
});

test('absent keys have the defaults of the reference', () => {
  const config = good('version: 1');
  expect(config.server).toEqual({
    port: 8080,
    processes: 1,
    maxBodyBytes: 1024 ** 2,
    maxResponseBytes: 100 * 1024 ** 2,
    maxInFlight: 1_000,
    responseBudgetBytes: 256 * 1024 ** 2,
    maxLimit: 100,
    cors: { origins: [] },
    trustedProxies: undefined,
    listenEarly: true,
    timeouts: {
      requestMs: 30_000,
      dbQueryMs: 10_000,
      uploadMs: 300_000,
      headerMs: 15_000,
      bodyIdleMs: 10_000,
      responseIdleMs: 10_000,
      drainDelayMs: 5_000,
      shutdownMs: 30_000,
    },
  });
  expect(config.database.pool).toEqual({ max: 20, min: 5, owner: 8, idleTimeoutMs: 300_000, queue: 1_000 });
  expect(config.auth).toMatchObject({
    jwtExpirySeconds: 900,
    refreshTokenExpirySeconds: 604_800,
    allowSignup: true,
    allowAnonymous: true,
    email: undefined,
  });
});

test('anchors and merge keys work', () => {
  const config = good(`version: 1
tables:
  a:
    rls: &owner [{ operations: [select], using: "true" }]
    fields: [&id { name: id, type: int, primary_key: true }]
  b:
    rls: *owner
    fields: [*id, { <<: *id, name: n, primary_key: false }]
`);
  expect(config.tables[1]?.fields.map((field) => field.name)).toEqual(['id', 'n']);
  expect(config.tables[1]?.rls).toHaveLength(1);
});

test('the report shows the line with a caret under the mistake', () => {
  const text = 'version: 1\nserver: { prot: 1 }\n';
  const loaded = load(text);
  expect(renderMistakes(loaded.ok ? [] : loaded.mistakes, { file: 'svc.yaml', text })).toBe(
    [
      'svc.yaml:2:11 error server.prot',
      '  2 | server: { prot: 1 }',
      '    |           ^^^^',
      '  there is no key "prot" here',
      '  → Did you mean port?',
    ].join('\n'),
  );
});

test.each([
  ['3', 3],
  ['"3"', 3],
  ['auto', 'auto'],
])('server.processes: %s', (written, expected) => {
  expect(good(`version: 1\nserver: { processes: ${written} }`).server.processes).toBe(expected);
});
