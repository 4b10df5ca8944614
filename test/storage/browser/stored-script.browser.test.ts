// Files share an origin with the API. A real browser opens uploaded documents with a script, as a page and as the
// target of a recovery link.
import { readFileSync, writeFileSync } from 'node:fs';
import { beforeAll, describe, expect, test } from 'vitest';
import { dashboardWorld } from '../../support/browser/browser.ts';

const world = dashboardWorld({
  prepare: ({ config }) => {
    writeFileSync(
      config,
      readFileSync(config, 'utf8').replace(
        /^storage:\n/m,
        `storage:
  anything:
    public: true
    rls:
      - operations: [select, insert, update, delete]
        using: owner_id = auth.uid()::text
        with_check: owner_id = auth.uid()::text
`,
      ),
    );
  },
});

/** Marks the document, and tries what a script on this origin could do. */
const SCRIPT = `document.documentElement.setAttribute('data-ran', location.hash || 'yes');
  fetch('/dashboard/api/session/local', { method: 'POST' }).catch(() => {});`;
const XHTML =
  '<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title>x</title></head>' +
  `<body><script>${SCRIPT}</script></body></html>`;
const HTML = `<!doctype html><title>x</title><script>${SCRIPT}</script>`;
const SVG = `<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><script>${SCRIPT}</script></svg>`;
const XSLT = `<?xml version="1.0"?><?xml-stylesheet type="text/xsl" href="#s"?>
<xsl:stylesheet id="s" version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
<xsl:template match="/"><html><script>${SCRIPT}</script></html></xsl:template></xsl:stylesheet>`;
const PARTS = `--x\r\nContent-Type: text/html\r\n\r\n${HTML}\r\n--x--\r\n`;

const DOCUMENTS: ReadonlyArray<readonly [type: string, body: string]> = [
  ['text/xsl', XHTML],
  ['TEXT/XSL', XHTML],
  ['  text/xsl ; charset=utf-8', XHTML],
  ['text/xsl;charset="utf-8"', XHTML],
  ['application/xslt+xml', XSLT],
  ['application/xml', XHTML],
  ['text/xml', XSLT],
  ['image/svg+xml', SVG],
  ['image/SVG+XML; charset=utf-8', SVG],
  ['image/x+xml', XHTML],
  ['video/x+xml', XHTML],
  ['font/x+xml', XHTML],
  ['application/vnd.mozilla.xul+xml', XHTML],
  ['text/html', HTML],
  ['text/html; charset=utf-8', HTML],
  ['application/xhtml+xml', XHTML],
  ['application/XHTML+XML ;a=b', XHTML],
  ['multipart/x-mixed-replace; boundary=x', PARTS],
  ['multipart/related; boundary=x', PARTS],
  ['message/rfc822', `Content-Type: text/html\r\n\r\n${HTML}`],
  ['text/rdf', XHTML],
  ['application/rdf+xml', XHTML],
  ['text/mathml', XHTML],
  ['application/mathml+xml', XHTML],
  ['application/pdf', `%PDF-1.4\n${HTML}`],
  ['text/javascript', SCRIPT],
  ['text/vtt', HTML],
  ['text/cache-manifest', HTML],
  ['text/css', HTML],
  ['application/json', HTML],
  ['application/x-unknown', HTML],
  ['x/y', XHTML],
  ['text/plain', HTML],
  ['image/png', HTML],
  ['image/png;a=b,text/html', HTML],
  ['image/png;a=b,text/xsl', XHTML],
  ['image/png;a="b,text/xsl"', XHTML],
  ['audio/mpeg', HTML],
  ['', HTML],
];

/** An address below the dashboard that is not one of its pages, so that only the code under test runs. */
const ELSEWHERE = '/assets/none';

/** Chromium offers these types for saving instead of displaying them. */
const isDownload = (error: unknown): boolean =>
  error instanceof Error && /Download is starting|ERR_ABORTED/.test(error.message);

describe.skipIf(world.skipped)('a script in a stored object', () => {
  let owner: Record<string, string>;
  let email: string;
  beforeAll(async () => {
    email = 'owner@example.test';
    await world.addUser(email);
    const signedIn = await fetch(`${world.svc.url}/auth/v1/token?grant_type=password`, {
      method: 'POST',
      headers: { apikey: world.svc.publishableKey, 'content-type': 'application/json' },
      body: JSON.stringify({ email, password: 'correct horse battery' }),
    });
    const { access_token: token } = (await signedIn.json()) as { access_token: string };
    owner = { apikey: world.svc.publishableKey, authorization: `Bearer ${token}` };
  });

  const upload = async (name: string, type: string, body: string): Promise<boolean> => {
    const form = new FormData();
    if (type !== '') form.append('contentType', type);
    form.append('', new Blob([body]), 'x');
    const answer = await fetch(`${world.svc.url}/storage/v1/object/anything/${name}`, {
      method: 'POST',
      headers: owner,
      body: form,
    });
    return answer.ok;
  };

  test('is not run, whatever type it was uploaded as', async () => {
    const page = await world.open(ELSEWHERE, { expected: [/./] });
    let asked: string[] = [];
    page.on('request', (request) => asked.push(new URL(request.url()).pathname));
    for (const [index, [type, body]] of DOCUMENTS.entries()) {
      const name = `d${index}`;
      expect(await upload(name, type, body), type).toBe(true);
      const signed = await fetch(`${world.svc.url}/storage/v1/object/sign/anything/${name}`, {
        method: 'POST',
        headers: { ...owner, 'content-type': 'application/json' },
        body: JSON.stringify({ expiresIn: 60 }),
      });
      const { signedURL } = (await signed.json()) as { signedURL: string };
      for (const where of [
        `/storage/v1/object/public/anything/${name}`,
        `/storage/v1/object/anything/${name}`,
        `/storage/v1${signedURL}`,
      ]) {
        asked = [];
        try {
          await page.goto(`${world.svc.url}${where}#access_token=secret`);
        } catch (error) {
          if (!isDownload(error)) throw error;
          continue;
        }
        const ran = await page.evaluate(() => document.documentElement?.getAttribute('data-ran') ?? null);
        expect.soft(ran, `${type} at ${where}`).toBeNull();
        expect.soft(asked.filter((path) => path.startsWith('/dashboard'))).toEqual([]);
      }
    }
  });

  test('runs in this browser without protection, which proves the other tests', async () => {
    const page = await world.open(ELSEWHERE, { expected: [/./] });
    await page.route('**/storage/v1/object/public/anything/probe*', (route) =>
      route.fulfill({ contentType: 'text/xsl', body: XHTML }),
    );
    await page.goto(`${world.svc.url}/storage/v1/object/public/anything/probe#access_token=secret`);
    expect(await page.evaluate(() => document.documentElement.getAttribute('data-ran'))).toBe(
      '#access_token=secret',
    );
  });

  test('is not the target of a recovery link', async () => {
    expect(await upload('page', 'text/xsl', XHTML)).toBe(true);
    for (const target of [
      `${world.svc.url}/storage/v1/object/public/anything/page`,
      `${world.svc.url}/%73torage/v1/object/public/anything/page`,
      `${world.svc.url}/functions/v1/hello`,
    ]) {
      const link = await fetch(`${world.svc.url}/auth/v1/admin/generate_link`, {
        method: 'POST',
        headers: {
          apikey: world.svc.secretKey,
          authorization: `Bearer ${world.svc.secretKey}`,
          'content-type': 'application/json',
        },
        body: JSON.stringify({ type: 'recovery', email, redirect_to: target }),
      });
      const { action_link: action } = (await link.json()) as { action_link: string };
      const address = new URL(action);
      expect(address.searchParams.get('redirect_to')).not.toContain('torage');
      // The holder of the link may change its target.
      address.searchParams.set('redirect_to', target);
      const answer = await fetch(address, { redirect: 'manual' });
      expect(answer.headers.get('location') ?? '').not.toMatch(/torage|functions/);
    }
  });

  test('pictures, films and texts are displayed, and sandboxed files can be saved', async () => {
    const png = Buffer.from(
      'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
      'base64',
    );
    for (const [name, type, body] of [
      ['p.png', 'image/png', png],
      ['p.svg', 'image/svg+xml', Buffer.from(SVG)],
    ] as const) {
      await fetch(`${world.svc.url}/storage/v1/object/anything/${name}`, {
        method: 'POST',
        headers: { ...owner, 'content-type': type },
        body,
      });
      const page = await world.open(ELSEWHERE, { bypassCSP: true, expected: [/./] });
      const width = await page.evaluate(async (source) => {
        const image = new Image();
        image.src = source;
        await image.decode();
        return image.naturalWidth;
      }, `${world.svc.url}/storage/v1/object/public/anything/${name}`);
      expect(width, name).toBeGreaterThan(0);
      const saved = page.waitForEvent('download');
      await page
        .goto(`${world.svc.url}/storage/v1/object/public/anything/${name}?download=x`)
        .catch((error: unknown) => {
          if (!isDownload(error)) throw error;
        });
      expect((await saved).suggestedFilename()).toBe('x');
    }
  });
});
