// An auth context for tests of single rules, without routes.
import { makeContext, type AuthContext } from '../../src/auth/auth-context.ts';
import { NO_FIELDS } from '../../src/auth/fields.ts';
import type { AuthRequest } from '../../src/auth/http/request.ts';
import { readAuthSettings } from '../../src/auth/settings.ts';
import type { Catalog } from '../../src/catalog/catalog.ts';
import { CredentialReader } from '../../src/identity/credentials.ts';
import { TokenVerifier } from '../../src/identity/token.ts';
import { silentLog } from '../../src/log/log.ts';
import type { AuthWorld } from './auth-world.ts';

export function anAuthContext(world: AuthWorld, env: Readonly<Record<string, string>> = {}): AuthContext {
  return makeContext({
    snapshot: () => ({ config: world.config, catalog: {} as Catalog, version: 1 }),
    callers: world.callers,
    owner: world.owner,
    credentials: new CredentialReader(world.keys, new TokenVerifier(world.signingKeys)),
    signingKeys: world.signingKeys,
    keyring: world.keyring,
    env,
    log: silentLog,
    now: () => world.now(),
    baseUrl: () => world.url,
    dev: true,
  });
}

export function anAuthRequest(world: AuthWorld): AuthRequest {
  return {
    auth: anAuthContext(world),
    settings: readAuthSettings(world.config, {}, true),
    now: world.now(),
    method: 'GET',
    query: NO_FIELDS,
    body: NO_FIELDS,
    path: {},
    requestId: 'request',
    presented: { apikey: { kind: 'publishable' }, bearer: { kind: 'none' } },
    client: { address: '127.0.0.1', proto: 'http', via: 'local' },
    userAgent: 'test',
    header: () => undefined,
    queryEntries: [],
    authUrl: `${world.url}/auth/v1`,
    isForm: false,
  };
}
