import { Ajv2020 } from 'ajv/dist/2020.js';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { loadConfig, type Loaded } from '../load.ts';
import { EXAMPLES, FIRST_APP } from './reference-examples.ts';
import { renderReferencePage } from './reference-page.ts';
import { renderMistakes } from '../mistakes/report.ts';
import { listCommonKeys, listSections } from '../schema/common-keys.ts';
import { describeSchema, toJsonSchema } from '../schema/schema.ts';

const TEXT = Object.values(EXAMPLES).join('\n');

const directory = mkdtempSync(join(tmpdir(), 'svc-examples-'));
mkdirSync(join(directory, 'mails'));
writeFileSync(join(directory, 'mails', 'recovery.html'), '<p>Forgotten?</p>');
mkdirSync(join(directory, 'seed', 'photos'), { recursive: true });
writeFileSync(join(directory, 'seed', 'hours.csv'), 'day\n2026-01-01\n');
writeFileSync(join(directory, 'seed', 'admin.sql'), 'select 1');
mkdirSync(join(directory, 'steps'));
writeFileSync(join(directory, 'steps', 'split-names.sql'), 'select 1');
writeFileSync(join(directory, 'steps', 'join-names.sql'), 'select 1');
mkdirSync(join(directory, 'tables'));
writeFileSync(join(directory, 'tables', 'ratings.yaml'), 'tables: {}');
writeFileSync(join(directory, 'webhooks.yaml'), '# none yet');
mkdirSync(join(directory, 'database'));
writeFileSync(join(directory, 'database/none_yet.sql'), '');
mkdirSync(join(directory, 'sql'));
writeFileSync(join(directory, 'sql', 'sales_by_day.sql'), 'select 1 as n');
writeFileSync(join(directory, 'sql', 'note_change.sql'), 'begin return new; end');
afterAll(() => rmSync(directory, { recursive: true }));

function load(text: string): Loaded {
  const references = [...text.matchAll(/\$\{(\w+)\}/g)].map(([, name]) => name ?? '');
  return loadConfig(
    { name: 'svc.yaml', directory, text },
    { variables: Object.fromEntries(references.map((name) => [name, `value-of-${name}`])) },
  );
}

test('docs/configuration.md matches the schema (npm run docs writes it)', () => {
  const committed = readFileSync(new URL('../../../docs/configuration.md', import.meta.url), 'utf8');
  expect(committed).toBe(renderReferencePage());
});

test('each key has one row, and only the rows of keys that are not common are folded', () => {
  const commonKeys = listCommonKeys();
  const sections = renderReferencePage().split(/^## /m).slice(-listSections().length);
  for (const [at, keys] of listSections().entries()) {
    const [shown = '', folded = ''] = (sections[at] ?? '').split('<details>');
    const [section, ...below] = keys.map(({ path }) => path);
    const common = below.filter((path) => keys.some((key) => key.path === path && key.isProminent));
    expect(keyRows(shown)).toEqual([section, ...common]);
    expect(keyRows(folded)).toEqual(below.filter((path) => !common.includes(path)));
  }
  const commonRows = keyRows(renderReferencePage()).filter((path) => commonKeys.includes(path));
  expect(commonRows.toSorted()).toEqual(commonKeys.toSorted());
});

test('the page begins with a valid file that uses at least ten common keys', () => {
  const [beginning = ''] = renderReferencePage().split('\n## ');
  expect(beginning).toContain(FIRST_APP);
  const loaded = load(FIRST_APP);
  if (!loaded.ok) throw new Error(renderMistakes(loaded.mistakes, { file: 'svc.yaml', text: FIRST_APP }));
  expect(loaded.warnings).toEqual([]);
  const file: unknown = parse(FIRST_APP);
  const used = listCommonKeys().filter((path) => valuesAt(file, pathSteps(path)).length > 0);
  expect(used.length).toBeGreaterThanOrEqual(10);
  // The screen of a small laptop shows this many lines of code below the title.
  expect(FIRST_APP.split('\n').length).toBeLessThanOrEqual(20);
});

test('every key of the schema has a description, and an example that uses it', () => {
  const undescribed: string[] = [];
  const unused: string[] = [];
  const examples: unknown = parse(TEXT);
  walkSchema('', describeSchema(), (path, node) => {
    if (!Reflect.get(Object(node), 'description')) undescribed.push(path);
    // The keys of an index are shown with tables.
    if (path.startsWith('views.*.indexes.*.')) return;
    if (valuesAt(examples, path.split('.')).length === 0) unused.push(path);
  });
  expect(undescribed).toEqual([]);
  // These keys belong to other kinds of provider, are ignored, or are shown elsewhere, such as those of policies.
  expect(unused).toEqual([
    'providers.email.url',
    'providers.email.region',
    'providers.storage.local',
    'providers.storage.local.path',
    'auth.refresh_tokens',
    'auth.hooks.custom_access_token.function',
    'storage.*.rls.*.name',
    'storage.*.rls.*.type',
    'storage.*.rls.*.check',
    'rpc.*.args.*.default.sql',
  ]);
});

test('the examples of the page are one valid file without a warning', () => {
  const loaded = load(TEXT);
  if (!loaded.ok) throw new Error(renderMistakes(loaded.mistakes, { file: 'svc.yaml', text: TEXT }));
  expect(loaded.warnings).toEqual([]);
});

test('the examples become the configuration they describe', () => {
  const loaded = load(TEXT);
  const config = loaded.ok ? loaded.config : undefined;
  expect(config).toMatchObject({
    project: { name: 'Shop', cloudProjectId: 'prj_123' },
    database: { pool: { max: 20, min: 5, idleTimeoutMs: 300_000 } },
    server: { port: 8080, cors: { origins: ['https://shop.example.com', 'http://localhost:5173'] } },
    providers: {
      email: { type: 'resend', apiKey: 'value-of-RESEND_API_KEY' },
      storage: { type: 's3', bucket: 'shop-objects', secretAccessKey: 'value-of-S3_SECRET' },
    },
    auth: {
      jwtExpirySeconds: 900,
      allowAnonymous: false,
      email: {
        verifyEmail: true,
        templates: [{ name: 'confirm' }, { name: 'recovery', body: '<p>Forgotten?</p>' }],
      },
      oauth: [
        { name: 'google', scopes: ['openid'], emailOptional: undefined },
        { name: 'keycloak', url: 'https://login.example.com/realms/shop' },
        { name: 'staff', issuer: 'https://staff.example.com', emailOptional: true },
      ],
    },
    functionsBundle: expect.stringMatching(/^s3:/),
    functions: [
      { name: 'pay', timeoutMs: 10_000, env: { CURRENCY: 'EUR', STRIPE_KEY: 'value-of-SVC_ENV_STRIPE_KEY' } },
      { name: 'digest', http: false, authRequired: true },
    ],
    schedules: [
      { name: 'weekday_digest', cron: '0 7 * * 1-5', payload: '{"kind":"weekday"}' },
      { name: 'remove_drafts', everyMs: 3_600_000, enabled: false },
    ],
    migrations: { drop: 'retire', pruneAfterMs: 7 * 86_400_000, lockTimeoutMs: 300 },
    storage: [{ name: 'photos', public: true, maxSizeBytes: 5 * 1024 ** 2, types: ['image/*'] }],
    rpc: [
      {
        name: 'search_products',
        renamedFrom: 'find_products',
        authRequired: true,
        volatility: 'stable',
        returns: 'setof products',
        args: [
          { name: 'words', required: true, default: undefined },
          { name: 'most', default: { text: '10' } },
        ],
      },
      { name: 'sales_of', returns: 'table("day" date, "total" numeric)', strict: true, rows: 30 },
      { key: 'sales_of_all', name: 'sales_of', atomic: true, body: 'return (select sum(amount) from sales)' },
      { name: 'clean_up', kind: 'procedure', expose: false, returns: '' },
      { name: 'note_change', expose: false, settings: { search_path: '' }, body: 'begin return new; end' },
      { name: 'remove_drafts', expose: false, execute: ['service_role'] },
      { name: 'may_sell', expose: false, execute: ['authenticated'] },
      { name: 'add_claims' },
    ],
  });
  const [products, ledger, hours] = config?.tables ?? [];
  expect(ledger).toMatchObject({
    schema: 'accounting',
    name: 'ledger',
    renamedFrom: 'bookings',
    protect: true,
    rls: [],
    primaryKey: ['product_id', 'line'],
  });
  expect(ledger?.fields[0]).toMatchObject({
    type: undefined,
    foreignKey: { schema: 'public', table: 'products', column: 'id', onDelete: 'restrict' },
  });
  expect(hours?.rls).toBe('off');
  const field = (name: string): unknown => products?.fields.find((candidate) => candidate.name === name);
  expect(field('price')).toMatchObject({ type: 'numeric(10,2)', min: '0', max: '99999.99' });
  expect(field('tags')).toMatchObject({ default: { kind: 'list', items: [], json: '[]' } });
  expect(field('details')).toMatchObject({ default: { kind: 'map', json: '{"color":"none"}' } });
  expect(field('seller_id')).toMatchObject({
    default: { kind: 'sql', text: 'auth.uid()' },
    foreignKey: { schema: 'auth', table: 'users', column: 'id', onDelete: 'set_null' },
  });
  expect(field('photo')).toMatchObject({ ref: { bucket: 'photos', onDelete: 'cascade' } });
  expect(field('weight')).toMatchObject({ backfill: '0', using: 'weight::integer' });
  expect(products?.indexes[1]).toMatchObject({
    name: 'products_open_sku',
    columns: ['sku', 'state'],
    unique: true,
    where: "state <> 'sold'",
  });
  expect(products?.rls).toMatchObject([
    { operations: ['select'], type: 'permissive' },
    { operations: ['insert', 'update', 'delete'], withCheck: 'seller_id = auth.uid()' },
    { name: 'nothing_while_closed', type: 'restrictive', check: 'auth.is_authenticated()' },
  ]);
});

describe('the JSON Schema for editors', () => {
  const ajv = new Ajv2020({ strict: false });
  const validate = ajv.compile(toJsonSchema());
  const accepts = (text: string): boolean => validate(parse(text));

  test('is a valid schema of draft 2020-12 that names no key it does not know', () => {
    expect(toJsonSchema()['$schema']).toBe('https://json-schema.org/draft/2020-12/schema');
    expect(ajv.validateSchema(toJsonSchema())).toBe(true);
    expect(toJsonSchema()['additionalProperties']).toBe(false);
  });

  test('accepts the examples, references unsubstituted', () => {
    expect(accepts(TEXT), JSON.stringify(validate.errors)).toBe(true);
  });

  test.each([
    ['a reference for a number', 'version: 1\nserver: { port: "${PORT}" }'],
    ['a reference for a boolean', 'version: 1\nauth: { allow_signup: "${OPEN:-true}" }'],
    [
      'a reference for a choice',
      'version: 1\nproviders: { email: { type: "${MAIL}", default_from_email: a@b.c } }',
    ],
    ['a reference for a duration', 'version: 1\nauth: { jwt_expiry: "${EXPIRY:-15m}" }'],
    [
      'a condition that is true',
      'version: 1\ntables: { t: { fields: [{ name: a, type: int }], rls: [{ operations: [select], using: true }] } }',
    ],
    [
      'numbers in an enum',
      'version: 1\ntables: { t: { rls: [], fields: [{ name: a, type: int, enum: [1, 2] }] } }',
    ],
    ['a size in bytes', 'version: 1\nstorage: { pics: { max_size: 1024 } }'],
  ])('accepts %s, as the loader does', (_what, text) => {
    expect(accepts(text), JSON.stringify(validate.errors)).toBe(true);
    const loaded = loadConfig(
      { name: 'svc.yaml', directory: undefined, text },
      { variables: { PORT: '1', OPEN: 'true', MAIL: 'ses', EXPIRY: '1h' } },
    );
    expect(loaded.ok ? [] : loaded.mistakes).toEqual([]);
  });

  test.each([
    ['no version', 'project: { name: x }'],
    ['an unknown key', 'version: 1\ntabels: {}'],
    ['a wrong type', 'version: 1\nserver: { port: abc }'],
    ['a misspelt choice', 'version: 1\nrpc: { f: { language: sqll, body: x, returns: { type: int } } }'],
    ['a bad duration', 'version: 1\nauth: { jwt_expiry: soon }'],
  ])('rejects %s, as the loader does', (_what, text) => {
    expect(accepts(text)).toBe(false);
    expect(load(text).ok).toBe(false);
  });
});

function keyRows(markdown: string): string[] {
  return [...markdown.matchAll(/^\| `([^`]+)` \|/gm)].map(([, path = '']) => path);
}

/** `tables.<name>.fields[].type` as `tables`, `*`, `fields`, `*`, `type`. */
function pathSteps(path: string): string[] {
  return path.replaceAll('<name>', '*').replaceAll('[]', '.*').split('.');
}

/** Visits keys by path. `*` is any name or index. */
function walkSchema(path: string, node: unknown, visit: (path: string, node: unknown) => void): void {
  if (typeof node !== 'object' || node === null) return;
  for (const [key, child] of Object.entries(Object(Reflect.get(node, 'properties')))) {
    const at = path === '' ? key : `${path}.${key}`;
    visit(at, child);
    walkSchema(at, child, visit);
  }
  for (const inner of [Reflect.get(node, 'items'), Reflect.get(node, 'additionalProperties')])
    walkSchema(`${path}.*`, inner, visit);
  for (const branch of Object.values(Object(Reflect.get(node, 'anyOf')))) walkSchema(path, branch, visit);
}

function valuesAt(value: unknown, [step, ...rest]: readonly string[]): unknown[] {
  if (step === undefined) return [value];
  if (typeof value !== 'object' || value === null) return [];
  if (step === '*') return Object.values(value).flatMap((child: unknown) => valuesAt(child, rest));
  return Object.hasOwn(value, step) ? valuesAt(Reflect.get(value, step), rest) : [];
}
