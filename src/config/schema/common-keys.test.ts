import { Ajv2020 } from 'ajv/dist/2020.js';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { EXAMPLES } from '../docs/reference-examples.ts';
import { listCommonKeys, listSections, toCommonJsonSchema } from './common-keys.ts';
import { describeSchema, toJsonSchema } from './schema.ts';

const COMMON_KEYS = {
  '': ['version', 'include'],
  'project.': ['name'],
  'database.': ['pool.max', 'failover_wait'],
  'server.': [
    'port',
    'cors.origins',
    'max_body_size',
    'trusted_proxies',
    'timeouts.request',
    'timeouts.db_query',
  ],
  'providers.email.': ['type', 'api_key', 'url', 'default_from_email'],
  'providers.storage.': ['type', 'local.path', 's3.bucket', 's3.region', 's3.endpoint'],
  'auth.': [
    'jwt_expiry',
    'allow_signup',
    'allow_anonymous',
    'redirect_urls',
    'email.verify_email',
    'email.templates',
  ],
  'auth.oauth.<name>.': ['client_id', 'client_secret', 'redirect_url'],
  'types.<name>.': ['enum'],
  'tables.<name>.fields[].': [
    'name',
    'type',
    'primary_key',
    'required',
    'unique',
    'default',
    'enum',
    'check',
    'identity',
    'renamed_from',
    'foreign_key.references',
    'foreign_key.on_delete',
  ],
  'tables.<name>.indexes[].': ['columns', 'unique'],
  'tables.<name>.rls[].': ['operations', 'to', 'using', 'with_check'],
  'tables.<name>.': ['realtime'],
  'views.<name>.': ['query'],
  'storage.<name>.': ['public', 'max_size', 'types', 'rls'],
  'realtime.': ['enabled', 'rls'],
  'rpc.<name>.': ['args', 'returns', 'language', 'security', 'body', 'auth_required'],
  'functions.<name>.': ['file', 'auth_required', 'env'],
  'schedules.<name>.': ['cron', 'function'],
  'seed[].': ['users', 'rows'],
  'migrations.': ['drop'],
};
const PATHS = Object.entries(COMMON_KEYS).flatMap(([prefix, keys]) => keys.map((key) => `${prefix}${key}`));

test('between 50 and 70 keys are common', () => {
  expect(listCommonKeys().length).toBeGreaterThanOrEqual(50);
  expect(listCommonKeys().length).toBeLessThanOrEqual(70);
});

test('exactly the listed keys are common', () => {
  expect(listCommonKeys().toSorted()).toEqual(PATHS.toSorted());
});

test('each listed key exists in the schema', () => {
  const paths = new Set(listSections().flatMap((keys) => keys.map(({ path }) => path)));
  expect(PATHS.filter((path) => !paths.has(path))).toEqual([]);
});

test('required keys next to common keys are prominent, and keys below a common key are not', () => {
  const prominent = new Map(listSections().flatMap((keys) => keys.map((key) => [key.path, key.isProminent])));
  expect(prominent.get('functions.<name>.runtime')).toBe(true);
  expect(prominent.get('seed[].name')).toBe(true);
  expect(prominent.get('tables.<name>.rls')).toBe(true);
  expect(prominent.get('rpc.<name>.args[].type')).toBe(false);
  expect(prominent.get('views.<name>.indexes[].columns')).toBe(false);
});

test('the complete JSON Schema contains no mark', () => {
  expect(JSON.stringify(toJsonSchema())).not.toMatch(/"common":(true|false)/);
  expect(JSON.stringify(describeSchema())).toMatch(/"common":true/);
});

test('the short JSON Schema has the common keys only and accepts every valid file', () => {
  const schema = toCommonJsonSchema();
  const ajv = new Ajv2020({ strict: false });
  expect(ajv.validateSchema(schema)).toBe(true);
  const accepts = ajv.compile(schema);
  expect(accepts(parse(Object.values(EXAMPLES).join('\n'))), JSON.stringify(accepts.errors)).toBe(true);
  expect(accepts(parse('version: 1\nauth: { allow_signup: "${OPEN:-true}" }'))).toBe(true);
  expect(accepts(parse('version: 2'))).toBe(false);
  expect(accepts(parse('version: 1\nserver: { port: abc }'))).toBe(false);

  expect(Object.keys(Object(schema['properties']))).not.toContain('extensions');
  expect(JSON.stringify(schema)).not.toMatch(/"common":|"partition_by"|"listen_early"/);
  expect(JSON.stringify(schema).length).toBeLessThan(JSON.stringify(toJsonSchema()).length / 3);
});
