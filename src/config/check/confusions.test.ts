// Mistakes of people who know other products, and the hints for them.
import { expect, test } from 'vitest';
import { loadConfig } from '../load.ts';

function report(text: string): string {
  const loaded = loadConfig(
    { name: 'svc.yaml', directory: undefined, text: `version: 1\n${text}` },
    { variables: {} },
  );
  const mistakes = loaded.ok ? loaded.warnings : loaded.mistakes;
  return mistakes
    .map(
      ({ severity, position, message, hint }) => `${severity} ${position.line}: ${message} → ${hint ?? ''}`,
    )
    .join('\n');
}

const table = (fields: string, rls = '[]'): string =>
  `tables:\n  t:\n    rls: ${rls}\n    fields:\n      - { name: id, type: int, primary_key: true }\n${fields}`;

test.each([
  [
    'operations: [*]',
    table('', '[{ operations: ["*"], using: true }]'),
    /\[select, insert, update, delete\]/,
  ],
  [
    'on_delete next to a type',
    table('      - { name: a, type: text, on_delete: cascade }\n'),
    /foreign_key: \{ references: <table>\.<column>, on_delete: … \}.*ref: storage\.<bucket>/,
  ],
  [
    'a provider without its type',
    'providers: { email: { enabled: true } }',
    /"type" is missing → Write type: resend \| ses \| smtp\./,
  ],
  ['columns as a map', 'tables: { t: { rls: [], fields: { id: int } } }', /Columns are a list: fields: \[/],
  ['policies as a map', table('', '{ operations: [select] }'), /rls/],
  [
    'arguments as a map',
    'rpc: { f: { args: { a: int }, returns: { type: int }, body: x } }',
    /args: \[\{ name: a/,
  ],
  [
    'buckets below storage',
    'storage: { buckets: { photos: {} } }',
    /Buckets are declared under storage itself: storage\.photos/,
  ],
  [
    'the S3 endpoint of an older file',
    'server: { s3_endpoint: true }',
    /there is no key "s3_endpoint" here → The S3-protocol endpoint was removed: delete this line/,
  ],
  ['tables as a list', 'tables: [{ name: t }]', /remove the leading dashes/],
  [
    'string',
    table('      - { name: a, type: string }\n'),
    /"string" is not a PostgreSQL type → Did you mean text\?/,
  ],
  ['datetime', table('      - { name: a, type: datetime }\n'), /Did you mean timestamptz\?/],
  [
    'a table without a key',
    'tables: { t: { rls: [], fields: [{ name: a, type: int }] } }',
    /^warning 2: .*no primary key/,
  ],
  [
    'a statement for plpgsql',
    'rpc: { one: { returns: { type: int }, body: "-- one\\nselect 1" } }',
    /language is plpgsql → Add language: sql/,
  ],
  [
    'an owner that is not a uuid',
    table('      - { name: title, type: text }\n', '[{ operations: [select], using: title = auth.uid() }]'),
    /title is text and auth\.uid\(\) is uuid.*auth\.uid\(\)::text/,
  ],
  [
    'a bracket that is not closed',
    table('      - { name: a, type: text\n      - { name: b, type: text }\n'),
    /error 7: this \{ is not closed → Add the missing \}/,
  ],
  [
    'a list that is not closed',
    'server:\n  cors:\n    origins: ["a://b"\n  port: 80\n',
    /error 4: this \[ is not closed/,
  ],
  ['view', 'view: {}', /under views/],
  ['triggers', 'triggers: {}', /tables\.<name>\.triggers/],
  ['fixtures', 'fixtures: {}', /under seed/],
  ['cron', 'cron: {}', /under schedules/],
  ['channels', 'channels: {}', /under realtime/],
])('%s', (_what, text, message) => {
  expect(report(text)).toMatch(message);
});

test.each([
  ['a body that begins with a block', 'rpc: { f: { returns: { type: int }, body: "begin return 1; end" } }'],
  ['a declaration', 'rpc: { f: { returns: { type: int }, body: "declare x int; begin return 1; end" } }'],
  ['a statement in SQL', 'rpc: { f: { language: sql, returns: { type: int }, body: select 1 } }'],
  [
    'an owner that is a uuid',
    table('      - { name: o, type: uuid }\n', '[{ operations: [select], using: o = auth.uid() }]'),
  ],
  [
    'an owner that is compared as text',
    table('      - { name: o, type: text }\n', '[{ operations: [select], using: "o = auth.uid()::text" }]'),
  ],
  ['a type of a schema of one’s own', table('      - { name: a, type: app.string }\n')],
])('%s is valid', (_what, text) => {
  expect(report(text)).toBe('');
});

test('a column with a mistake causes no further mistakes', () => {
  const text = table(
    '      - { name: owner, type: uuid, references: auth.users }\n',
    '[{ operations: [select], using: owner = auth.uid() }]',
  );
  expect(report(text).split('\n')).toEqual([
    expect.stringContaining('there is no key "references" here → Did you mean foreign_key?'),
  ]);
});
