// The part of a backend that verifies callers.
import type { IncomingMessage } from 'node:http';
import type { CredentialReader } from '../../identity/credentials.ts';
import { KeyAliases } from '../../identity/key-aliases.ts';
import { environmentSecrets, Keyring } from '../../identity/keyring.ts';
import { SigningKeys } from '../../identity/signing-keys.ts';
import { TokenVerifier } from '../../identity/token.ts';
import { DatabaseClock } from '../../postgres/database-clock.ts';
import type { OwnerDatabase } from '../../postgres/owner-database.ts';
import type { BackendOptions } from '../backend-options.ts';
import { RetryUntilDone } from '../retry-until-done.ts';

export type Identity = {
  readonly clock: DatabaseClock;
  readonly keyring: Keyring;
  readonly signingKeys: SigningKeys;
  readonly keyAliases: KeyAliases;
  readonly verifier: TokenVerifier;
  readonly keysReload: RetryUntilDone;
};

/** Creates the verifiers of callers' credentials. `loadKeys` loads the keys later. */
export async function openIdentity(
  owner: OwnerDatabase,
  options: BackendOptions,
  onSigningKeys: () => void,
): Promise<Identity> {
  const { log } = options;
  const keyring = await openKeyring(owner, options);
  const clock = new DatabaseClock(owner, log);
  const signingKeys: SigningKeys = new SigningKeys(owner, keyring.box('signing keys'), () => {
    verifier.forget();
    onSigningKeys();
  });
  const verifier: TokenVerifier = new TokenVerifier(signingKeys, () =>
    Math.floor(clock.now().getTime() / 1000),
  );
  const keyAliases = new KeyAliases(owner, {
    now: () => clock.now().getTime(),
    onChange: () => verifier.forget(),
  });
  const keysReload = new RetryUntilDone(
    async () => {
      await signingKeys.reload();
      await keyAliases.load();
    },
    (error) =>
      log.error(
        { err: error, job: 'signing keys' },
        'could not read the signing keys again; trying until it succeeds',
      ),
  );
  return { clock, keyring, signingKeys, keyAliases, verifier, keysReload };
}

/**
 * Opens the keyring. Replaces keys of a lost secret only in development: in production that would sign out
 * all users.
 */
async function openKeyring(owner: OwnerDatabase, { keys, env, dev }: BackendOptions): Promise<Keyring> {
  const secrets = environmentSecrets(keys.secret, env);
  return await Keyring.open(owner, secrets, dev ? 'replace' : 'refuse');
}

export async function loadKeys({ signingKeys, keyAliases }: Identity): Promise<void> {
  await signingKeys.load();
  await keyAliases.load();
}

/** Returns whether one of the headers has a secret key. */
export function hasSecretKey(credentials: CredentialReader, { headers }: IncomingMessage): boolean {
  const { apikey, authorization } = headers;
  const presented = credentials.readKnown({ apikey, authorization });
  return presented?.apikey.kind === 'secret' || presented?.bearer.kind === 'secret';
}
