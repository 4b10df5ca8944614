// The parts of Deno that a converted function can use. Each function gets its own copy in JavaScript, because
// functions that share a worker have separate values.

/** Members of `Deno` that the shim has. */
export const HAS: ReadonlySet<string> = new Set(['cwd', 'env', 'readFile', 'readTextFile', 'serve']);

export const SHIM = `// Written by svc import supabase functions: what this function uses of Deno.
import { readFile } from 'node:fs/promises';
import { dirname, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

let handler;
let values = {};
let client;
const folder = dirname(fileURLToPath(import.meta.url));

function inside(path) {
  const file = resolve(folder, 'source', path instanceof URL ? fileURLToPath(path) : path);
  if (!file.startsWith(folder + sep)) throw new Error('only files of the function can be read');
  return file;
}

function readVariable(name) {
  if (name in values) return values[name];
  if (name === 'SUPABASE_URL') return client?.supabaseUrl;
  if (name === 'SUPABASE_ANON_KEY') return client?.supabaseKey;
  return undefined;
}

export function serve(first, second) {
  handler = typeof first === 'function' ? first : (second ?? first?.handler);
  return { finished: new Promise(() => {}), shutdown: async () => {} };
}

export const Deno = {
  serve,
  cwd: () => resolve(folder, 'source'),
  env: {
    get: readVariable,
    has: (name) => readVariable(name) !== undefined,
    toObject: () => ({ ...values }),
  },
  readFile: async (path) => new Uint8Array(await readFile(inside(path))),
  readTextFile: async (path) => await readFile(inside(path), 'utf8'),
};

export const EdgeRuntime = {
  waitUntil(work) {
    Promise.resolve(work).catch((error) => console.error(error));
  },
};

let loading;

/** The answer of the function to a request of svc. */
export async function answer(load, req, ctx) {
  values = ctx.env;
  try {
    client ??= ctx.client;
  } catch {
    // The address is used by the client library only.
  }
  loading ??= load().catch((error) => {
    loading = undefined;
    throw error;
  });
  const loaded = await loading;
  const own = loaded.default;
  const run = handler ?? (typeof own === 'function' ? own : own?.fetch?.bind(own));
  if (run === undefined) throw new Error('the function calls neither Deno.serve nor serve, and exports no handler');
  const headers = new Headers();
  for (const [name, list] of Object.entries(req.headersAll)) for (const value of list) headers.append(name, value);
  const host = headers.get('host') ?? 'localhost';
  const url = new URL(\`http://\${host}\${req.path.replace('/functions/v1', '')}\`);
  url.search = req.rawQuery;
  const hasBody = req.method !== 'GET' && req.method !== 'HEAD';
  const request = new Request(url, {
    method: req.method,
    headers,
    body: hasBody && req.rawBody?.length > 0 ? req.rawBody : undefined,
    signal: ctx.signal,
  });
  return await run(request, { remoteAddr: { transport: 'tcp', hostname: ctx.clientAddress, port: 0 } });
}
`;
