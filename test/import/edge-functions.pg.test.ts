// Edge functions of each style become code functions with the same responses. Unsupported features are reported.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startWorld, type World } from '../functions/world.ts';
import { runSvc } from '../support/svc-process.ts';

const SOURCES: Readonly<Record<string, string>> = {
  'config.toml':
    '[functions.hello]\nverify_jwt = false\n\n[functions.old-serve]\nverify_jwt = false # open\n' +
    '[functions.fetcher]\nverify_jwt = false\n[functions.rows]\nverify_jwt=false\n' +
    '[functions.shared-a]\nverify_jwt = false\n',
  'functions/_shared/cors.ts': `// import nothing from "https://example.com/in-a-comment.ts"
export const cors: Record<string, string> = { 'Access-Control-Allow-Headers': 'authorization, x-client-info' };
export const who = (): string => Deno.env.get('GREETING') ?? 'Welcome';
`,
  'functions/_shared/unused.ts': `import x from 'https://deno.land/x/never@1/mod.ts'; export default x;\n`,
  'functions/hello/index.ts': `import "jsr:@supabase/functions-js/edge-runtime.d.ts"
import { cors, who } from '../_shared/cors.ts'

type Body = { name: string }
const greeting = who()
const pattern = /['"\`]/

Deno.serve(async (req: Request) => {
  if (req.method === 'OPTIONS') return new Response('ok', { headers: cors })
  const { name } = (await req.json()) as Body
  const text = \`\${greeting} \${name.replace(pattern, '')}!\`
  return new Response(JSON.stringify({ text, at: new URL(req.url).pathname + new URL(req.url).search }), {
    status: 201, headers: { ...cors, 'Content-Type': 'application/json', 'x-asked-by': req.headers.get('x-app') ?? '' },
  })
})
`,
  'functions/old-serve/index.ts': `import { serve } from "https://deno.land/std@0.168.0/http/server.ts"
import { encodeBase64 } from 'codes'
serve(async (req) => {
  EdgeRuntime.waitUntil(Promise.resolve())
  const text = await Deno.readTextFile(new URL('./note.txt', import.meta.url))
  return new Response(encodeBase64(text.trim() + (await req.text())))
}, { port: 8000 })
`,
  'functions/old-serve/deno.json': '{ "imports": { "codes": "./codes.ts" } }',
  'functions/old-serve/codes.ts': `export const encodeBase64 = (text: string) => btoa(text)\n`,
  'functions/old-serve/note.txt': 'note:\n',
  'functions/fetcher/index.ts': `const parts = ['one ', 'two'];
export default { fetch: (req: Request) => new Response(new ReadableStream({ start(c) {
  for (const part of parts) c.enqueue(new TextEncoder().encode(part))
  c.close()
} }), { status: req.method === 'DELETE' ? 418 : 200 }) }
`,
  'functions/rows/index.ts': `import { createClient } from 'https://esm.sh/@supabase/supabase-js@2'
import type { SupabaseClient } from 'npm:@supabase/supabase-js@2'
const supabase: SupabaseClient = createClient(Deno.env.get('SUPABASE_URL')!, Deno.env.get('SUPABASE_ANON_KEY')!)
Deno.serve({ port: 1 }, async (req) => {
  const client = createClient(Deno.env.get('SUPABASE_URL')!, Deno.env.get('SUPABASE_ANON_KEY')!, {
    global: { headers: { Authorization: req.headers.get('Authorization') ?? '' } } })
  const mine = await client.from('notes').select('body')
  const open = await supabase.from('notes').select('body')
  return Response.json({ mine: mine.data, open: open.data })
})
`,
  'functions/private/index.ts': `import { z } from 'npm:zod@3.23.8'
import mail from 'jsr:@acme/mail@^1'
Deno.serve(() => Response.json({ z: typeof z, mail, key: Deno.env.get('SUPABASE_SERVICE_ROLE_KEY') }))
`,
  'functions/sockets/index.ts': `import { parse } from 'https://deno.land/std@0.168.0/encoding/yaml.ts'
import lodash from 'lodash'
// Deno.open appears only in a comment here, and 'Deno.kill' in a string.
Deno.serve((req) => {
  const { response } = Deno.upgradeWebSocket(req)
  return \`\${Deno.pid}\` ? response : parse(lodash)
})
`,
  'functions/empty/readme.md': 'no code',
};

const ANN = '00000000-0000-4000-8000-00000000000a';

let directory: string;
let first: { code: number | null; output: string };
let world: World;

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'svc-edge-'));
  for (const [path, text] of Object.entries(SOURCES)) {
    mkdirSync(dirname(join(directory, 'supabase', path)), { recursive: true });
    writeFileSync(join(directory, 'supabase', path), text);
  }
  writeFileSync(join(directory, 'svc.yaml'), 'version: 1\n# a comment that stays\n');
  first = await convert();
  const files = Object.fromEntries(
    readdirSync(join(directory, 'functions'), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .map((path) => [path.slice(directory.length + 1), readFileSync(path, 'utf8')]),
  );
  world = await startWorld({
    files,
    yaml: declared(),
    variables: { SVC_ENV_GREETING: 'Hello', SVC_ENV_SUPABASE_SERVICE_ROLE_KEY: 'given by hand' },
    client: true,
    sql: `create table notes (id bigint primary key, owner_id uuid, body text);
      alter table notes enable row level security; grant select on notes to anon, authenticated;
      create policy own on notes for select using (owner_id is null or owner_id = auth.uid());
      insert into notes values (1, null, 'open'), (2, '${ANN}', 'of Ann')`,
  });
});
afterAll(async () => {
  await world?.close();
  if (directory) rmSync(directory, { recursive: true, force: true });
});

const convert = async () =>
  await runSvc(['import', 'supabase', 'functions', 'supabase/functions'], { cwd: directory });

function declared(): string {
  const text = readFileSync(join(directory, 'svc.yaml'), 'utf8');
  return text.slice(text.indexOf('functions:') + 'functions:\n'.length);
}

test('each function is declared with its settings and variables', () => {
  expect(first.output).toContain('hello: converted\n');
  expect(first.output).toContain('private: converted, for signed-in users only');
  expect(first.output).toContain('SVC_ENV_GREETING, SVC_ENV_SUPABASE_SERVICE_ROLE_KEY');
  expect(readFileSync(join(directory, 'svc.yaml'), 'utf8')).toContain('# a comment that stays');
  expect(declared()).toContain('GREETING: ${SVC_ENV_GREETING}');
  expect(JSON.parse(readFileSync(join(directory, 'functions/package.json'), 'utf8'))).toMatchObject({
    type: 'module',
    dependencies: { '@supabase/supabase-js': '2', zod: '3.23.8', '@jsr/acme__mail': '^1' },
  });
  expect(readFileSync(join(directory, 'functions/.npmrc'), 'utf8')).toContain('@jsr:registry=');
});

test('unsupported calls are reported by file and line, and their function is skipped', () => {
  expect(first.code).toBe(1);
  for (const line of [
    'sockets/index.ts:1: https://deno.land/std@0.168.0/encoding/yaml.ts has no counterpart in npm',
    'sockets/index.ts:2: lodash is in no deno.json or import map',
    'sockets/index.ts:5: there is no Deno.upgradeWebSocket here',
    'sockets/index.ts:6: there is no Deno.pid here',
    'it has no index.ts',
  ])
    expect(first.output).toContain(line);
  expect(first.output).not.toMatch(/Deno\.(?:open|kill)|never@1|in-a-comment/);
  expect(declared()).not.toContain('sockets');
});

test('Deno.serve, function environment, shared files, headers and status', async () => {
  const reply = await world.call('hello/x?y=1', {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-app': 'test' },
    body: '{"name":"Ann"}',
  });
  expect(reply.text).toBe('{"text":"Hello Ann!","at":"/hello/x?y=1"}');
  expect(reply.status).toBe(201);
  expect(reply.headers).toMatchObject({ 'x-asked-by': 'test', 'content-type': 'application/json' });
});

test('serve of the standard library, an import map, a file of the function and waitUntil', async () => {
  const reply = await world.call('old-serve', {
    method: 'POST',
    body: ' and a body',
    headers: { 'content-type': 'text/plain' },
  });
  expect(atob(reply.text)).toBe('note: and a body');
});

test('a default export with fetch, and a streamed answer', async () => {
  expect((await world.call('fetcher')).text).toBe('one two');
  expect((await world.call('fetcher', { method: 'DELETE' })).status).toBe(418);
});

test('supabase-js finds this server by the variable names of the source', async () => {
  const token = await world.token({ sub: ANN });
  const open = { body: 'open' };
  expect((await world.call('rows', { token })).json).toEqual({
    mine: [open, { body: 'of Ann' }],
    open: [open],
  });
});

test('a function for signed-in users rejects other callers', async () => {
  expect((await world.call('private')).status).toBe(401);
});

test('a second run does not overwrite files', async () => {
  const before = readFileSync(join(directory, 'svc.yaml'), 'utf8');
  const { code, output } = await convert();
  expect(code).toBe(1);
  expect(output).toContain('functions/hello.js is there already');
  expect(readFileSync(join(directory, 'svc.yaml'), 'utf8')).toBe(before);
});
