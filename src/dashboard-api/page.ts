// Serves the page that `vite build dashboard` writes to dist/dashboard. Files are looked up by name in a table and
// never opened by the requested path. Every other path returns the page, which has its own router.
import { randomBytes } from 'node:crypto';
import { createReadStream, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { createGzip } from 'node:zlib';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { ownFile } from '../lib/package-files.ts';
import { notFound } from './problem.ts';

const BUILT = ownFile('dist/dashboard');
const ROOT = '/dashboard';
const HOUR = 'private, max-age=3600';
/** Cache header for files whose names contain a hash of their content. */
const FOREVER = 'public, max-age=31536000, immutable';

const TYPES: Readonly<Record<string, string>> = {
  css: 'text/css; charset=utf-8',
  ico: 'image/x-icon',
  js: 'text/javascript; charset=utf-8',
  json: 'application/json; charset=utf-8',
  map: 'application/json; charset=utf-8',
  png: 'image/png',
  svg: 'image/svg+xml',
  txt: 'text/plain; charset=utf-8',
  webmanifest: 'application/manifest+json',
  woff2: 'font/woff2',
};
/** Smaller files are sent uncompressed. */
const MIN_COMPRESSED_BYTES = 1024;
const COMPRESSIBLE: ReadonlySet<string> = new Set(['css', 'ico', 'js', 'json', 'map', 'svg', 'txt']);

type File = { readonly path: string; readonly bytes: number; readonly kind: string };

type Page = { readonly builtAt: number; readonly html: string; readonly files: ReadonlyMap<string, File> };

export function pageRoutes(app: FastifyInstance, directory: string = BUILT): void {
  let built: Page | undefined;
  const answer = (request: FastifyRequest, reply: FastifyReply): FastifyReply => {
    const path = (request.raw.url ?? '').split('?', 1)[0] ?? '';
    if (path === ROOT) return reply.redirect(`${ROOT}/`, 302);
    if (!isPlainPath(path)) throw notFound('No such page');
    built = readPage(directory, built);
    const file = built?.files.get(path.slice(ROOT.length + 1));
    if (file) return sendFile(request, reply, path, file);
    if (path.startsWith(`${ROOT}/assets/`)) throw notFound('The dashboard has no such file');
    return sendPage(reply, built?.html);
  };
  const config = { dashboard: 'public' as const };
  app.get('/', { config }, answer);
  app.get('/*', { config }, answer);
  // Also register the other methods, so that CORS preflights find a route that allows no other origin.
  const method = app.supportedMethods.filter((name) => name !== 'GET' && name !== 'HEAD');
  const handler = (): never => {
    throw notFound('The page supports only GET and HEAD');
  };
  app.route({ method, url: '/', handler });
  app.route({ method, url: '/*', handler });
}

/**
 * Returns whether the path has the form of the page's own links. Rejects what a proxy or cache could interpret as
 * another path: empty and dotted segments, encoded slashes, path parameters.
 */
function isPlainPath(path: string): boolean {
  return path.startsWith(`${ROOT}/`) && !/\/\/|\/\.|[;\\]|%(?:2f|5c|2e|3b|00|25)/i.test(path);
}

function sendPage(reply: FastifyReply, html: string | undefined): FastifyReply {
  const nonce = randomBytes(16).toString('base64');
  reply.headers(securityHeaders(nonce)).type('text/html; charset=utf-8');
  if (html === undefined) return reply.code(503).send(NOT_BUILT);
  return reply.send(html.replaceAll('%STYLE_NONCE%', nonce));
}

function sendFile(request: FastifyRequest, reply: FastifyReply, path: string, file: File): FastifyReply {
  reply.type(TYPES[file.kind] ?? 'application/octet-stream');
  reply.header('cache-control', path.startsWith(`${ROOT}/assets/`) ? FOREVER : HOUR);
  const isCompressible = COMPRESSIBLE.has(file.kind) && file.bytes > MIN_COMPRESSED_BYTES;
  if (isCompressible) reply.header('vary', 'accept-encoding');
  if (isCompressible && /\bgzip\b/.test(request.headers['accept-encoding'] ?? '')) {
    reply.header('content-encoding', 'gzip');
    if (request.method === 'HEAD') return reply.send();
    const source = createReadStream(file.path);
    const compressed = createGzip();
    source.on('error', (error) => compressed.destroy(error));
    compressed.on('close', () => source.destroy());
    return reply.send(source.pipe(compressed));
  }
  reply.header('content-length', String(file.bytes));
  return request.method === 'HEAD' ? reply.send() : reply.send(createReadStream(file.path));
}

/** Reads the build again when it has changed, because `npm run build` may run while the service is running. */
function readPage(directory: string, known: Page | undefined): Page | undefined {
  const index = join(directory, 'index.html');
  const builtAt = statSync(index, { throwIfNoEntry: false })?.mtimeMs;
  if (builtAt === undefined) return undefined;
  if (known?.builtAt === builtAt) return known;
  return { builtAt, html: readFileSync(index, 'utf8'), files: listFiles(directory) };
}

function listFiles(directory: string): Map<string, File> {
  const files = new Map<string, File>();
  for (const entry of readdirSync(directory, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || entry.name === 'index.html') continue;
    const path = join(entry.parentPath, entry.name);
    const name = path.slice(directory.length + 1).replaceAll('\\', '/');
    const kind = entry.name.slice(entry.name.lastIndexOf('.') + 1);
    files.set(name, { path, bytes: statSync(path).size, kind });
  }
  return files;
}

/**
 * Headers of everything under /dashboard: no inline scripts, no framing by other sites, no caching.
 * `nonce`: allows the style element that the page's component library creates.
 */
export function securityHeaders(nonce?: string): Record<string, string> {
  return {
    'content-security-policy': [
      "default-src 'none'",
      "script-src 'self'",
      `style-src 'self'${nonce === undefined ? '' : ` 'nonce-${nonce}'`}`,
      "img-src 'self' data: blob:",
      "font-src 'self'",
      "connect-src 'self'",
      "frame-src 'self'",
      "form-action 'none'",
      "base-uri 'none'",
      "frame-ancestors 'none'",
    ].join('; '),
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'cross-origin-opener-policy': 'same-origin',
    'cross-origin-resource-policy': 'same-origin',
    'x-frame-options': 'DENY',
    'cache-control': 'no-store',
  };
}

const NOT_BUILT = `<!doctype html>
<html lang="en">
  <head><meta charset="utf-8" /><title>svc</title></head>
  <body>
    <h1>The dashboard is not built</h1>
    <p>Run <code>npm run build</code> in the checkout of svc and load this page again.</p>
  </body>
</html>
`;
