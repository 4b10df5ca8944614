// `/openapi.json`: it is valid and complete, and matches the real responses.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Validator } from '@seriousme/openapi-schema-validator';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { AUTH_DESCRIPTION } from '../../src/auth/description.ts';
import { ROUTES as AUTH_ROUTES } from '../../src/auth/auth.ts';
import { STORAGE_DESCRIPTION } from '../../src/storage/description.ts';
import { ROUTES as STORAGE_ROUTES } from '../../src/storage/storage.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { startSvc, type SvcProcess } from '../support/svc-process.ts';

const KEYS = {
  SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaa',
  SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
};
const YAML = `version: 1
project: { name: Shelves }
tables:
  books:
    rls: [{ operations: [select, insert], check: 'true' }]
    fields:
      - { name: id, type: bigint, identity: always, primary_key: true }
      - { name: state, type: text, enum: [new, read], default: new }
      - { name: title, type: text, required: true }
      - { name: pages, type: integer, min: 1 }
  ledger:
    grants: { anon: [], authenticated: [] }
    rls: []
    fields: [{ name: id, type: bigint, identity: always, primary_key: true }]
storage:
  files: { public: true, rls: [{ operations: [select, insert, update, delete], check: auth.uid() is not null }] }
functions:
  greet: { runtime: node, file: greet.js }
  secret: { runtime: node, file: greet.js, auth_required: true }
`;

/** Returns whether a route only answers that a feature is not offered. */
const isRefusal = (path: string): boolean =>
  /^\/(s3|sso|passkeys|oauth|admin\/(sso|oauth|custom-providers)|user\/oauth|vector|iceberg)\b|\/passkeys/.test(
    path,
  );

function offered(
  routes: ReadonlyArray<readonly [string | readonly string[], string, ...unknown[]]>,
): string[] {
  return routes.flatMap(([methods, path]) =>
    isRefusal(path) ? [] : [methods].flat().map((method) => `${method} ${path}`),
  );
}

const withBraces = (path: string): string => path.replaceAll(/:(\w+)/g, '{$1}');

test('every route of auth is described, and no other', () => {
  const routes = offered(AUTH_ROUTES).filter((route) => !route.startsWith('HEAD'));
  expect(Object.keys(AUTH_DESCRIPTION.operations).toSorted()).toEqual(routes.map(withBraces).toSorted());
});

test('every route of storage is described, and no other', () => {
  const routes = offered(STORAGE_ROUTES).flatMap((route) => {
    const [method = '', path = ''] = route.split(' ');
    // Omits refusals, paths of other products, and HEAD next to a GET of the same path.
    if (/^(POST|PUT|DELETE) \/bucket|^OPTIONS|^HEAD \/(object|render)|cdn/.test(route)) return [];
    const described = path
      .replace(':object', '{bucket}/{path}')
      .replace(':rest', '{upload}')
      .replace(':bucket', '{bucket}');
    // One route for a bucket and its objects.
    const both = /^(DELETE \/object|POST \/object\/sign)\/:bucket$/.test(route);
    return [`${method} ${described}`, ...(both ? [`${method} ${described}/{path}`] : [])];
  });
  expect(Object.keys(STORAGE_DESCRIPTION.operations).toSorted()).toEqual(routes.toSorted());
});

describe('of a running svc', () => {
  let folder: string;
  let database: TestDatabase;
  let svc: SvcProcess;
  let document: OpenApi;
  let token: string;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'svc-openapi-'));
    writeFileSync(join(folder, 'svc.yaml'), YAML);
    writeFileSync(join(folder, 'greet.js'), 'export default () => ({ body: { hello: "there" } });\n');
    database = await createDatabase();
    svc = await startSvc({
      command: 'serve',
      config: join(folder, 'svc.yaml'),
      arguments: ['--migrate'],
      env: { ...KEYS, SVC_DATABASE_URL: database.url },
    });
    document = (await (await ask('GET', '/openapi.json')).json()) as OpenApi;
    token = ((await (await ask('POST', '/auth/v1/signup', { body: ANN })).json()) as { access_token: string })
      .access_token;
  });
  afterAll(async () => {
    await svc.stop();
    await database.drop();
    rmSync(folder, { recursive: true, force: true });
  });

  const ANN = { email: 'ann@example.com', password: 'correct horse battery' };
  const ask = (
    method: string,
    path: string,
    { body, as }: { body?: unknown; as?: 'admin' | 'user' } = {},
  ): Promise<Response> =>
    fetch(`${svc.url}${path}`, {
      method,
      redirect: 'manual',
      headers: {
        apikey: as === 'admin' ? KEYS.SVC_SECRET_KEY : KEYS.SVC_PUBLISHABLE_KEY,
        ...(as === 'user' && { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });

  test('it is OpenAPI 3.1 to a validator', async () => {
    const validator = new Validator();
    expect(await validator.validate(structuredClone(document))).toMatchObject({ valid: true });
    expect(validator.version).toBe('3.1');
  });

  test('it contains each API with its prefix and security', () => {
    expect(document.info.title).toBe('Shelves');
    const prefixes = new Set(
      Object.keys(document.paths).map((path) => path.split('/').slice(1, 3).join('/')),
    );
    expect([...prefixes].toSorted()).toEqual([
      'auth/v1',
      'functions/v1',
      'realtime/v1',
      'rest/v1',
      'storage/v1',
    ]);
    const security = (method: string, path: string): unknown => document.paths[path]?.[method]?.security;
    expect(security('post', '/functions/v1/greet')).toEqual([{}]);
    expect(security('post', '/functions/v1/secret')).toEqual([{ apikey: [], bearer: [] }]);
    expect(security('get', '/auth/v1/admin/users')).toEqual([{ apikey: [] }]);
    expect(document.components.schemas['books']).toMatchObject({
      properties: { state: { enum: ['new', 'read', null], default: 'new' } },
    });
  });

  test('it requires a key, and contains only tables that the caller can use', async () => {
    const answer = await fetch(`${svc.url}/openapi.json`);
    expect([answer.status, await answer.json()]).toMatchObject([
      401,
      { message: 'No API key found in request' },
    ]);
    const seen = async (as: 'admin' | 'user'): Promise<string[]> =>
      Object.keys(((await (await ask('GET', '/openapi.json', { as })).json()) as OpenApi).paths).filter(
        (path) => path.startsWith('/rest/'),
      );
    expect(await seen('user')).toEqual(['/rest/v1/books']);
    expect(await seen('admin')).toEqual(['/rest/v1/books', '/rest/v1/ledger']);
  });

  test('answers are as they are described', async () => {
    const ajv = new Ajv2020({ strict: false });
    addFormats.default(ajv);
    ajv.addSchema({ $id: 'document', ...document });
    const asked: string[] = [];
    const check = async (
      method: string,
      template: string,
      path: string,
      options: Parameters<typeof ask>[2] = {},
    ): Promise<unknown> => {
      const answer = await ask(method, path, options);
      const body: unknown = answer.headers.get('content-type')?.includes('json')
        ? await answer.json()
        : await answer.text();
      const operation = document.paths[template]?.[method.toLowerCase()];
      const described = operation?.responses[String(answer.status)] ?? operation?.responses['default'];
      expect(described, `${method} ${template} ${answer.status}`).toBeDefined();
      const schema = described?.content?.['application/json']?.schema;
      // Without return=representation a write returns an empty body.
      if (schema !== undefined && body !== '') {
        const validate = ajv.compile(rebased(schema));
        validate(body);
        expect({
          asked: `${method} ${path}`,
          status: answer.status,
          body,
          errors: validate.errors,
        }).toMatchObject({
          errors: null,
        });
      }
      asked.push(`${answer.status} ${method} ${template}`);
      return body;
    };

    await check('POST', '/auth/v1/token', '/auth/v1/token?grant_type=password', { body: ANN });
    await check('POST', '/auth/v1/token', '/auth/v1/token?grant_type=password', {
      body: { ...ANN, password: 'another one here' },
    });
    await check('GET', '/auth/v1/user', '/auth/v1/user', { as: 'user' });
    await check('PUT', '/auth/v1/user', '/auth/v1/user', { as: 'user', body: { data: { name: 'Ann' } } });
    await check('POST', '/auth/v1/otp', '/auth/v1/otp', { body: { email: ANN.email } });
    await check('GET', '/auth/v1/settings', '/auth/v1/settings');
    await check('GET', '/auth/v1/.well-known/jwks.json', '/auth/v1/.well-known/jwks.json');
    const { users } = (await check('GET', '/auth/v1/admin/users', '/auth/v1/admin/users', {
      as: 'admin',
    })) as { users: { id: string }[] };
    const userPath = `/auth/v1/admin/users/${users[0]?.id}`;
    await check('GET', '/auth/v1/admin/users/{id}', userPath, { as: 'admin' });
    await check('PUT', '/auth/v1/admin/users/{id}', userPath, {
      as: 'admin',
      body: { ban_duration: 'none' },
    });
    await check('POST', '/auth/v1/admin/users', '/auth/v1/admin/users', {
      as: 'admin',
      body: { email: 'bob@example.com', email_confirm: true },
    });
    await check('POST', '/auth/v1/admin/generate_link', '/auth/v1/admin/generate_link', {
      as: 'admin',
      body: { type: 'magiclink', email: 'bob@example.com' },
    });
    await check('GET', '/auth/v1/admin/audit', '/auth/v1/admin/audit', { as: 'admin' });
    await check('GET', '/auth/v1/admin/mails', '/auth/v1/admin/mails', { as: 'admin' });
    const factor = (await check('POST', '/auth/v1/factors', '/auth/v1/factors', {
      as: 'user',
      body: { factor_type: 'totp', friendly_name: 'phone' },
    })) as { id: string };
    await check('GET', '/auth/v1/admin/users/{id}/factors', `${userPath}/factors`, { as: 'admin' });
    await check('POST', '/auth/v1/factors/{id}/challenge', `/auth/v1/factors/${factor.id}/challenge`, {
      as: 'user',
    });
    await check('DELETE', '/auth/v1/factors/{id}', `/auth/v1/factors/${factor.id}`, { as: 'user' });

    const put = await fetch(`${svc.url}/storage/v1/object/files/docs/a.txt`, {
      method: 'POST',
      headers: {
        apikey: KEYS.SVC_PUBLISHABLE_KEY,
        authorization: `Bearer ${token}`,
        'content-type': 'text/plain',
      },
      body: 'hello',
    });
    expect(put.status).toBe(200);
    const storage = '/storage/v1/object';
    await check('GET', '/storage/v1/bucket', '/storage/v1/bucket', { as: 'admin' });
    await check('GET', '/storage/v1/bucket/{bucket}', '/storage/v1/bucket/files', { as: 'admin' });
    await check('GET', `${storage}/public/{bucket}/{path}`, `${storage}/public/files/docs/a.txt`);
    await check('GET', `${storage}/info/{bucket}/{path}`, `${storage}/info/files/docs/a.txt`, { as: 'user' });
    await check('GET', `${storage}/info/{bucket}/{path}`, `${storage}/info/files/none`, { as: 'user' });
    for (const prefix of ['', 'docs'])
      await check('POST', `${storage}/list/{bucket}`, `${storage}/list/files`, {
        as: 'user',
        body: { prefix },
      });
    await check('POST', `${storage}/list-v2/{bucket}`, `${storage}/list-v2/files`, {
      as: 'user',
      body: { with_delimiter: true },
    });
    await check('POST', `${storage}/sign/{bucket}/{path}`, `${storage}/sign/files/docs/a.txt`, {
      as: 'user',
      body: { expiresIn: 60 },
    });
    await check('POST', `${storage}/sign/{bucket}`, `${storage}/sign/files`, {
      as: 'user',
      body: { expiresIn: 60, paths: ['docs/a.txt', 'none'] },
    });
    await check('POST', `${storage}/upload/sign/{bucket}/{path}`, `${storage}/upload/sign/files/b.txt`, {
      as: 'user',
    });
    await check('POST', `${storage}/copy`, `${storage}/copy`, {
      as: 'user',
      body: { bucketId: 'files', sourceKey: 'docs/a.txt', destinationKey: 'docs/b.txt' },
    });
    await check('DELETE', `${storage}/{bucket}`, `${storage}/files`, {
      as: 'user',
      body: { prefixes: ['docs/a.txt'] },
    });
    await check('DELETE', `${storage}/{bucket}/{path}`, `${storage}/files/docs/b.txt`, { as: 'user' });

    await check('POST', '/functions/v1/greet', '/functions/v1/greet', { body: {} });
    await check('POST', '/functions/v1/secret', '/functions/v1/secret', { body: {} });
    const broadcast = '/realtime/v1/api/broadcast';
    const messages = [{ topic: 'room', event: 'said', payload: {} }];
    await check('POST', broadcast, broadcast, { body: { messages } });
    await check('POST', broadcast, broadcast, { body: { messages: 'none' } });
    await check('POST', '/rest/v1/books', '/rest/v1/books', { body: { title: 'One' } });
    await check('GET', '/rest/v1/books', '/rest/v1/books');
    await check('GET', '/rest/v1/books', '/rest/v1/books?nothing=eq.1');
    // Most were answered well, and some refused: both are described.
    expect(asked.filter((status) => status.startsWith('2')).length).toBeGreaterThan(30);
    expect(asked.filter((status) => status.startsWith('4')).length).toBeGreaterThanOrEqual(5);
  });
});

type OpenApi = {
  readonly info: { readonly title: string };
  readonly paths: Readonly<Record<string, Readonly<Record<string, OperationObject>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, object>> };
};
type OperationObject = {
  readonly security?: unknown;
  readonly responses: Readonly<
    Record<string, { readonly content?: Readonly<Record<string, { readonly schema?: object }>> }>
  >;
};

/** Resolves references within the document, which ajv needs. */
const rebased = (schema: object): object =>
  JSON.parse(JSON.stringify(schema).replaceAll('"#/components', '"document#/components')) as object;
