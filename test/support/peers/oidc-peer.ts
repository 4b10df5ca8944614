// Starts the OpenID provider, and follows its pages like a browser.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const MAIN = fileURLToPath(new URL('./oidc-peer-main.ts', import.meta.url));

export type OidcPeer = { readonly issuer: string; stop(): Promise<void> };

export type PeerClient = {
  readonly client_id: string;
  readonly client_secret: string;
  readonly redirect_uris: readonly string[];
};

export async function startOidcPeer(
  clients: readonly PeerClient[],
  options: { readonly idTokenClaims?: boolean } = {},
): Promise<OidcPeer> {
  const settings = {
    idTokenClaims: options.idTokenClaims ?? false,
    clients: clients.map((client) => ({ ...client, token_endpoint_auth_method: 'client_secret_post' })),
  };
  const child = spawn(process.execPath, [MAIN], {
    env: { ...process.env, OIDC_PEER: JSON.stringify(settings) },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const issuer = await new Promise<string>((resolve, reject) => {
    let printed = '';
    child.stdout.on('data', (chunk: Buffer) => {
      printed += chunk.toString();
      const url = /^http:\/\/\S+$/m.exec(printed)?.[0];
      if (url) resolve(url);
    });
    let complaints = '';
    child.stderr.on('data', (chunk: Buffer) => {
      complaints += chunk.toString();
    });
    child.once('exit', () => reject(new Error(`the OpenID provider ended: ${complaints}`)));
  });
  return {
    issuer,
    async stop() {
      if (child.exitCode !== null) return;
      const ended = once(child, 'exit');
      child.kill();
      await ended;
    },
  };
}

/** Follows the authorization URL up to the URL to which the provider sends the browser back. */
export async function signInAt(
  authorizationUrl: string,
  login: string,
  act: 'consent' | 'abort' = 'consent',
): Promise<string> {
  const jar = new Map<string, string>();
  const { origin } = new URL(authorizationUrl);
  let url = authorizationUrl;
  let body: URLSearchParams | undefined;
  for (let hop = 0; hop < 20; hop++) {
    const response = await fetch(url, {
      redirect: 'manual',
      headers: { cookie: [...jar].map(([name, value]) => `${name}=${value}`).join('; ') },
      ...(body ? { method: 'POST', body } : {}),
    });
    body = undefined;
    for (const cookie of response.headers.getSetCookie()) {
      const [pair = ''] = cookie.split(';');
      const [name = '', ...rest] = pair.split('=');
      jar.set(name, rest.join('='));
    }
    const location = response.headers.get('location');
    if (location) {
      const next = new URL(location, url);
      if (next.origin !== origin) return next.href;
      url = next.href;
      continue;
    }
    const page = await response.text();
    const action = /action="([^"]+)"/.exec(page)?.[1];
    const prompt = /name="prompt" value="([^"]+)"/.exec(page)?.[1];
    if (!action || !prompt) throw new Error(`no form at ${url}: ${response.status} ${page.slice(0, 500)}`);
    if (act === 'abort') {
      url = new URL(/href="([^"]+abort)"/.exec(page)?.[1] ?? '', url).href;
      continue;
    }
    url = new URL(action, url).href;
    body = new URLSearchParams(prompt === 'login' ? { prompt, login, password: 'any' } : { prompt });
  }
  throw new Error('the provider redirects in circles');
}
