// Overlays: changes by mode, keys that an overlay cannot change, and the equivalence of the merged text.
import fc from 'fast-check';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { loadConfig, type Loaded } from './load.ts';
import { renderMistakes } from './mistakes/report.ts';
import type { Mode } from './mode.ts';
import { scaled } from '../../test/support/run/scaled.ts';

vi.setConfig({ testTimeout: scaled(60_000) });

const directories: string[] = [];
afterEach(() => {
  for (const directory of directories.splice(0)) rmSync(directory, { recursive: true });
});

type Files = Readonly<Record<string, string>>;

function write(files: Files): string {
  const directory = mkdtempSync(join(tmpdir(), 'svc-overlay-'));
  directories.push(directory);
  for (const [path, text] of Object.entries(files)) writeFileSync(join(directory, path), text);
  return directory;
}

function load(files: Files, mode: Mode | undefined = 'production'): Loaded {
  const text = files['svc.yaml'] ?? '';
  const source = { name: 'svc.yaml', directory: write(files), text, mode };
  return loadConfig(source, { variables: { NAME: 'Shop' } });
}

function loadOk(files: Files, mode?: Mode): Extract<Loaded, { ok: true }> {
  const loaded = load(files, mode);
  if (!loaded.ok) throw new Error(loaded.mistakes.map(({ message }) => message).join('\n'));
  return loaded;
}

/** Returns the report of the configuration, without colours. */
function report(files: Files, mode?: Mode): string {
  const { included, ...loaded } = load(files, mode);
  const mistakes = loaded.ok ? loaded.warnings : loaded.mistakes;
  const text = files['svc.yaml'] ?? '';
  return renderMistakes(mistakes, { file: 'svc.yaml', text, included: included.texts });
}

/** Returns the loaded configuration without positions. */
function comparable({
  config: { source: _source, ...config },
}: {
  config: object & { source: unknown };
}): unknown {
  return JSON.parse(
    JSON.stringify(config, (key, value: unknown) => (key === 'position' ? undefined : value)),
  );
}

const BASE = `version: 1
project: { name: "\${NAME}", description: A shop }
server: { port: 8080, cors: { origins: [https://a.example, https://b.example] } }
auth:
  jwt_expiry: 1h
  allow_anonymous: true
tables:
  notes:
    fields: [{ name: id, type: bigint, primary_key: true }]
    rls: []
`;

describe('an overlay changes the settings of its mode', () => {
  test('only in its mode', () => {
    const files = { 'svc.yaml': BASE, 'svc.production.yaml': 'auth: { jwt_expiry: 5m }' };
    expect(loadOk(files).config.auth.jwtExpirySeconds).toBe(300);
    expect(loadOk(files, 'staging').config.auth.jwtExpirySeconds).toBe(3600);
    const { config, included } = loadOk(files);
    expect(config.auth.allowAnonymous).toBe(true);
    expect(config.source.overlay).toBe('svc.production.yaml');
    expect(included.overlay?.name).toBe('svc.production.yaml');
  });

  test('maps are merged, lists and values replaced, null removes a key, and an empty key has no effect', () => {
    const overlay = `version: 1
project: { description: null }
server:
  port: 9090
  cors: { origins: ["https://c.example"] }
  timeouts: { request: 5s }
auth:
providers: { email: null }
realtime: { limits: { channels: 7 } }
migrations: { lock_budget: 2m }
`;
    const { config } = loadOk({ 'svc.yaml': BASE, 'svc.production.yaml': overlay });
    expect(config.project).toMatchObject({ name: 'Shop', description: undefined });
    expect(config.server).toMatchObject({ port: 9090, cors: { origins: ['https://c.example'] } });
    expect(config.server.timeouts.requestMs).toBe(5_000);
    expect(config.auth.jwtExpirySeconds).toBe(3600);
    expect(config.realtime.limits.channels).toBe(7);
    expect(config.migrations.lockBudgetMs).toBe(120_000);
  });

  test('a replaced or removed value needs no variable in this mode', () => {
    const mail =
      `${BASE}providers:\n` +
      `  email: { type: resend, api_key: "\${UNSET}", default_from_email: a@b.example }\n`;
    expect(report({ 'svc.yaml': mail })).toContain('no variable UNSET');
    for (const overlay of ['providers: { email: null }', 'providers: { email: { api_key: re_x } }'])
      expect(loadOk({ 'svc.yaml': mail, 'svc.production.yaml': overlay })).toBeDefined();
    expect(
      report({ 'svc.yaml': mail, 'svc.production.yaml': 'providers: { email: { api_key: "${MISSING}" } }' }),
    ).toMatch(/^svc\.production\.yaml:1:\d+ error providers\.email\.api_key[\s\S]*no variable MISSING/);
  });

  test('env and timeout of a code function that svc.yaml declares', () => {
    const base = `${BASE}functions: { hook: { runtime: node, file: hook.js, env: { LEVEL: low, MODE: x } } }\n`;
    const files = {
      'svc.yaml': base,
      'hook.js': 'export default () => {}',
      'svc.production.yaml': 'functions: { hook: { env: { LEVEL: high, MODE: null }, timeout: 3s } }',
    };
    expect(loadOk(files).config.functions[0]).toMatchObject({ env: { LEVEL: 'high' }, timeoutMs: 3_000 });
    const misspelt = { ...files, 'svc.production.yaml': 'functions: { hok: { timeout: 3s } }' };
    expect(report(misspelt)).toContain('svc.yaml has no code function "hok"');
  });

  test('overlays are named after their file, and patterns of include skip them', () => {
    const text = `version: 1\ninclude: "*.yaml"\n`;
    const files = { 'svc.yaml': text, 'svc.staging.yaml': 'server: { port: 1 }' };
    expect(loadOk(files).config.server.port).toBe(8080);
    expect(loadOk(files, 'staging').config.server.port).toBe(1);
    const directory = write({ 'shop.yml': BASE, 'shop.test.yml': 'server: { port: 2 }' });
    const loaded = loadConfig(
      { name: 'shop.yml', directory, text: BASE, mode: 'test' },
      { variables: { NAME: 'x' } },
    );
    expect(loaded.ok && loaded.config.server.port).toBe(2);
  });
});

describe('keys that are the same in all modes are rejected with their place', () => {
  test.each([
    ['tables: { notes: { rls: false } }', 'tables'],
    ['types: {}', 'types'],
    ['views: {}', 'views'],
    ['rpc: {}', 'rpc'],
    ['storage: {}', 'storage'],
    ['extensions: [citext]', 'extensions'],
    ['expose: {}', 'expose'],
    ['sequences: {}', 'sequences'],
    ['sql: x.sql', 'sql'],
    ['include: x.yaml', 'include'],
    ['functions_bundle: s3://b/x', 'functions_bundle'],
    ['functions: { hook: { file: other.js } }', 'functions.hook.file'],
    ['functions: null', 'functions'],
    ['auth: { triggers: [] }', 'auth.triggers'],
    ['realtime: { rls: [] }', 'realtime.rls'],
    ['realtime: { source: triggers }', 'realtime.source'],
    ['migrations: { steps: [] }', 'migrations.steps'],
    ['migrations: { drop: drop }', 'migrations.drop'],
  ])('%s', (line, path) => {
    const base = `${BASE}functions: { hook: { runtime: node, file: hook.js } }\n`;
    const files = { 'svc.yaml': base, 'hook.js': '', 'svc.production.yaml': `# here\n${line}\n` };
    const { included: _included, ...loaded } = load(files);
    expect(loaded.ok ? [] : loaded.mistakes.map(({ code, position }) => [code, position.file])).toEqual([
      ['overlay', 'svc.production.yaml'],
    ]);
    expect(report(files)).toContain(`svc.production.yaml:2:`);
    expect(report(files)).toContain(`an overlay cannot change ${path}:`);
    expect(load(files, 'staging').ok).toBe(true);
  });

  test('misspelt keys and wrong values have their place in the overlay', () => {
    const text = report({
      'svc.yaml': BASE,
      'svc.production.yaml': 'servr: { port: 1 }\nserver:\n  prot: 1\n  port: x\nauht: null\n',
    });
    expect(text).toMatch(/svc\.production\.yaml:1:1 error servr[\s\S]*Did you mean server/);
    expect(text).toMatch(/svc\.production\.yaml:3:3 error server\.prot[\s\S]*Did you mean port/);
    expect(text).toMatch(/svc\.production\.yaml:4:9 error server\.port/);
    expect(text).toMatch(/svc\.production\.yaml:5:1 error auht/);
  });

  test('invalid YAML, two overlays of a mode, and an included overlay are mistakes', () => {
    expect(report({ 'svc.yaml': BASE, 'svc.production.yaml': 'server: { port: 1' })).toMatch(
      /^svc\.production\.yaml:1:\d+ error[^]*1 \| server: \{ port: 1/,
    );
    expect(report({ 'svc.yaml': BASE, 'svc.production.yaml': '', 'svc.production.yml': '' })).toContain(
      'both svc.production.yaml and svc.production.yml exist',
    );
    expect(
      report({ 'svc.yaml': `${BASE}include: svc.test.yaml\n`, 'svc.test.yaml': 'server: { port: 1 }' }),
    ).toContain('svc.test.yaml is the overlay of a mode');
  });
});

describe('the merged text', () => {
  test('keeps references, and expands anchors and merge keys', () => {
    const base = `${BASE}database: { <<: &pool { failover_wait: 1s }, pool: { max: 9 } }\n`;
    const overlay =
      'server: { timeouts: { <<: { request: 7s, upload: 1m }, upload: 2m } }\n' +
      'database: { failover_wait: null }\nproject: { description: "of ${NAME}" }\n';
    const loaded = loadOk({ 'svc.yaml': base, 'svc.production.yaml': overlay });
    const { text } = loaded.config.source;
    expect(text).toContain('of ${NAME}');
    expect(loaded.config.server.timeouts).toMatchObject({ requestMs: 7_000, uploadMs: 120_000 });
    expect(loaded.config.database.failoverWaitMs).toBe(5_000);
    expect(comparable(loadOk({ 'svc.yaml': text }))).toEqual(comparable(loaded));
  });

  test('is equivalent to the merged tree for any overlay', () => {
    const value = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: null });
    const record = (keys: Record<string, fc.Arbitrary<unknown>>) => fc.record(keys, { requiredKeys: [] });
    const settings = record({
      project: value(record({ name: value(fc.constantFrom('A', '${NAME}', '1.10')) })),
      server: value(
        record({
          port: value(fc.nat(65_535)),
          cors: value(record({ origins: value(fc.array(fc.constantFrom('https://x.example', '*'))) })),
          timeouts: value(record({ request: value(fc.constantFrom('1s', '2s')) })),
        }),
      ),
      auth: value(
        record({ jwt_expiry: value(fc.constantFrom('2h', '3h')), redirect_urls: value(fc.constant([])) }),
      ),
      seed: value(fc.array(fc.record({ name: fc.constantFrom('a') }), { maxLength: 1 })),
    });
    fc.assert(
      fc.property(settings, settings, (base, overlay) => {
        const { seed = null, auth = null, ...rest } = base;
        const whole = { version: 1, ...dropNulls({ ...rest, auth, seed }) };
        const files = {
          'svc.yaml': stringify(whole),
          'svc.production.yaml': stringify(overlay, { nullStr: '~' }),
        };
        const loaded = loadOk(files);
        expect(comparable(loadOk({ 'svc.yaml': loaded.config.source.text }))).toEqual(comparable(loaded));
      }),
      { numRuns: 150 },
    );
  });
});

/** Removes nulls, because null does not remove a key of svc.yaml. */
function dropNulls(value: unknown): object {
  return JSON.parse(JSON.stringify(value, (_key, child: unknown) => child ?? undefined));
}

test('an item without a colon is a mistake in an overlay, too', () => {
  const files = {
    'svc.yaml': 'version: 1\n',
    'svc.production.yaml': 'tables: { t: { rls: [{ operations: [select], using: true, a = b }] } }\n',
  };
  expect(report(files)).toContain('"a = b" has no colon');
});

describe('mail and verification by mode', () => {
  const verifying = `version: 1
auth: { email: { verify_email: true } }
providers: { email: { type: resend, api_key: x, default_from_email: a@example.com } }
`;
  const without = 'version: 1\nauth: { email: { verify_email: true } }\n';

  test('verification without a provider is a warning in development and an error elsewhere', () => {
    expect(loadOk({ 'svc.yaml': without }, 'development').warnings.map(({ message }) => message)).toEqual([
      'mail is captured; svc serve needs a mail provider to verify addresses',
    ]);
    expect(load({ 'svc.yaml': without }, 'production').ok).toBe(false);
  });

  test('unset variables of the mail provider are warnings in development and errors elsewhere', () => {
    const files = {
      'svc.yaml': `version: 1
auth: { email: { verify_email: true } }
providers: { email: { type: resend, api_key: "\${MAIL_KEY}", default_from_email: "\${MAIL_FROM}" } }
`,
    };
    const { warnings, config } = loadOk(files, 'development');
    expect(warnings.map(({ code, path }) => [code, path.at(-1)])).toEqual([
      ['missing-variable', 'api_key'],
      ['missing-variable', 'default_from_email'],
    ]);
    expect(config.providers.email).toBeUndefined();
    for (const mode of ['test', 'staging', 'production'] as const) expect(load(files, mode).ok).toBe(false);
  });

  test('other unset variables stay errors in development', () => {
    const files = { 'svc.yaml': 'version: 1\nauth: { jwt_expiry: "${EXPIRY}" }\n' };
    expect(load(files, 'development').ok).toBe(false);
  });

  test('a mistake that an overlay causes by removing a key names the overlay', () => {
    const overlay = 'server: { port: 8081 }\nproviders: { email: null }\n';
    expect(report({ 'svc.yaml': verifying, 'svc.production.yaml': overlay })).toContain(
      'svc.production.yaml:2',
    );
    expect(report({ 'svc.yaml': verifying, 'svc.development.yaml': overlay }, 'development')).toContain(
      'svc.development.yaml:2',
    );
  });

  const resend = '{ type: resend, api_key: x, default_from_email: a@example.com }';
  test.each([
    [
      'a type that needs another key',
      `providers: { email: ${resend} }`,
      'providers: { email: { type: smtp } }',
    ],
    ['a removed key', `providers: { email: ${resend} }`, 'providers: { email: { api_key: null } }'],
    [
      'half of a pair',
      'providers: { storage: { type: s3, s3: { bucket: b, region: r } } }',
      'providers: { storage: { s3: { access_key_id: a } } }',
    ],
    ['a smaller pool', 'database: { pool: { min: 5, max: 9 } }', 'database: { pool: { max: 2 } }'],
    ['an earlier deadline', 'database: { failover_wait: 9s }', 'server: { timeouts: { request: 5s } }'],
    [
      'a second body',
      'auth: { email: { templates: { confirm: { body_file: body.html } } } }',
      'auth: { email: { templates: { confirm: { body: hi } } } }',
    ],
  ])('%s of an overlay is reported in the overlay', (_what, base, overlay) => {
    const files = { 'svc.yaml': `version: 1\n${base}\n`, 'body.html': 'hello' };
    const lines = report({ ...files, 'svc.production.yaml': `# two\n${overlay}\n` });
    expect(lines).toContain('svc.production.yaml:2');
    expect(lines).not.toMatch(/svc\.yaml:\d/);
    expect(loadOk(files, 'staging').warnings).toEqual([]);
  });

  test('a required key that an overlay removes is reported in the overlay', () => {
    const overlay = 'providers:\n  email:\n    default_from_email: null\n';
    expect(report({ 'svc.yaml': verifying, 'svc.production.yaml': overlay })).toContain(
      'svc.production.yaml:3',
    );
  });
});
