// Plants secrets and searches for them in all output: responses, log lines, errors, bundles, files.
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { buildBundle } from '../../../src/functions/sources/bundle.ts';
import { silentLog } from '../../../src/log/log.ts';
import { startWorld, until } from '../world.ts';

const CANARY = 'canary-"quoted"-\\back\nline-0123456789';
const folder = mkdtempSync(join(tmpdir(), 'svc-fn-secrets-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test.each([true, false])(
  'a secret that a function throws, logs or returns stays out of log and errors (dev: %s)',
  async (dev) => {
    const world = await startWorld({
      files: {
        'functions/leak.js': `
        export default async (req, ctx) => {
          const { KEY } = ctx.env;
          console.log(KEY); console.error({ KEY }); console.table([{ KEY }]);
          ctx.log.info(KEY, { KEY, nested: [{ KEY }] });
          process.stdout.write('raw\\n');
          if (req.query.how === 'reject') { Promise.reject(new Error(KEY)); return {}; }
          if (req.query.how === 'header') return { headers: { 'x-key': KEY } };
          if (req.query.how === 'shape') return KEY;
          const error = new Error('with ' + KEY); error.config = { key: KEY }; error.cause = new Error(KEY);
          throw error;
        };`,
        'functions/client.js': `
        export default async (req, ctx) => {
          console.log(ctx.claims, req.headers);
          throw new Error('as ' + ctx.claims?.jwt);
        };`,
      },
      yaml:
        '  leak: { runtime: node, file: functions/leak.js, env: { KEY: "${SVC_ENV_KEY}" } }\n' +
        '  client: { runtime: node, file: functions/client.js }\n',
      variables: { SVC_ENV_KEY: CANARY },
      size: 1,
      dev,
    });
    try {
      const token = await world.token();
      for (const how of ['throw', 'reject', 'header', 'shape']) {
        const reply = await world.call(`leak?how=${how}`);
        expect(reply.text).not.toContain('0123456789');
      }
      const reply = await world.call('client', { token, headers: { apikey: world.keys.secret } });
      expect(reply.status).toBe(500);
      expect(reply.text).not.toContain(token);
      await until('all was logged', () => world.log.some(({ msg }) => msg.startsWith('unhandled rejection')));
      await until('the failure was logged', () =>
        world.log.some((line) => line['function'] === 'client' && line.msg === 'the function failed'),
      );
      for (const secret of ['0123456789', token, world.keys.secret]) {
        expect(world.logText()).not.toContain(secret);
      }
    } finally {
      await world.close();
    }
  },
);

test('no environment file and no npm credential gets into a bundle', async () => {
  const root = join(folder, 'project');
  const files: Record<string, string> = {
    'functions/f.js': 'export default async () => ({});',
    'functions/package.json': '{"type":"module"}',
    'functions/package-lock.json': '{"lockfileVersion":3,"requires":true,"packages":{"":{}}}',
    'functions/.env': CANARY,
    'functions/.production.env': CANARY,
    'functions/.npmrc': CANARY,
    'functions/sub/.env': CANARY,
    '.env': CANARY,
  };
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(join(root, path, '..'), { recursive: true });
    writeFileSync(join(root, path), content);
  }
  const built = await buildBundle({
    directory: root,
    functions: [
      {
        name: 'f',
        runtime: 'node',
        file: 'functions/f.js',
        authRequired: false,
        http: true,
        timeoutMs: 1000,
        env: { KEY: CANARY },
        position: { line: 1, column: 1 },
      },
    ],
    env: { ...process.env, SVC_ENV_KEY: CANARY },
    log: silentLog,
  });
  const everything = execFileSync('tar', ['xzOf', built.archive], { encoding: 'utf8' });
  expect(everything).not.toContain('0123456789');
  expect(execFileSync('tar', ['tzf', built.archive], { encoding: 'utf8' })).not.toMatch(/env|npmrc/);
  await built.close();
});
